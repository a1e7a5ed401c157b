"""Invariants of the rendered chart for all values: of every pod, and between its objects."""

import re
from collections.abc import Collection, Iterator
from typing import Any

from steelyard_agent import flags as agent
from steelyard_controller import flags as controller

from deploy.tests.rendered_chart import ROOT, Document, Rendered, environment, matches

HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

# Only a node's agent reads other pods' control groups, and so sees the node.
HOST = {"agent": {"hostPID"}}
HOST_PATHS = {"agent": {"/sys/fs/cgroup"}}

# Components with a token for the API server.
ASKS_THE_API = {"agent", "controller"}


def _names_in(*paths: str) -> set[str]:
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in paths]
    return {name for text in texts for name in re.findall(r"\bSTEELYARD_[A-Z_]+\b", text)}


# The environment that each part reads.
READ = {
    "controller": controller.FLAGS.variables()
    | {controller.FLAGS.variable(name) for name in controller.TABLES}
    | {"OTEL_EXPORTER_OTLP_ENDPOINT"},
    "agent": agent.FLAGS.variables(),
    "dataplane": _names_in("openresty/docker/lua/steelyard_environment.lua", "openresty/docker/start"),
    "memcached": set(),
    "redis": set(),
}


def _paths_of_controller() -> set[str]:
    routes = (ROOT / "controller/steelyard_controller/api/routes_service.py").read_text(encoding="utf-8")
    return set(re.findall(r'@router\.get\("(/\w+)"', routes))


def _paths_of_agent() -> set[str]:
    sources = (ROOT / "agent/steelyard_agent").rglob("*.py")
    return {path for each in sources for path in re.findall(r'"(/[a-z]+)"', each.read_text(encoding="utf-8"))}


PATHS = {"controller": _paths_of_controller(), "agent": _paths_of_agent()}


def check(rendered: Rendered) -> None:
    """Assert all invariants."""
    for component, pod in rendered.pods.items():
        pod_is_hardened(component, pod["spec"])
        mounts_are_there(rendered, pod["spec"])
    for component, container in rendered.containers:
        container_is_hardened(container)
        environment_is_read(component, container)
        probes_ask_what_there_is(rendered, component, container)
    services_reach_containers(rendered)
    policies_name_ports_of_containers(rendered)
    what_selects_pods_selects_ours(rendered)
    names_are_no_longer_than_allowed(rendered)


def pod_is_hardened(component: str, spec: Document) -> None:
    """Assert that no pod is root, or sees the node or the API server without a reason."""
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["enableServiceLinks"] is False
    assert not spec["automountServiceAccountToken"] or component in ASKS_THE_API
    assert {name for name in spec if name.startswith("host") and spec[name]} == HOST.get(component, set())
    paths = {volume["hostPath"]["path"] for volume in spec.get("volumes", []) if "hostPath" in volume}
    assert paths == HOST_PATHS.get(component, set())


def container_is_hardened(container: Document) -> None:
    """Assert that a container is hardened as in docker-compose.yml, with limited resources."""
    assert container["securityContext"] == HARDENED
    assert {"cpu", "memory"} <= container["resources"]["requests"].keys() & container["resources"][
        "limits"
    ].keys()
    assert not container["image"].endswith(":latest")
    assert re.fullmatch(r"[^:]+(:[0-9]+/[^:]+)?:[^:]+", container["image"])
    for mount in container.get("volumeMounts", []):
        assert mount.get("readOnly") or mount["name"] in {"state", "tmp", "data"}, mount
    for name, value in environment(container).items():
        # A secret in the environment is in `kubectl describe`.
        if re.search("KEY|TOKEN|PASSWORD", name):
            assert name.endswith("_FILE"), name
            assert value.startswith("/run/secrets/"), name


def environment_is_read(component: str, container: Document, but: Collection[str] = ()) -> None:
    """Assert that each variable is read, because an unread one is a setting without effect."""
    assert environment(container).keys() <= READ[component] | set(but), component
    for name, value in environment(container).items():
        if name.endswith("_FILE"):
            folder, _, file = value.rpartition("/")
            assert folder in {mount["mountPath"] for mount in container["volumeMounts"]}, name
            assert file


