"""Comparisons of a source's figures with ours: a line of a small language each, one rule a kind. Pure.

    METRIC [WORD]: NAMES [/ NAMES] at LEVELS [≥ BOUND] [≤ BOUND][, theirs TEXT]

    requests_per_s: RR / LC at 100 and 250           a ratio, at each of the levels
    max_ms: LC at 250 / LC at 10                     of two levels
    p50_ms: WRR / lowest of RR, LC at 250            to the best of several
    mean_ms alike: WRR, LC at 250                    the largest over the smallest
    failures_per_s: RR, LC at 250 ≤ 0, theirs 0      all of them within bounds
    p50_ms: SWRR at 2000 - SWRR at 3 ≥ 2, theirs 4   a difference within bounds
    mean_ms rises: wrr, fair at 1000..               curves: over all measured levels from 1000 on

The words for curves are `rises`, `peaks` (the level of the highest point is within the bounds) and `grows
fastest` (the first of them). Curves may also use `alike` and `/ highest of`, at each level.

Ratios are compared, never absolute figures, because the hardware differs. An effect is reproduced when at
least half of it is there, on the logarithmic scale on which twice and half are equally far from one. So half
of a ratio is its square root.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Literal, NamedTuple

from steelyard_loadtest.compare.findings.evidence import METRICS, LackingError, Spot, Terms, World, measured

Grade = Literal["reproduced", "partly", "not reproduced"]
Rows = Mapping[float, Sequence[float]]
"""The figures of the compared names, by level."""

NOISE = 1.02
"""Means of the locust study's three runs have deviations of 1 to 2 %; anything below that is no effect."""

ALIKE = 1.10
"""Rates that sources call equal differ by up to 3 % (vproxy, 10 connections); latencies scatter more."""

ROUGHLY = 1.25
"""No source calls figures equal that differ by more."""

NEARLY_BEST = ALIKE
"""A figure this close to the best is near it."""

UNKNOWN = "–"

_LINE = re.compile(
    r"(?P<metric>\w+)(?: (?P<word>[a-z ]+))?: (?P<of>.+?)"
    r"(?: (?P<sign>[/-]) (?:(?P<best>highest|lowest) of )?(?P<over>.+?))?"
    r"(?: ≥ (?P<low>[\d.]+))?(?: ≤ (?P<high>[\d.]+))?(?:, theirs (?P<theirs>.+))?"
)


class Compared(NamedTuple):
    """One of their figures with ours, as on the page; rule: the bound for ours to reproduce theirs.

    grade: None if something was not measured, which `here` then names.
    """

    figure: str
    theirs: str
    rule: str
    here: str
    grade: Grade | None


class _Asked(NamedTuple):
    """Input of a rule. published: theirs of all names, or none; curves: at all levels of a range."""

    names: Sequence[str]
    best: str
    low: float
    high: float
    theirs: str
    published: Sequence[float]
    curves: bool


class _Rule(NamedTuple):
    """The published figure, the bound for ours, and the writing and grading of ours (raises LackingError)."""

    theirs: str
    text: str
    judge: Callable[[Rows], tuple[str, Grade]]


def compare(line: str, terms: Terms, world: World) -> list[Compared]:
    """Return a line's comparisons. Raises ValueError, which names the line, if it is invalid."""
    match = _LINE.fullmatch(line)
    try:
        if match is None:
            raise ValueError("no such form of a comparison")
        return [_compared(match, spots, terms, world) for spots in _spots(match)]
    except (KeyError, ValueError) as error:
        raise ValueError(f"`{line}`: {error}") from error


def _spots(match: re.Match[str]) -> Iterator[list[Spot]]:
    """Yield the spots of each comparison: a ratio has every pair, and all are at each of several levels."""
    of, over = (
        [_operand(text) for text in match[side].split(", ")] if match[side] else [] for side in ("of", "over")
    )
    if not (of + over)[-1][1]:
        raise ValueError("a comparison needs a level")
    for operands in product(of, over) if match["sign"] == "/" and not match["best"] else [(*of, *over)]:
        for ends in (of + over)[-1][1]:
            yield [Spot(name, *(own[0] if len(own) == 1 else ends)) for name, own in operands]


def _operand(text: str) -> tuple[str, list[tuple[float, float]]]:
    """Return a name, and each of its levels as the lowest and the highest."""
    name, _, levels = text.partition(" at ")
    ends = [level.partition("..") for level in levels.split(" and ") if level]
    return name, [(float(low), float(high or (math.inf if dots else low))) for low, dots, high in ends]


