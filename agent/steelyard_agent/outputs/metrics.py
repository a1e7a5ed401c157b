"""The agent's newest status, and its text for Prometheus (version 0.0.4). Pure.

A figure without a measurement has no line: a gap in a graph, and not a zero.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from steelyard_protocol.sample_record import CAPACITIES, INDICATORS, SampleRecord

from steelyard_agent.outputs import orca_report

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """The part of every status about Memcached; `at_s` is monotonic.

    `delivered` and `dropped` count samples since the start; `reachable` is by Memcached server.
    """

    at_s: float
    stale_s: float
    delivered: int
    dropped: int
    reachable: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Deliveries):
    """The state after a tick. `record` is None without a sample.

    `registered` is whether a controller accepted the last registration, None for a server without one;
    `application` is the application's own load report (ORCA).
    """

    record: SampleRecord | None
    registered: bool | None = None
    application: orca_report.LoadReport = field(default_factory=dict)


def is_fresh(status: Deliveries | None, now_s: float) -> bool:
    """Return whether the status is younger than a sample's life in Memcached."""
    return status is not None and now_s - status.at_s <= status.stale_s


def fresh(status: Status | None, now_s: float) -> SampleRecord | None:
    """Return the sample, unless it is older than it would live in Memcached."""
    return status.record if status is not None and is_fresh(status, now_s) else None


def family(name: str, kind: str, about: str, values: Iterable[tuple[Labels, float]]) -> list[str]:
    """Return the lines of one metric; none without a value."""
    lines = [f"{name}{_labels(labels)} {_number(number)}" for labels, number in values]
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *lines] if lines else []


def common_families(status: Deliveries | None, *, cpu_s: float) -> list[str]:
    """Return the lines of every agent: its CPU time `cpu_s`, and the fate of its samples."""
    lines = family("process_cpu_seconds_total", "counter", "CPU time of the agent.", [({}, cpu_s)])
    if status is not None:
        lines += family(
            "steelyard_agent_samples_total", "counter", "Samples since the start, by outcome.",
            [({"result": "delivered"}, status.delivered), ({"result": "dropped"}, status.dropped)],
        )  # fmt: skip
        lines += family(
            "steelyard_agent_memcached_up", "gauge", "Whether a server took its last sample.",
            [({"server": server}, float(up)) for server, up in status.reachable.items()],
        )  # fmt: skip
    return lines


def prometheus(status: Status | None, record: SampleRecord | None, *, cpu_s: float) -> str:
    """Return Prometheus's page; `record` is a fresh sample or None, `cpu_s` the CPU time of this process."""
    lines = common_families(status, cpu_s=cpu_s)
    if status is not None:
        lines += family(
            "steelyard_agent_registered", "gauge", "Whether a controller took the last registration.",
            [] if status.registered is None else [({}, float(status.registered))],
        )  # fmt: skip
    if record is not None:
        lines += family(
            "steelyard_agent_info", "gauge", "Whose samples these are.",
            [({"upstream": record.upstream, "peer": record.peer, "scope": record.scope}, 1.0)],
        )  # fmt: skip
        lines += family(
            "steelyard_agent_sample_interval_seconds", "gauge", "Time that the newest sample averages over.",
            [({}, record.interval_s)],
        )  # fmt: skip
        lines += family(
            "steelyard_agent_utilization", "gauge",
            "Share in use, 0 to 1; CPU may exceed 1, and so may the application's own.",
            measured(
                "indicator",
                (*INDICATORS, *(name for name, _ in record.further)),
                (*record.utilization, *(value for _, value in record.further)),
            ),
        )  # fmt: skip
        lines += family(
            "steelyard_agent_capacity", "gauge", "Capacity at a utilization of 1.",
            measured("resource", CAPACITIES, record.capacity),
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def measured(label: str, names: Iterable[str], values: Iterable[float | None]) -> list[tuple[Labels, float]]:
    """Return the values other than None, each with its name as a label."""
    return [({label: name}, value) for name, value in zip(names, values, strict=True) if value is not None]


def _labels(labels: Labels) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))
