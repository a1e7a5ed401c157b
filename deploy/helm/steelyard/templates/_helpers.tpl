{{- /* The prefix of all names. With at most 40 characters the longest names stay below 63. */ -}}
{{- define "steelyard.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-steelyard" .Release.Name) (contains "steelyard" .Release.Name) -}}
{{- if gt (len $name) 40 }}{{ fail (printf "the release's name makes %s, which is longer than 40: choose a shorter one" $name) }}{{ end -}}
{{- $name -}}
{{- end -}}

{{- /* The labels that select a component's pods: (list $ "controller"). */ -}}
{{- define "steelyard.selector" -}}
app.kubernetes.io/name: steelyard
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* name, namespace and labels of an object: (list $ "controller" "steelyard-controller"). A fourth
argument is the namespace, if it is not the release's; empty: none. Labels come last, so more may follow. */ -}}
{{- define "steelyard.metadata" -}}
{{- $root := index . 0 -}}
{{- $namespace := $root.Release.Namespace -}}
{{- if gt (len .) 3 }}{{ $namespace = index . 3 }}{{ end -}}
name: {{ index . 2 }}
{{- with $namespace }}
namespace: {{ . | quote }}
{{- end }}
labels:
  {{- include "steelyard.selector" (list $root (index . 1)) | nindent 2 }}
  app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ $root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "steelyard.image" -}}
{{- $root := index . 0 -}}
{{ $root.Values.images.registry }}steelyard-{{ index . 1 }}:{{ $root.Values.images.tag | default $root.Chart.AppVersion }}
{{- end -}}

{{- /* A Service's full name, for every resolver including nginx's: (list $ "steelyard-memcached"). */ -}}
{{- define "steelyard.host" -}}
{{- $root := index . 0 -}}
{{ index . 1 }}.{{ $root.Release.Namespace }}.svc.{{ $root.Values.clusterDomain }}
{{- end -}}

{{- define "steelyard.memcached" -}}
{{- .Values.memcached.servers | default (printf "%s:11211" (include "steelyard.host" (list . (printf "%s-memcached" (include "steelyard.fullname" .))))) -}}
{{- end -}}

{{- define "steelyard.secret" -}}
{{- .Values.secrets.existing | default (include "steelyard.fullname" .) -}}
{{- end -}}

{{- /* The controllers' URLs, each by its own name, so that the next one is asked when a machine is gone. */ -}}
{{- define "steelyard.controllerUrls" -}}
{{- $name := printf "%s-controller" (include "steelyard.fullname" .) -}}
{{- $urls := list -}}
{{- range $i := until (int .Values.controllers.replicas) -}}
{{- $urls = append $urls (printf "http://%s-%d.%s:8081" $name $i (include "steelyard.host" (list $ (printf "%s-peers" $name)))) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{- /* The names of the data plane's pods: the load balancers that the controllers expect. */ -}}
{{- define "steelyard.loadBalancers" -}}
{{- $names := list -}}
{{- range $i := until (int .Values.dataplane.replicas) -}}
{{- $names = append $names (printf "%s-dataplane-%d" (include "steelyard.fullname" $) $i) -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

{{- /* The common part of every pod: component, user, ServiceAccount, and whether it gets the token. */ -}}
{{- define "steelyard.pod" -}}
{{- $root := index . 0 -}}
{{- $uid := index . 2 -}}
serviceAccountName: {{ index . 3 }}
automountServiceAccountToken: {{ index . 4 }}
# Otherwise Kubernetes sets STEELYARD_..._PORT for each Service, among our own settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $uid }}
  runAsGroup: {{ $uid }}
  # Secrets are files that this group may read.
  fsGroup: {{ $uid }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- if ne (index . 1) "agent" }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Prefers different nodes for the pods of a component. */ -}}
{{- define "steelyard.apart" -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "steelyard.selector" . | nindent 14 }}
{{- end -}}

{{- define "steelyard.hardened" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* A component's ServiceAccount: (list $ "controller"). Each pod says whether it gets the token. */ -}}
{{- define "steelyard.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata: {{- include "steelyard.metadata" (list (index . 0) (index . 1) (printf "%s-%s" (include "steelyard.fullname" (index . 0)) (index . 1))) | nindent 2 }}
automountServiceAccountToken: false
{{- end -}}

{{- /* Connections to a component: (list $ "redis" $ingress), and "Egress" if it may open none itself. */ -}}
{{- define "steelyard.networkPolicy" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{- include "steelyard.metadata" (list $root $component (printf "%s-%s" (include "steelyard.fullname" $root) $component)) | nindent 2 }}
spec:
  podSelector:
    matchLabels: {{- include "steelyard.selector" (list $root $component) | nindent 6 }}
  policyTypes: {{- concat (list "Ingress") (slice . 3) | toYaml | nindent 4 }}
  ingress: {{- toYaml (index . 2) | nindent 4 }}
{{- end -}}
