"""Parsers of the flags for a node's pods, and the flags for one server only. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard_protocol import setting_values
from steelyard_protocol.setting_values import Address

# Set by the kubelet in every container, like the address of the Service "kubernetes".
HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE = "KUBERNETES_SERVICE_PORT"

# RFC 1123's subdomains, as Kubernetes names nodes.
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

_OF_ONE_SERVER: Mapping[str, str] = {
    "upstream": "a pod's upstream is in its label steelyard/upstream",
    "peer": "a pod's own name is the peer's",
    "cpu-limit": "a pod's CPU limit is in its control group",
    "mem-limit": "a pod's memory limit is in its control group",
    "orca": "for Prometheus give --metrics; ORCA is spoken by an agent beside the server (a sidecar)",
    "orca-grpc": "ORCA is spoken by an agent beside the server (a sidecar)",
    "orca-app": "ORCA is spoken by an agent beside the server (a sidecar)",
    "register": "the controller discovers pods",
}
"""Flags with one meaning for all pods, and the alternatives."""

OF_PODS = ("node", "service-account", "metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsSettings:
    """The node, the API server to ask for its pods, and the address of /metrics.

    `service_account` is the folder with the token and ca.crt.
    """

    node: str
    api_server: Address
    service_account: Path
    metrics: Address | None = None


def node(text: str) -> str:
    """Return the name of a node."""
    if not _NODE.fullmatch(text):
        raise ValueError("give the node's name, in a pod from the downward API (fieldPath: spec.nodeName)")
    return text


def metrics(text: str) -> Address:
    """Return the address of /metrics and /healthz."""
    return setting_values.address(text, "127.0.0.1", None, "give an address, such as *:9811 (every address)")


def api_server(environment: Mapping[str, str]) -> Address:
    """Return the API server's address; the ValueError names the missing variable."""
    host, port = environment.get(HOST_VARIABLE, ""), environment.get(PORT_VARIABLE, "")
    if not host:
        raise ValueError(f"{HOST_VARIABLE} is not set, as it is in every container of a pod")
    try:
        return host, setting_values.port(port)
    except ValueError as error:
        raise ValueError(f"{PORT_VARIABLE} is {port!r}: {error}") from None


def refusal(given: Iterable[str]) -> str | None:
    """Return why the pods of a node cannot be sampled with one of these flags; None if they can."""
    wrong = next((flag for flag in given if flag in _OF_ONE_SERVER), None)
    return (
        None
        if wrong is None
        else f"--{wrong} is for one server, not for --scope pods: {_OF_ONE_SERVER[wrong]}"
    )
