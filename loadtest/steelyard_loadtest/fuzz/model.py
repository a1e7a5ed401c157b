"""What is fuzzed, and what came of it. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

ACCEPTED = "accepted"

Form = Literal["json", "text"]


class ViolationError(Exception):
    """A decoder did what it promises not to do; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One decoder.

    `judge` returns ACCEPTED or the reason of the refusal, and raises ViolationError where a promise is
    broken;
    any other exception is a violation too: decoders are total. `seeds` are inputs as they really are.
    `network`: whoever reaches a port or a store writes its input, so it is also part of the quick run.
    """

    name: str
    about: str
    form: Form
    seeds: tuple[bytes, ...]
    judge: Callable[[bytes], str]
    network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An input that broke a promise: what happened, and the input itself."""

    what: str
    input: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What came of a target's inputs under one method. `reached`: what the method says of its coverage."""

    target: str
    method: str
    about: str = ""
    tried: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    reached: str = ""
    notes: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    skipped: str = ""

    @property
    def accepted(self) -> int:
        """Return how many inputs were taken."""
        return self.outcomes.get(ACCEPTED, 0)

    @property
    def refused(self) -> Mapping[str, int]:
        """Return how many were refused, by reason, the most frequent first."""
        counts = Counter({reason: count for reason, count in self.outcomes.items() if reason != ACCEPTED})
        return dict(counts.most_common())


def outcome_of(target: Target, data: bytes) -> str:
    """Return what a target makes of an input; raise ViolationError for a broken promise or any exception."""
    try:
        return target.judge(data)
    except ViolationError:
        raise
    except Exception as error:
        raise ViolationError(
            f"it raises {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        ) from error


def require(holds: object, what: str) -> None:
    """Raise ViolationError with `what` where it does not hold."""
    if not holds:
        raise ViolationError(what)
