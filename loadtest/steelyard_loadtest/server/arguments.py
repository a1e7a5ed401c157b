"""Query arguments with bounds: text in, a number or a problem out.

Pure: knows nothing of HTTP beyond the problem document of RFC 9457. Every
bound is there so that a typing error cannot fill the disk or the memory of the
machine that the demo runs on.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One query argument, its unit, its default and the values it may take (both ends included)."""

    name: str
    unit: str
    default: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request was refused, as RFC 9457 wants it told."""

    status: int
    title: str
    detail: str
    extra: Mapping[str, object]

    def document(self) -> dict[str, object]:
        """Give the problem document's members."""
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.extra,
        }


SLEEP_MS = Argument(name="ms", unit="ms", default=50, lowest=0, highest=60_000)
BODY_BYTES = Argument(name="n", unit="bytes", default=1024, lowest=0, highest=16 * 1024**2)
FILE_BYTES = Argument(name="bytes", unit="bytes", default=64 * 1024, lowest=1, highest=16 * 1024**2)
BURN_SECONDS = Argument(name="seconds", unit="s", default=20, lowest=1, highest=600)
BURN_WORKERS = Argument(name="workers", unit="processes", default=2, lowest=1, highest=8)


def read(argument: Argument, query: Mapping[str, str]) -> int | Problem:
    """Give the argument's value (its default where it is absent), or why it is refused."""
    text = query.get(argument.name)
    if text is None:
        return argument.default
    # isascii: int() would also take digits of other scripts, underscores, signs and spaces around.
    # 10 digits hold every bound; longer texts are refused before int() has to read them.
    if text.isascii() and text.isdigit() and len(text) <= 10:
        value = int(text)
        if argument.lowest <= value <= argument.highest:
            return value
    return Problem(
        status=400,
        title="Bad query argument",
        detail=f"{argument.name} must be a whole number of {argument.unit}"
        f" from {argument.lowest} to {argument.highest}",
        extra={
            "argument": argument.name,
            "unit": argument.unit,
            "lowest": argument.lowest,
            "highest": argument.highest,
        },
    )
