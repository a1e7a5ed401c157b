"""Reads sample records: the controller's end of `sample_record`, apart because the agent has no msgspec.

Pure. Its examples are docs/contract/sample.json.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from steelyard_protocol.sample_record import (
    INDICATOR_NAME,
    MAX_BYTES,
    MAX_CPU_UTILIZATION,
    MAX_FURTHER,
    MAX_FURTHER_UTILIZATION,
    SampleRecord,
)
from steelyard_protocol.typed_json import Boot, Count, Interval, TypedReader
from steelyard_protocol.wire import NAME, InvalidMessage, Refused

_Share = Annotated[float, Meta(ge=0.0, le=1.0)]
_Amount = Annotated[float, Meta(ge=0.0, le=1e15)]
_FurtherName = Annotated[str, Meta(pattern=rf"^(?:{INDICATOR_NAME.pattern})\Z")]
_FurtherShare = Annotated[float, Meta(ge=0.0, le=MAX_FURTHER_UTILIZATION)]


class _Utilization(Struct):
    cpu: Annotated[float, Meta(ge=0.0, le=MAX_CPU_UTILIZATION)] | None
    net: _Share | None
    io: _Share | None
    mem: _Share | None


class _Capacity(Struct):
    cpu_cores: _Amount | None
    net_bytes_per_s: _Amount | None
    io_ops_per_s: _Amount | None
    mem_bytes: _Amount | None


class _Sample(Struct):
    v: Literal[1]
    upstream: str
    peer: str
    boot: Boot
    seq: Count
    taken_at_ms: Count
    interval_s: Interval
    utilization: _Utilization
    capacity: _Capacity
    scope: Literal["host", "cgroup", "process"]
    leaving: bool = False
    up_s: _Amount | None = None
    further: Annotated[dict[_FurtherName, _FurtherShare | None], Meta(max_length=MAX_FURTHER)] = {}


_READER = TypedReader(_Sample, max_bytes=MAX_BYTES)


def decode(value: bytes) -> SampleRecord | Refused:
    """Read a sample record from the network; total, never raises.

    Unknown keys are ignored, so that a newer agent of the same version can add some.
    """
    try:
        message = _READER.read(value)
    except InvalidMessage as bad:
        return bad.refused
    # msgspec takes twice as long for the whole record if it checks the two names.
    if not (NAME.fullmatch(message.upstream) and NAME.fullmatch(message.peer)):
        return Refused("name", f"an upstream's and a server's name are {NAME.pattern}")
    used, limit = message.utilization, message.capacity
    return SampleRecord(
        message.upstream,
        message.peer,
        message.boot,
        message.seq,
        message.taken_at_ms,
        message.interval_s,
        (used.cpu, used.net, used.io, used.mem),
        (limit.cpu_cores, limit.net_bytes_per_s, limit.io_ops_per_s, limit.mem_bytes),
        message.scope,
        message.leaving,
        tuple(message.further.items()) if message.further else (),
        message.up_s,
    )
