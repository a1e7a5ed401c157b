"""The API server's list of pods: those to sample, with their upstreams, and those that cannot be sampled.

Pure: the text of an answer in, pods and faults out. The request is for metadata only
(`PartialObjectMetadataList`, https://kubernetes.io/docs/reference/using-api/api-concepts/). The upstream is
the value of the label `steelyard/upstream`, the peer the pod's name.

A static pod's control group is named after its hash, the pod's name in the kubelet. The uid of its mirror in
the API server is another one (kubelet, `pkg/kubelet/types`: `kubernetes.io/config.hash`).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from steelyard_protocol import wire

UPSTREAM_LABEL = "steelyard/upstream"

STATIC_POD_ANNOTATION = "kubernetes.io/config.hash"

LIST_KIND = "PartialObjectMetadataList"
ACCEPT = f"application/json;as={LIST_KIND};g=meta.k8s.io;v=v1"

# Twice a kubelet's default maximum (110), and the highest common one.
MOST_PODS = 250

# Possible parts of a folder's name. A uid is the API server's; a hash is 32 digits.
_UID = re.compile(r"[0-9A-Za-z-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod to be sampled. `uid` names its control group; `leaving`: it is being deleted."""

    namespace: str
    name: str
    uid: str
    upstream: str
    leaving: bool = False

    @property
    def full_name(self) -> str:
        """Return the name with the namespace, which is unique."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodList:
    """The sampled pods, sorted by name, and the reasons against the others, by name."""

    pods: tuple[Pod, ...]
    faults: Mapping[str, str]


def path(node: str) -> str:
    """Return the path of the request to the API server: a node's running pods with the label."""
    asked = {
        "labelSelector": UPSTREAM_LABEL,
        "fieldSelector": f"spec.nodeName={node},status.phase=Running",
        # From the API server's cache, which may be a moment old: etcd is not asked.
        "resourceVersion": "0",
    }
    return f"/api/v1/pods?{urlencode(asked)}"


def parse(text: bytes) -> PodList:
    """Read an answer; raise ValueError if it is not a list of pods."""
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("kind") != LIST_KIND:
        raise ValueError(f"it is no {LIST_KIND}")
    items = document.get("items") or []  # without pods it is null
    if not isinstance(items, list):
        raise ValueError("its items are no list")
    pods: dict[str, Pod] = {}
    faults: dict[str, str] = {}
    # Older ones first: among two that claim one name, the older one is sampled already.
    for one in sorted((_metadata(item) for item in items), key=_age):
        pod = _pod(one)
        if isinstance(pod, str):
            faults[f"{one.get('namespace')}/{one.get('name')}"] = pod
        elif (other := pods.get(f"{pod.upstream}/{pod.name}")) is not None:
            faults[pod.full_name] = (
                f"pod {other.full_name} is {pod.upstream}/{pod.name} already: "
                "give one of them another label, or another name"
            )
        elif len(pods) >= MOST_PODS:
            faults[pod.full_name] = f"one agent samples {MOST_PODS} pods at most"
        else:
            pods[f"{pod.upstream}/{pod.name}"] = pod
    ordered = sorted(pods.values(), key=lambda pod: pod.full_name)
    return PodList(pods=tuple(ordered), faults=faults)


def _metadata(item: object) -> Mapping[str, object]:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("it has a pod without metadata")
    return metadata


def _age(metadata: Mapping[str, object]) -> tuple[str, str, str]:
    # Times are RFC 3339 in UTC, so texts compare as times do.
    return (str(metadata.get("creationTimestamp")), str(metadata.get("namespace")), str(metadata.get("name")))


def _pod(metadata: Mapping[str, object]) -> Pod | str:
    """Return the pod, or why it is not sampled."""
    namespace, name = metadata.get("namespace"), metadata.get("name")
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    upstream = labels.get(UPSTREAM_LABEL) if isinstance(labels, dict) else None
    uid = annotations.get(STATIC_POD_ANNOTATION) if isinstance(annotations, dict) else None
    uid = uid or metadata.get("uid")
    if not isinstance(namespace, str) or not isinstance(uid, str) or not _UID.fullmatch(uid):
        return "the API server names neither its namespace nor its uid"
    if not isinstance(name, str) or not wire.is_name(name):
        return "a peer's name has at most 64 letters: give the pod a shorter name"
    if not isinstance(upstream, str) or not wire.is_name(upstream):
        return f"its label {UPSTREAM_LABEL} is {upstream!r}: give the name of an upstream, such as web"
    return Pod(
        namespace=namespace,
        name=name,
        uid=uid,
        upstream=upstream,
        leaving=metadata.get("deletionTimestamp") is not None,
    )