def mounts_are_there(rendered: Rendered, spec: Document) -> None:
    """Assert that each mounted volume is in the chart, or is a Secret named in the values."""
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    claims = {
        claim["metadata"]["name"]
        for workload in rendered.of("StatefulSet")
        if workload["spec"]["template"]["spec"] is spec
        for claim in workload["spec"].get("volumeClaimTemplates", [])
    }
    mounted = {
        mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", [])
    }
    assert mounted == volumes.keys() | claims
    secrets = {each["metadata"]["name"]: each for each in rendered.of("Secret")}
    for volume in volumes.values():
        if "configMap" in volume:
            rendered.named("ConfigMap", volume["configMap"]["name"])
        if "secret" in volume:
            assert volume["secret"]["defaultMode"] == 0o440
            made = secrets.get(volume["secret"]["secretName"])
            wanted = {item["key"] for item in volume["secret"].get("items", [])}
            assert made is None or wanted <= made["data"].keys()
    rendered.named("ServiceAccount", spec["serviceAccountName"])


def probes_ask_what_there_is(rendered: Rendered, component: str, container: Document) -> None:
    """Assert that each container has probes for liveness and readiness, at a path that it serves."""
    ports = {port["name"] for port in container["ports"]}
    assert {"livenessProbe", "readinessProbe"} <= container.keys()
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        if "httpGet" in (probe := container.get(name, {})):
            asked = probe["httpGet"]
            assert asked["port"] in ports
            assert asked["path"] in (locations(rendered) if component == "dataplane" else PATHS[component])
            assert probe["timeoutSeconds"] >= 2  # a busy node must not look like a dead pod


def locations(rendered: Rendered) -> set[str]:
    """Return the exact locations of the data plane's nginx."""
    (config,) = (
        each["data"]["nginx.conf"] for each in rendered.of("ConfigMap") if "nginx.conf" in each["data"]
    )
    return set(re.findall(r"location = (\S+) {", config))


def services_reach_containers(rendered: Rendered) -> None:
    """Assert that a Service's port is a port of its pods."""
    for service in rendered.of("Service"):
        for port in service["spec"]["ports"]:
            for pod in _selected(rendered, {"matchLabels": service["spec"]["selector"]}):
                names = {
                    each["name"] for container in pod["spec"]["containers"] for each in container["ports"]
                }
                assert port["targetPort"] in names
    services = {service["metadata"]["name"] for service in rendered.of("Service")}
    assert {workload["spec"]["serviceName"] for workload in rendered.of("StatefulSet")} <= services


def policies_name_ports_of_containers(rendered: Rendered) -> None:
    """Assert that a NetworkPolicy admits connections to all ports of its pods, and to no others."""
    for policy in rendered.of("NetworkPolicy"):
        (pod,) = _selected(rendered, policy["spec"]["podSelector"])
        has = {port["containerPort"] for each in pod["spec"]["containers"] for port in each["ports"]}
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == has


def what_selects_pods_selects_ours(rendered: Rendered) -> None:
    """Assert that each selector selects pods, and those of one component."""
    for workload in rendered.workloads.values():
        assert len(_selected(rendered, workload["spec"]["selector"])) == 1
    for budget in rendered.of("PodDisruptionBudget"):
        (pod,) = _selected(rendered, budget["spec"]["selector"])
        replicas = next(
            each["spec"]["replicas"]
            for each in rendered.workloads.values()
            if each["spec"]["template"] is pod
        )
        # Otherwise a node could never be drained.
        assert budget["spec"]["maxUnavailable"] < replicas
    for binding in rendered.of("RoleBinding", "ClusterRoleBinding"):
        rendered.named("ServiceAccount", binding["subjects"][0]["name"])
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        assert any(each["metadata"]["name"] == name for each in rendered.of(kind))


def names_are_no_longer_than_allowed(rendered: Rendered) -> None:
    """Assert short names: DNS labels have 63 characters, and a StatefulSet's pods add ten of a hash."""
    for each in rendered.documents:
        longest = 52 if each["kind"] == "StatefulSet" else 63
        assert len(each["metadata"]["name"]) <= longest or "Role" in each["kind"]


def _selected(rendered: Rendered, selector: Any) -> list[Document]:
    return [pod for pod in rendered.pods.values() if matches(selector, pod["metadata"]["labels"])]


def verbs(rendered: Rendered) -> Iterator[tuple[str, str, str]]:
    """Return what the chart's roles allow: (component, resource, verb)."""
    for role in rendered.of("Role", "ClusterRole"):
        component = role["metadata"]["labels"]["app.kubernetes.io/component"]
        for rule in role["rules"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield component, resource, verb
