"""The pods that Kubernetes declares for an upstream, beside a person's declarations. Pure.

Each field has one owner who may set it, so neither undoes the other's changes:

    Kubernetes      the pods, with their addresses, zones and conditions
    a person        all else: law, state (a drain by hand), pin, baseline, and peers that are not pods
    in effect       a person's state unless it is `up`; then the state that follows from the condition

    ready           up
    unready         down
    terminating     drain; up while no other peer is up, because it still serves (as in kube-proxy, KEP 1669)

A peer in the configuration file belongs to the file, even if a pod has its name.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from steelyard_protocol.weight_table import State

from steelyard_controller.declarations.upstream import Peer, Upstream

Condition = Literal["ready", "unready", "terminating"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of a Service: the peer's id, its IP:port, its condition, and its zone."""

    id: str
    address: str
    condition: Condition
    zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """The Service (namespace/name) of the pods, and the condition of each peer that is a pod."""

    service: str
    conditions: Mapping[str, Condition]


def in_effect(upstream: Upstream, conditions: Mapping[str, Condition]) -> Upstream:
    """Return the upstream with the states in effect, for the weight table."""
    if all(condition == "ready" for condition in conditions.values()):
        return upstream
    is_served = any(
        peer.state == "up" and conditions.get(peer.id, "ready") == "ready" for peer in upstream.peers
    )
    states: Mapping[str, State] = {
        "ready": "up",
        "unready": "down",
        "terminating": "drain" if is_served else "up",
    }
    peers = [
        peer.model_copy(update={"state": states[conditions[peer.id]]})
        if peer.state == "up" and peer.id in conditions
        else peer
        for peer in upstream.peers
    ]
    return upstream.model_copy(update={"peers": peers})


def with_pods(
    peers: Iterable[Peer], *, known: Collection[str], of_file: Collection[str], pods: Iterable[Pod]
) -> list[Peer]:
    """Return the peers with the current pods; peers in `known` that are no longer pods are removed.

    A peer that was declared before its pod was seen (its agent registered it) is the pod from now on.
    """
    now = {
        pod.id: Peer(id=pod.id, address=pod.address, zone=pod.zone) for pod in pods if pod.id not in of_file
    }
    stay = [peer for peer in peers if peer.id in now or peer.id in of_file or peer.id not in known]
    moved = [_as_pod(peer, now[peer.id]) if peer.id in now else peer for peer in stay]
    ids = {peer.id for peer in stay}
    return moved + [peer for name, peer in now.items() if name not in ids]


def with_pods_kept(wanted: Upstream, before: Upstream, pods: Collection[str]) -> Upstream:
    """Return a person's upstream with the pods, their addresses and zones as they were."""
    kept = {peer.id: peer for peer in before.peers if peer.id in pods}
    peers = [_as_pod(peer, kept[peer.id]) if peer.id in kept else peer for peer in wanted.peers]
    ids = {peer.id for peer in wanted.peers}
    fields = {name: getattr(wanted, name) for name in Upstream.model_fields}
    return Upstream(**{**fields, "peers": peers + [peer for name, peer in kept.items() if name not in ids]})


def _as_pod(peer: Peer, pod: Peer) -> Peer:
    return peer.model_copy(update={"address": pod.address, "zone": pod.zone})


def differences(before: Mapping[str, Condition], after: Mapping[str, Condition]) -> str:
    """Return the changed conditions in one line: `web-1: pod ready -> unready`."""
    return "; ".join(
        f"{peer}: pod {before[peer]} -> {condition}"
        for peer, condition in after.items()
        if before.get(peer, condition) != condition
    )
