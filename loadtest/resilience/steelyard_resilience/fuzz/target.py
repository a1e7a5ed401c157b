"""Targets and tallies of a fuzzing run, with their lines for a terminal and a page's table. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.reporting.markdown import Column, document, markdown, table

ACCEPTED, REFUSED = "accepted", "refused"

MOST_REASONS = 4


class ViolationError(Exception):
    """A decoder broke a promise; the text describes how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken promise, with its input or a log of it; seed: repeats it alone."""

    what: str
    input: bytes = b""
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """The outcomes of a target's inputs under one method."""

    target: str
    method: str
    _: KW_ONLY
    about: str = ""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()

    @property
    def tried(self) -> int:
        """Return the number of inputs; violations count, too."""
        return sum(self.outcomes.values()) + len(self.violations)

    @property
    def accepted(self) -> int:
        """Return the number of accepted inputs."""
        return self.outcomes.get(ACCEPTED, 0)

    @property
    def refused(self) -> list[tuple[str, int]]:
        """Return the number of refused inputs by reason, the most frequent first."""
        return [row for row in Counter(self.outcomes).most_common() if row[0] != ACCEPTED]


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder.

    `judge` returns ACCEPTED or the reason of the refusal, and raises ViolationError for a broken promise. Any
    other exception is a violation too, because decoders are total. `seeds` are realistic inputs.
    """

    name: str
    about: str
    judge: Callable[[bytes], str]
    seeds: Sequence[bytes]


def outcome_of(target: Target, data: bytes) -> str:
    """Return a target's outcome for an input; raise ViolationError for a broken promise or any exception.

    ProgramError passes through: the decoder was another program, and has ended.
    """
    try:
        return target.judge(data)
    except (ViolationError, ProgramError):
        raise
    except Exception as error:
        line = " ".join(str(error).split())
        raise ViolationError(f"it raises {type(error).__name__}: {line[:300]}") from error


def judge_of(
    decode: Callable[[Any], Any],
    *,
    encode: Callable[[Any], bytes | str] | None = None,
    refuses: type[Exception] | tuple[type[Exception], ...] = (),
    reason: Callable[[Any], str | None] = lambda _: None,
    check: Callable[[Any], None] = lambda _: None,
) -> Callable[[bytes], str]:
    """Return the judge of a decoder: an accepted value must survive encoding and decoding.

    refuses: the exceptions that it may raise. reason: from a raised or returned refusal to its word; None for
    an accepted value. check: further requirements of an accepted value.
    """

    def judge(data: bytes) -> str:
        try:
            value = decode(data)
        except refuses as error:
            require(str(error), "the refusal has no reason")
            return reason(error) or REFUSED
        refused = reason(value)
        if refused is None:
            check(value)
            if encode is not None:
                again = decode(encode(value))
                require(again == value, f"it differs after encoding and decoding: {again}")
        return refused or ACCEPTED

    return judge


def requiring(holds: Callable[[Any], object], what: str) -> Callable[[Any], None]:
    """Return a check of `judge_of` that must hold for each accepted value."""
    return lambda value: require(holds(value), what)


def require(holds: object, what: str) -> None:
    """Raise ViolationError with `what` unless it holds."""
    if not holds:
        raise ViolationError(what)


def line(tally: Tally) -> str:
    """Return one line for a person."""
    name = f"{tally.target:<18} {tally.method:<14}"
    counts = f"{tally.tried:>8,} inputs  {tally.accepted:>7,} accepted  {len(tally.violations)} violations"
    return f"{name} {counts}  {_refused(tally) or ''}".rstrip()


def summary(tallies: Sequence[Tally]) -> str:
    """Return the sums in a sentence."""
    tried, violations = sum(tally.tried for tally in tallies), sum(len(tally.violations) for tally in tallies)
    targets = {tally.target for tally in tallies}
    return f"{tried:,} inputs to {len(targets)} targets: {violations} violations"


def page(tallies: Sequence[Tally], *, conditions: str) -> str:
    """Return the section of a page."""
    return document(f"**{summary(tallies)}.** {conditions}", markdown(table(tallies, COLUMNS)))


def _refused(tally: Tally) -> str | None:
    shown = [f"{reason} {count:,}" for reason, count in tally.refused[:MOST_REASONS]]
    if others := sum(count for _, count in tally.refused[MOST_REASONS:]):
        shown.append(f"others {others:,}")
    return "; ".join([*([", ".join(shown)] if shown else []), *tally.notes]) or None


COLUMNS = (
    Column[Tally]("target", lambda tally: tally.target, "left"),
    Column[Tally]("input", lambda tally: tally.about, "left"),
    Column[Tally]("how", lambda tally: tally.method, "left"),
    Column[Tally]("inputs", lambda tally: f"{tally.tried:,}"),
    Column[Tally]("accepted", lambda tally: f"{tally.accepted:,}"),
    Column[Tally]("refused", _refused, "left"),
    Column[Tally]("violations", lambda tally: f"{len(tally.violations):,}"),
)
