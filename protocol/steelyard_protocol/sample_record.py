"""The sample record: the message of an agent to the controller.

Pure. The producer owns the format; `sample_reader` is the other end, and the
examples are docs/contract/sample.json.
"""

import json
import re
from typing import NamedTuple

from steelyard_protocol import wire

INDICATORS = ("cpu", "net", "io", "mem")
"""The columns, in the order of the paper's equations."""

CAPACITIES = ("cpu_cores", "net_bytes_per_s", "io_ops_per_s", "mem_bytes")
"""The capacity of each indicator, in the order of `INDICATORS`."""

# CPU may overrun its limit (bursts), but 64 times is a broken reader, not a busy server.
MAX_CPU_UTILIZATION = 64.0

INDICATOR_NAME = re.compile(rf"(?!(?:{'|'.join(INDICATORS)})\Z)[a-z][a-z0-9_]{{0,31}}")
"""The name of a further indicator, with `fullmatch`: not one of the four."""

# Twelve are more than a person reads; a sample and a law's step stay within their bounds.
MAX_FURTHER = 12

# A queue may be longer than its limit; at 16 times its limit the limit has no meaning.
MAX_FURTHER_UTILIZATION = 16.0

# A record is about 400 bytes, with twelve further indicators 900; one far larger did not come from an agent.
MAX_BYTES = 16 * 1024


class SampleRecord(NamedTuple):
    """One sample on the wire: utilizations of an interval, and the capacities.

    A tuple, because a controller makes ten thousand in a tick.
    `utilization` and `capacity` have one entry per indicator, in the order of
    `INDICATORS`; None is "could not be measured". Utilizations are within
    0..1, except CPU, which may exceed 1. `further` has the server's other
    indicators in the order of its agent's configuration: at most `MAX_FURTHER`,
    each a name (`INDICATOR_NAME`) and a utilization of 0..`MAX_FURTHER_UTILIZATION`
    or None. `up_s` is the uptime of the server since the last start of its machine, container or
    process; None: unknown. (`boot`, `seq`) distinguishes samples. `taken_at_ms`, the
    sender's clock since 1970, is for people. If values are signed, it also shows a replay of an
    earlier run. It never decides whether a sample is fresh.
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
    further: tuple[tuple[str, float | None], ...] = ()
    up_s: float | None = None


def encode(record: SampleRecord) -> bytes:
    """Return the record as JSON for Memcached."""
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
    if record.further:
        document["further"] = dict(record.further)
    if record.up_s is not None:
        document["up_s"] = record.up_s
    if record.leaving:
        document["leaving"] = True
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
