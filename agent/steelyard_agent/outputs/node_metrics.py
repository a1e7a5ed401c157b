"""The node agent's newest status, and its text for Prometheus. Pure.

The number of pods' series is bounded by `pod_list.MOST_PODS`, and a series ends with its pod.
"""

from collections.abc import Callable
from dataclasses import dataclass

from steelyard_protocol.sample_record import CAPACITIES, INDICATORS, SampleRecord

from steelyard_agent.outputs.metrics import Deliveries, Labels, common_families, family, is_fresh, measured


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus(Deliveries):
    """The state after a tick, with its samples in `records`.

    `absent` counts pods without a sample; `listed` is whether the API server answered the last time.
    """

    records: tuple[SampleRecord, ...]
    absent: int
    listed: bool


def prometheus(status: NodeStatus | None, now_s: float, *, cpu_s: float) -> str:
    """Return Prometheus's page; `cpu_s` is the CPU time of this process."""
    lines = common_families(status, cpu_s=cpu_s)
    if status is not None:
        lines += family(
            "steelyard_agent_pods", "gauge", "Pods that are to be sampled, by whether they were.",
            [({"result": "sampled"}, len(status.records)), ({"result": "absent"}, status.absent)],
        )  # fmt: skip
        lines += family(
            "steelyard_agent_api_server_up", "gauge", "Whether the API server's last answer listed the pods.",
            [({}, float(status.listed))],
        )  # fmt: skip
    if status is not None and is_fresh(status, now_s):
        lines += family(
            "steelyard_agent_utilization", "gauge", "Share in use by pod, 0 to 1; CPU may exceed 1.",
            _by_pod(status, lambda one: measured("indicator", INDICATORS, one.utilization)),
        )  # fmt: skip
        lines += family(
            "steelyard_agent_capacity", "gauge", "Capacity at a utilization of 1.",
            _by_pod(status, lambda one: measured("resource", CAPACITIES, one.capacity)),
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def _by_pod(
    status: NodeStatus, values: Callable[[SampleRecord], list[tuple[Labels, float]]]
) -> list[tuple[Labels, float]]:
    return [
        ({"upstream": one.upstream, "peer": one.peer, **labels}, value)
        for one in status.records
        for labels, value in values(one)
    ]
