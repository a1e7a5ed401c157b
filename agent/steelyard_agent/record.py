"""The sample record: THE wire format between an agent and the controller.

Pure. The producer owns the format, so both ends import it from here; its
examples are docs/contract/sample.json.
"""

import json
from dataclasses import dataclass

from steelyard_agent import wire
from steelyard_agent.wire import Bad, Refused

INDICATORS = ("cpu", "net", "io", "mem")
"""The columns, in the order of the paper's equations."""

CAPACITIES = ("cpu_cores", "net_bytes_per_s", "io_ops_per_s", "mem_bytes")
"""What each indicator is a share of, in the order of `INDICATORS`."""

# CPU may overrun its limit (bursts), but 64 times is a broken reader, not a busy server.
MAX_CPU_UTILIZATION = 64.0

# A record is about 400 bytes; one far larger did not come from an agent.
MAX_BYTES = 16 * 1024

SCOPES = ("host", "cgroup", "process")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """One sample on the wire: utilizations of an interval, and of what.

    `utilization` and `capacity` have one entry per indicator, in the order of
    `INDICATORS`; None is "could not be measured". Utilizations are within
    0..1, except CPU, which may exceed 1. (`boot`, `seq`) tells one sample from
    the next; `taken_at_ms`, the sender's clock since 1970, is for people, and where values are signed tells
    a replay of an earlier run; nobody's freshness is judged by it.
    """

    upstream: str
    peer: str
    boot: str
    seq: int
    taken_at_ms: int
    interval_s: float
    utilization: tuple[float | None, ...]
    capacity: tuple[float | None, ...]
    scope: str
    leaving: bool = False


def encode(record: SampleRecord) -> bytes:
    """Return the record as the JSON value that goes into Memcached."""
    document: dict[str, object] = {
        "v": wire.VERSION,
        "upstream": record.upstream,
        "peer": record.peer,
        "boot": record.boot,
        "seq": record.seq,
        "taken_at_ms": record.taken_at_ms,
        "interval_s": record.interval_s,
        "utilization": dict(zip(INDICATORS, record.utilization, strict=True)),
        "capacity": dict(zip(CAPACITIES, record.capacity, strict=True)),
        "scope": record.scope,
    }
    if record.leaving:
        document["leaving"] = True
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def decode(value: bytes) -> SampleRecord | Refused:
    """Read a sample record from the network; total, never raises.

    Unknown keys are ignored, so that a newer agent of the same version can add some.
    """
    try:
        document = wire.load_object(value, max_bytes=MAX_BYTES)
        utilization = wire.mapping(document, "utilization")
        capacity = wire.mapping(document, "capacity")
        leaving = document.get("leaving", False)
        if not isinstance(leaving, bool):
            raise Bad("type", '"leaving" is not true or false')
        scope = wire.text(document, "scope")
        if scope not in SCOPES:
            raise Bad("range", f'"scope" is none of {", ".join(SCOPES)}')
        return SampleRecord(
            upstream=wire.name(document, "upstream"),
            peer=wire.name(document, "peer"),
            boot=wire.text(document, "boot", longest=64),
            seq=wire.integer(document, "seq"),
            taken_at_ms=wire.integer(document, "taken_at_ms"),
            interval_s=wire.number(document, "interval_s", low=0.001, high=3600.0),
            utilization=tuple(
                wire.optional_number(utilization, key, high=MAX_CPU_UTILIZATION if key == "cpu" else 1.0)
                for key in INDICATORS
            ),
            capacity=tuple(wire.optional_number(capacity, key) for key in CAPACITIES),
            scope=scope,
            leaving=leaving,
        )
    except Bad as bad:
        return bad.refused
