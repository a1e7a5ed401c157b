"""Reads sample records: the controller's end of `sample_record`, apart because the agent has no msgspec.

Pure. Its examples are docs/contract/sample.json. A tick reads thousands of samples at once (`read_all`) and
uses their figures as they were read. `decode` returns one of them as a `SampleRecord`.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

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
# UNSET if a sample has none: msgspec would make an empty dictionary for each of thousands.
_Further = Annotated[dict[_FurtherName, _FurtherShare | None], Meta(max_length=MAX_FURTHER)]


# Garbage collection need not look at samples: they contain no reference cycles.
class Utilization(Struct, gc=False):
    """The four utilizations of a sample; None: could not be measured."""

    cpu: Annotated[float, Meta(ge=0.0, le=MAX_CPU_UTILIZATION)] | None
    net: _Share | None
    io: _Share | None
    mem: _Share | None


class Capacity(Struct, gc=False):
    """The four capacities of a sample; None: unknown."""

    cpu_cores: _Amount | None
    net_bytes_per_s: _Amount | None
    io_ops_per_s: _Amount | None
    mem_bytes: _Amount | None


class Sample(Struct, gc=False):
    """A sample as it was read; its members are those of `SampleRecord`. Its names are not checked."""

    v: Literal[1]
    upstream: str
    peer: str
    boot: Boot
    seq: Count
    taken_at_ms: Count
    interval_s: Interval
    utilization: Utilization
    capacity: Capacity
    scope: Literal["host", "cgroup", "process"]
    leaving: bool = False
    up_s: _Amount | None = None
    further: _Further | UnsetType = UNSET


_READER = TypedReader(Sample, max_bytes=MAX_BYTES)


def decode(value: bytes) -> SampleRecord | Refused:
    """Read a sample record from the network; total, never raises.

    Unknown keys are ignored, so that a newer agent of the same version can add some.
    """
    message = _read(value)
    if isinstance(message, Refused):
        return message
    if refused := wrong_name(message):
        return refused
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


def read_all(values: Sequence[bytes]) -> Sequence[Sample | Refused]:
    """Read samples from the network; total, never raises. The caller compares their names with the key."""
    if max(map(len, values), default=0) <= MAX_BYTES:
        try:
            return list(map(_READER.decoder.decode, values))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass  # One of them is refused; the others must not suffer.
    return [_read(value) for value in values]


def wrong_name(message: Sample) -> Refused | None:
    """Return why a sample is refused if its upstream or its server has no name; None: both have."""
    # msgspec takes twice as long for the whole record if it checks the two names.
    if NAME.fullmatch(message.upstream) and NAME.fullmatch(message.peer):
        return None
    return Refused("name", f"an upstream's and a server's name are {NAME.pattern}")


def _read(value: bytes) -> Sample | Refused:
    try:
        return _READER.read(value)
    except InvalidMessage as bad:
        return bad.refused
