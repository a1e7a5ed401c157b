"""JSON of a declared shape, read at once.

Pure. A shape is a `msgspec.Struct` with bounds in its field types; msgspec checks them
while it reads, in C. Its error becomes a `Refused` with a counted reason. The
agent reads no message and has no msgspec: it takes 7 MB.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct

from steelyard_protocol import wire
from steelyard_protocol.wire import InvalidMessage, Reason

T = TypeVar("T")

Name = Annotated[str, Meta(pattern=rf"^(?:{wire.NAME.pattern})\Z")]
Count = Annotated[int, Meta(ge=0, le=wire.MAX_INTEGER)]
Boot = Annotated[str, Meta(min_length=1, max_length=64)]
Interval = Annotated[float, Meta(ge=0.001, le=3600.0)]

_NAMES = re.compile(rf"(?:{wire.NAME.pattern}+\n)*+")

# msgspec's messages for a refused value (`Expected ..., got ...`, and where), and our reasons. The first
# match counts. Every other message is a value out of bounds.
_REASONS: Sequence[tuple[str, Reason]] = (
    ("missing required field", "missing"),
    (" - at `$.v`", "version"),
    *((f" - at `$.{named}`", "name") for named in ("upstream", "peer", "lb", "law", "picker", "digest")),
    *((f" - at `$.{names}[", "name") for names in ("names", "reporters", "chunks")),
    ("].id`", "name"),
    (", got `", "type"),
    ("`array` of length 2", "type"),
    (" - at `$.check", "range"),
    (" - at `$.hash_key`", "range"),
    ("matching regex", "name"),
)


class TypedReader(Generic[T]):
    """Reads messages of one shape; those of more than `max_bytes` are refused unread.

    `decoder` is msgspec's own, which raises msgspec's errors.
    """

    def __init__(self, shape: type[T], *, max_bytes: int = wire.MAX_BYTES) -> None:
        self.decoder = msgspec.json.Decoder(shape)
        self._max_bytes = max_bytes

    def read(self, value: bytes) -> T:
        """Return the message; raise `InvalidMessage` for anything else."""
        if len(value) > self._max_bytes:
            raise InvalidMessage("too_large", f"{len(value)} bytes, at most {self._max_bytes} are read")
        try:
            return self.decoder.decode(value)
        except msgspec.ValidationError as error:
            raise InvalidMessage(_reason(str(error)), str(error)[:200]) from None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise InvalidMessage("not_json", str(error)[:200]) from None


def members(message: Struct, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the named members that are in a message."""
    values = {name: getattr(message, name) for name in names}
    return {name: value for name, value in values.items() if value is not UNSET}


def check_names(names: Sequence[str]) -> None:
    """Raise `InvalidMessage` unless all are names; four times as fast as a `Name` for each."""
    lines = "\n".join((*names, ""))
    if lines.count("\n") != len(names) or not _NAMES.fullmatch(lines):
        wrong = next(name for name in names if not wire.is_name(name))
        raise InvalidMessage("name", f"{wrong[:64]!r} is no name; a name is {wire.NAME.pattern}")


def _reason(message: str) -> Reason:
    if message.startswith("Expected `object`, got ") and " - at " not in message:
        return "not_object"
    return next((reason for words, reason in _REASONS if words in message), "range")