def _compared(match: re.Match[str], spots: Sequence[Spot], terms: Terms, world: World) -> Compared:
    metric, sign, best = match["metric"], match["sign"], match["best"] or ""
    between = f" {sign} " + (f"{best} of " if len(spots) > 2 else "") if sign else ", "
    heading, make = _KINDS[match["word"] or ("best" if best else sign or "within")]
    published = [row[metric] for spot in spots if metric in (row := spot.theirs(terms))]
    rule = make(
        _Asked(
            names=[spot.name for spot in spots],
            best=best,
            low=float(match["low"] or -math.inf),
            high=float(match["high"] or math.inf),
            theirs=match["theirs"] or UNKNOWN,
            published=published if len(published) == len(spots) else (),
            curves=spots[0].low < spots[0].high,
        )
    )
    try:
        rows = measured(metric, spots, terms, world)
        if sign == "-":
            rows = {level: [row[0] - row[1]] for level, row in rows.items()}
        here, grade = rule.judge(rows)
    except LackingError as lacking:
        here, grade = f"not measured yet: needs {lacking}", None
    figure = f"{METRICS[metric]}{heading}: {_named(spots, between, terms.unit)}"
    return Compared(figure, rule.theirs, rule.text, here, grade)


def _named(spots: Sequence[Spot], between: str, unit: str) -> str:
    """Name them, with the level once if it is the same for all."""
    at = [f" at {_levels(spot, unit)}" for spot in spots]
    one = len(set(at)) == 1
    names = [spot.name + ("" if one else level) for spot, level in zip(spots, at, strict=True)]
    return between.join([names[0], ", ".join(names[1:])] if names[1:] else names) + (at[0] if one else "")


def _levels(spot: Spot, unit: str) -> str:
    if spot.low == spot.high:
        return f"{spot.low:g} {unit}"
    if spot.low > 0:
        return f"{spot.low:g} {unit} and more"
    return f"up to {spot.high:g} {unit}" if spot.high < math.inf else f"all numbers of {unit}"


def _ratio(asked: _Asked) -> _Rule:
    """Return the rule: half of their effect or more; some of it is partly. No verdict without theirs."""
    known = bool(asked.published) or asked.theirs != UNKNOWN
    published = _over(*(asked.published or (1.0, 1.0))) if asked.theirs == UNKNOWN else float(asked.theirs)
    sign = 1 if published > 1 else -1

    def judge(rows: Rows) -> tuple[str, Grade]:
        (row,) = rows.values()
        ratio = _over(*row)
        effect = sign * (math.log(ratio) if ratio > 0 else -math.inf)
        some: Grade = "partly" if effect >= math.log(NOISE) else "not reproduced"
        return number(ratio), "reproduced" if effect >= sign * math.log(half(published)) else some

    text = f"{'≥' if published > 1 else '≤'} {number(half(published))}"
    return _Rule(number(published) if known else UNKNOWN, text, judge)


def _alike(asked: _Asked) -> _Rule:
    """Return the rule for the largest over the smallest, at the level with the largest difference."""
    published = _apart(asked.published) if asked.published else 1.0
    bound = max(ALIKE, published)

    def judge(rows: Rows) -> tuple[str, Grade]:
        worst = max(rows, key=lambda level: _apart(rows[level]))
        ratio = _apart(rows[worst])
        roughly: Grade = "partly" if ratio <= max(bound, ROUGHLY) else "not reproduced"
        here = number(ratio) + (f" at {worst:g}" if asked.curves else "")
        return here, "reproduced" if ratio <= bound else roughly

    theirs = number(published) if asked.published else asked.theirs if asked.theirs != UNKNOWN else "alike"
    return _Rule(theirs, f"≤ {number(bound)}" + (" at every level" if asked.curves else ""), judge)


def _best(asked: _Asked) -> _Rule:
    """Return the rule for the first over the best of the others; for curves, the number of levels won."""
    best, sign, mark = (max, 1, "≥") if asked.best == "highest" else (min, -1, "≤")
    bound = next(filter(math.isfinite, (asked.low, asked.high)), 1.0)

    def judge(rows: Rows) -> tuple[str, Grade]:
        ratios = {level: _over(row[0], best(row[1:])) for level, row in rows.items()}
        won = [sign * ratio >= sign * bound for ratio in ratios.values()]
        if asked.curves:
            here = ", ".join(f"{number(ratio)} at {level:g}" for level, ratio in ratios.items())
            return f"{sum(won)} of {len(won)}: {here}", _part(won)
        (ratio,) = ratios.values()
        near: Grade = "partly" if sign * ratio >= sign * NEARLY_BEST**-sign else "not reproduced"
        return number(ratio), "reproduced" if won[0] else near

    theirs = number(_over(asked.published[0], best(asked.published[1:]))) if asked.published else asked.theirs
    return _Rule(theirs, f"{mark} {bound:g}" + (" at every level" if asked.curves else ""), judge)


