"""The examples of the wire formats, from the checkout's docs/contract."""

import json
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.machine.errors import SetupError

CHECKOUT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """One format: texts that are accepted and texts that are refused, and, for signed values, the key."""

    accepted: tuple[bytes, ...]
    refused: tuple[bytes, ...]
    key: bytes = b""

    @property
    def all(self) -> tuple[bytes, ...]:
        """Return the short ones of both, the accepted first."""
        return tuple(text for text in (*self.accepted, *self.refused) if len(text) < 8192)


def examples(name: str, folder: Path = CHECKOUT / "docs" / "contract") -> Examples:
    """Return the examples of a format; raise SetupError where there is no checkout."""
    try:
        document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError(f"fuzzing needs a checkout of Steelyard: {error}") from None
    return Examples(
        accepted=tuple(_text(example) for example in document["accepted"]),
        refused=tuple(_text(example) for example in document["refused"]),
        key=document.get("key", "").encode(),
    )


def _text(example: dict[str, object]) -> bytes:
    # An accepted one may be given as the object that it is, a signed one as the value that it is.
    found = example.get("text" if "value" not in example else "value")
    text = found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
