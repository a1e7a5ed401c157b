"""The agent's newest status, as text for those who ask: ORCA and Prometheus (version 0.0.4). Pure.

A figure that was not measured has no line: a gap in a graph, and not a zero.
ORCA's endpoint-load-metrics is what proxies and gRPC clients balance by:

    TEXT cpu_utilization=0.42,mem_utilization=0.31,named_metrics.net=0.02,named_metrics.io=0.1

(xds.data.orca.v3.OrcaLoadReport, in the text form of an HTTP header.) The
report has fields for CPU and memory; net, io and an application's own indicators
are named metrics, because a reader that does not know a field refuses the whole
value, and all know those: Envoy's reads no named utilization in this form.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from steelyard_protocol.sample_record import CAPACITIES, INDICATORS, SampleRecord

ORCA_HEADER = "endpoint-load-metrics"

ORCA_FIELDS = {
    "cpu": "cpu_utilization",
    "mem": "mem_utilization",
    "net": "named_metrics.net",
    "io": "named_metrics.io",
}

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state after a tick. `at_s` is monotonic; `record` is None while there is nothing to sample.

    `delivered` and `dropped` count samples since the start; `reachable` is by Memcached server;
    `registered` tells whether a controller took the last registration, None for a server that has none.
    """

    at_s: float
    stale_s: float
    record: SampleRecord | None
    delivered: int
    dropped: int
    reachable: Mapping[str, bool]
    registered: bool | None = None


class StatusOutput(Protocol):
    """A place where the newest status is shown, such as a file."""

    def show(self, status: Status) -> None:
        """Show it instead of the one before; never raise."""
        ...

    def close(self) -> None:
        """Stop showing it."""
        ...


def fresh(status: Status | None, now_s: float) -> SampleRecord | None:
    """Return the sample, unless it is older than it would live in Memcached."""
    if status is None or now_s - status.at_s > status.stale_s:
        return None
    return status.record


def orca(record: SampleRecord) -> str | None:
    """Return the ORCA value of a sample; None when nothing was measured, as an empty one is refused."""
    measured = dict(zip(INDICATORS, record.utilization, strict=True))
    values = [(field, measured[name]) for name, field in ORCA_FIELDS.items()]
    values += [(f"named_metrics.{name}", value) for name, value in record.further]
    parts = [f"{field}={_plain(number)}" for field, number in values if number is not None]
    return f"TEXT {','.join(parts)}" if parts else None


def _plain(number: float) -> str:
    # Without an exponent, which not every parser reads.
    return f"{number:.6f}".rstrip("0").rstrip(".")


def prometheus(status: Status | None, record: SampleRecord | None, *, cpu_s: float) -> str:
    """Return Prometheus's page; `record` is the sample if it is fresh, `cpu_s` what this process spent."""
    lines: list[str] = []

    def family(name: str, kind: str, about: str, values: Iterable[tuple[Labels, float]]) -> None:
        found = [f"{name}{_labels(labels)} {_number(number)}" for labels, number in values]
        if found:
            lines.extend([f"# HELP {name} {about}", f"# TYPE {name} {kind}", *found])

    family("process_cpu_seconds_total", "counter", "CPU time that the agent spent.", [({}, cpu_s)])
    if status is not None:
        family(
            "steelyard_agent_samples_total", "counter", "Samples since the start, by what became of them.",
            [({"result": "delivered"}, status.delivered), ({"result": "dropped"}, status.dropped)],
        )  # fmt: skip
        family(
            "steelyard_agent_memcached_up", "gauge", "Whether a server took the last sample it was offered.",
            [({"server": server}, float(up)) for server, up in status.reachable.items()],
        )  # fmt: skip
        family(
            "steelyard_agent_registered", "gauge", "Whether a controller took the last registration.",
            [] if status.registered is None else [({}, float(status.registered))],
        )  # fmt: skip
    if record is not None:
        family(
            "steelyard_agent_info", "gauge", "Whose samples these are.",
            [({"upstream": record.upstream, "peer": record.peer, "scope": record.scope}, 1.0)],
        )  # fmt: skip
        family(
            "steelyard_agent_sample_interval_seconds", "gauge", "Time that the newest sample averages over.",
            [({}, record.interval_s)],
        )  # fmt: skip
        family(
            "steelyard_agent_utilization", "gauge", "Share in use, 0 to 1; CPU may exceed 1.",
            _measured("indicator", INDICATORS, record.utilization),
        )  # fmt: skip
        family(
            "steelyard_agent_capacity", "gauge", "What a utilization of 1 is.",
            _measured("resource", CAPACITIES, record.capacity),
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def _measured(label: str, names: Iterable[str], values: Iterable[float | None]) -> list[tuple[Labels, float]]:
    return [({label: name}, value) for name, value in zip(names, values, strict=True) if value is not None]


def _labels(labels: Labels) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))