def _within(asked: _Asked) -> _Rule:
    """Return the rule for figures, or a difference, within one bound or two."""
    bounds = [
        f"{mark} {number(end)}" for mark, end in (("≥", asked.low), ("≤", asked.high)) if math.isfinite(end)
    ]

    def judge(rows: Rows) -> tuple[str, Grade]:
        (row,) = rows.values()
        least, most = min(row), max(row)
        here = " to ".join(dict.fromkeys((number(least), number(most))))
        return here, "reproduced" if asked.low <= least and most <= asked.high else "not reproduced"

    return _Rule(asked.theirs, ", ".join(bounds), judge)


def _rises(asked: _Asked) -> _Rule:
    """Return the rule for the steps of curves that go up, except for noise."""

    def judge(rows: Rows) -> tuple[str, Grade]:
        steps = [pair for curve in _curves(rows) for pair in pairwise(curve)]
        up = [upper * NOISE >= lower for lower, upper in steps]
        return f"{sum(up)} of {len(up)}", _part(up)

    return _Rule(asked.theirs, "every step", judge)


def _peaks(asked: _Asked) -> _Rule:
    """Return the rule for the levels of highest points, with measured levels on both sides."""

    def judge(rows: Rows) -> tuple[str, Grade]:
        levels = list(rows)
        inside = {level: asked.low <= level <= asked.high for level in levels}
        if inside[levels[0]] or inside[levels[-1]] or not any(inside.values()):
            raise LackingError(f"levels from {asked.low:g} to {asked.high:g} and on both sides")
        peaks = [
            max(zip(curve, levels, strict=True), key=lambda point: point[0])[1] for curve in _curves(rows)
        ]
        here = ", ".join(f"{name} {level:g}" for name, level in zip(asked.names, peaks, strict=True))
        return here, _part([inside[level] for level in peaks])

    return _Rule(asked.theirs, f"{asked.low:g} to {asked.high:g} for each", judge)


def _grows_fastest(asked: _Asked) -> _Rule:
    """Return the rule for growth from the first to the last level: the first curve's is the largest."""

    def judge(rows: Rows) -> tuple[str, Grade]:
        first, *others = factors = [_over(curve[-1], curve[0]) for curve in _curves(rows)]
        here = ", ".join(f"{name} × {number(own)}" for name, own in zip(asked.names, factors, strict=True))
        return here, _part([first >= NOISE * other for other in others])

    return _Rule(asked.theirs, f"{asked.names[0]} ≥ {number(NOISE)} × every other", judge)


_KINDS: Mapping[str, tuple[str, Callable[[_Asked], _Rule]]] = {
    "/": ("", _ratio),
    "best": ("", _best),
    "within": ("", _within),
    "-": ("", _within),
    "alike": (", largest / smallest", _alike),
    "rises": (", steps to the next level that do not go down", _rises),
    "peaks": (", level of the highest", _peaks),
    "grows fastest": (", last level / first", _grows_fastest),
}
"""The page's text after the metric, and the rule."""


def number(value: float) -> str:
    """Write three significant digits, and at most two decimals unless the value is very small."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 0.01:
        return f"{value:.1g}"
    decimals = min(2, max(0, 2 - math.floor(math.log10(abs(value)))))
    return f"{value:,.{decimals}f}"


def half(published: float) -> float:
    """Return the ratio that is half of a published effect, but more than noise."""
    root = math.sqrt(published)
    return max(root, NOISE) if published > 1 else min(root, 1 / NOISE)


def _over(value: float, rival: float) -> float:
    if rival == 0:
        raise LackingError("a figure other than 0 to compare with")
    return value / rival


def _apart(values: Sequence[float]) -> float:
    """Return the largest over the smallest."""
    if max(values) == min(values):
        return 1.0
    return max(values) / min(values) if min(values) > 0 else math.inf


def _curves(rows: Rows) -> list[tuple[float, ...]]:
    if len(rows) < 2:
        raise LackingError("a second level")
    return list(zip(*rows.values(), strict=True))


def _part(held: Sequence[bool]) -> Grade:
    """Grade by the number of cases: all of them, half or more, or fewer."""
    if all(held):
        return "reproduced"
    return "partly" if 2 * sum(held) >= len(held) else "not reproduced"
