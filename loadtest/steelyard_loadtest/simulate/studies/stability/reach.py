"""The defaults' margin: how far one thing may go from its default before a law oscillates. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from steelyard_loadtest.simulate.studies.stability.figures import Point
from steelyard_loadtest.simulate.studies.stability.grid import (
    DEFAULT_DELAY_TICKS,
    DEFAULT_INTERVAL_S,
    StabilityCell,
    Variant,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far one thing may go from its default before the law oscillates.

    `last_settled` is the farthest value up to which every one settled, None when the default itself
    oscillates; `first_unsettled` the next one, None when the map ends first.
    """

    last_settled: float | None
    first_unsettled: float | None


def reach(settled: Mapping[float, bool], default: float, *, upwards: bool) -> Reach:
    """Walk from the default until a value does not settle."""
    ahead = sorted(
        (each for each in settled if (each >= default if upwards else each <= default)), reverse=not upwards
    )
    last: float | None = None
    for value in ahead:
        if not settled[value]:
            return Reach(last_settled=last, first_unsettled=value)
        last = value
    return Reach(last_settled=last, first_unsettled=None)


def delay_reach(points: Sequence[Point], load: float) -> Reach:
    """Return how many ticks all messages may be late at a load; `points` are one law's."""
    return reach(_row(points, load=load, by=lambda cell: cell.delay_ticks), 0, upwards=True)


def mismatch_reach(points: Sequence[Point], load: float) -> Reach:
    """Return how many ticks samples alone may be late at a load; `points` are one law's."""
    return reach(_row(points, load=load, by=lambda cell: cell.mismatch_ticks), 0, upwards=True)


def load_reach(points: Sequence[Point]) -> Reach:
    """Return up to which load a law settles as shipped, from the smallest on; `points` are one law's."""
    row = {each.cell.load: each.settled for each in points if each.cell.delay_ticks == DEFAULT_DELAY_TICKS}
    return reach(row, min(row), upwards=True)


def interval_reach(points: Sequence[Point], variant: Variant, *, upwards: bool) -> Reach:
    """Return how far the interval may go from its default; `points` are one law's, over gain and interval."""
    default = None if variant.knob is None else variant.knob.default
    ours = [each for each in points if each.cell.knob == default]
    return reach(
        _row(ours, load=variant.gain_load, by=lambda cell: cell.interval_s),
        DEFAULT_INTERVAL_S,
        upwards=upwards,
    )


def gain_reach(points: Sequence[Point], variant: Variant) -> Reach | None:
    """Return how far the gain may be raised from its default; None for a law without a knob."""
    knob = variant.knob
    if knob is None:
        return None
    ours = [each for each in points if each.cell.interval_s == DEFAULT_INTERVAL_S]
    row = _row(ours, load=variant.gain_load, by=lambda cell: knob.default if cell.knob is None else cell.knob)
    return reach(row, knob.default, upwards=not knob.higher_is_slower)


def _row(points: Sequence[Point], *, load: float, by: Callable[[StabilityCell], float]) -> dict[float, bool]:
    return {float(by(each.cell)): each.settled for each in points if each.cell.load == load}
