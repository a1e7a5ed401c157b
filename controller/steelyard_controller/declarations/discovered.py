"""What Kubernetes declares of an upstream beside what a person does: its pods, and what they can do. Pure.

Whose field it is decides who may set it, so nobody undoes what the other said:

    Kubernetes      which pods there are, the address of each, its zone, its condition
    a person        all else: law, state (a drain by hand), pin, baseline, and peers that are no pods
    in effect       a person's state where it is not `up`; else that of the condition

    ready           up
    unready         down
    terminating     drain; up while no other peer is, for it serves still (as kube-proxy has it, KEP 1669)

A peer that the configuration file declares is the file's, also where a pod has its name.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from steelyard_protocol.weight_table import State

from steelyard_controller.declarations.upstream import Peer, Upstream

Condition = Literal["ready", "unready", "terminating"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that may serve: the peer's id, its IP:port, its condition, and its zone."""

    id: str
    address: str
    condition: Condition
    zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """The Service (namespace/name) that declares the pods, and the condition of each peer that is one."""

    service: str
    conditions: Mapping[str, Condition]


def in_effect(upstream: Upstream, conditions: Mapping[str, Condition]) -> Upstream:
    """Return the upstream with the states in effect: what the weight table says."""
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
    """Return the peers with the pods as they are now: those in `known` that are none any more are gone.

    A peer that was declared before its pod was seen (its agent registered it) is the pod from now on.
    """
    now = {
        pod.id: Peer(id=pod.id, address=pod.address, zone=pod.zone) for pod in pods if pod.id not in of_file
    }
    stay = [peer for peer in peers if peer.id in now or peer.id in of_file or peer.id not in known]
    moved = [_as_pod(peer, now[peer.id]) if peer.id in now else peer for peer in stay]
    there = {peer.id for peer in stay}
    return moved + [peer for name, peer in now.items() if name not in there]


def with_pods_kept(wanted: Upstream, before: Upstream, pods: Collection[str]) -> Upstream:
    """Return what a person wants, with the pods, their addresses and zones as they were before."""
    kept = {peer.id: peer for peer in before.peers if peer.id in pods}
    given = [_as_pod(peer, kept[peer.id]) if peer.id in kept else peer for peer in wanted.peers]
    there = {peer.id for peer in wanted.peers}
    fields = {name: getattr(wanted, name) for name in Upstream.model_fields}
    return Upstream(**{**fields, "peers": given + [peer for name, peer in kept.items() if name not in there]})


def _as_pod(peer: Peer, pod: Peer) -> Peer:
    return peer.model_copy(update={"address": pod.address, "zone": pod.zone})


def differences(before: Mapping[str, Condition], after: Mapping[str, Condition]) -> str:
    """Return in a line whose condition changed: `web-1: pod ready -> unready`."""
    return "; ".join(
        f"{peer}: pod {before[peer]} -> {condition}"
        for peer, condition in after.items()
        if before.get(peer, condition) != condition
    )
