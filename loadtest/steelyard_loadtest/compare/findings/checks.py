"""The kinds of comparison, each with its rule: of figures at single levels, and of whole curves. Pure.

A curve is a figure over the levels of a scenario. The entropy paper prints line charts without figures and
describes them in words, so these are judged on whichever of its levels were measured. `claims` says how a
comparison stands in a source's file.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, get_args

from steelyard_loadtest.compare.findings import grades
from steelyard_loadtest.compare.findings.finding import Answer, Check, Grade, Published
from steelyard_loadtest.compare.findings.grades import ALIKE, NOISE, Best, number
from steelyard_loadtest.compare.findings.measured_figures import (
    METRICS,
    UNITS,
    Evidence,
    LackingError,
    Spot,
    Who,
)

Entry = Mapping[str, Any]
"""A comparison as TOML has it."""

Curves = Mapping[str, Mapping[float, float]]
"""The source's name for an algorithm to the figure by level, ascending; all have the same levels."""

_INSTEAD = re.compile(r"(.+?)(?: \(there: (.+)\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a source's names and figures are: its algorithms are what stands for them here."""

    scenario: str
    algorithms: Mapping[str, Who]
    published: Published = field(default_factory=dict)

    def spot(self, name: str, level: float) -> Spot:
        """Return where the figure of a name stands. Raises KeyError."""
        return Spot(
            scenario=self.scenario, algorithm=self.algorithms[_parts(name)[0]], level=level, name=name
        )

    def spots(self, entry: Entry) -> list[Spot]:
        """Return several names at one level, or one name at several."""
        names, levels = as_list(entry["of"]), as_list(entry["at"])
        count = max(len(names), len(levels))
        pairs = zip(*(part * count if len(part) == 1 else part for part in (names, levels)), strict=True)
        return [self.spot(name, level) for name, level in pairs]

    def theirs(self, metric: str, spots: Sequence[Spot]) -> list[float]:
        """Return the source's figures, of those that it gives."""
        rows = [self.published.get(_parts(spot.name)[1], {}).get(spot.level, {}) for spot in spots]
        return [row[metric] for row in rows if metric in row]


def check(entry: Entry, terms: Terms) -> Check:
    """Make a comparison. Raises KeyError, TypeError or ValueError where it is not as it must be."""
    if (kind := entry["kind"]) not in _KINDS:
        raise ValueError(f"there is no kind of comparison {kind!r}")
    return _KINDS[kind](entry, terms)


def _ratio(entry: Entry, terms: Terms) -> Check:
    """Compare one figure over another with the same ratio of theirs, not 1: half of their effect will do."""
    metric = METRICS[entry["metric"]]
    spots = (
        terms.spot(entry["of"], entry["at"]),
        terms.spot(entry["over"], entry.get("over_at", entry["at"])),
    )
    published = entry.get("published")
    if published is None:
        upper, lower = terms.theirs(entry["metric"], spots)
        published = upper / lower

    def judge(ours: Sequence[float]) -> Answer:
        upper, lower = ours
        if lower == 0:
            raise LackingError(f"a {metric} of {spots[1].name} that is not 0")
        return Answer(here=number(upper / lower), grade=grades.effect(upper / lower, published))

    return Check(
        figure=f"{metric}: {_named(spots, ' / ')}",
        theirs=number(published),
        rule=f"{'≥' if published > 1 else '≤'} {number(grades.half(published))}",
        judge=lambda evidence: judge(evidence.values(entry["metric"], spots)),
    )


def _alike(entry: Entry, terms: Terms) -> Check:
    """Compare the largest of some figures with the smallest, where a source finds no difference.

    Largest over smallest of theirs, where it gives them all, is allowed here too.
    """
    spots = terms.spots(entry)
    known = terms.theirs(entry["metric"], spots)
    published = max(known) / min(known) if len(known) == len(spots) else None
    bound = max(ALIKE, published or 1.0)
    return Check(
        figure=f"{METRICS[entry['metric']]}, largest / smallest: {_named(spots)}",
        theirs="alike" if published is None else number(published),
        rule=f"≤ {number(bound)}",
        judge=lambda evidence: grades.alike(evidence.values(entry["metric"], spots), bound),
    )


def _best(entry: Entry, terms: Terms) -> Check:
    """Compare one figure with the best of others."""
    best: Best = entry["kind"]
    spots = [terms.spot(name, entry["at"]) for name in (entry["of"], *as_list(entry["over"]))]
    known = terms.theirs(entry["metric"], spots)
    rival = ("" if len(spots) == 2 else f"{best} of ") + _named(spots[1:])

    def judge(ours: Sequence[float]) -> Answer:
        found = grades.over_best(ours[0], ours[1:], best)
        return Answer(here=number(found), grade=grades.beaten(found, best))

    return Check(
        figure=f"{METRICS[entry['metric']]}: {spots[0].name} / {rival}",
        theirs=number(grades.over_best(known[0], known[1:], best)) if len(known) == len(spots) else "–",
        rule="≥ 1" if best == "highest" else "≤ 1",
        judge=lambda evidence: judge(evidence.values(entry["metric"], spots)),
    )


def _within(entry: Entry, terms: Terms) -> Check:
    """Ask that all figures lie on one side of a bound, such as `some fail` or `none reach it`."""
    spots = terms.spots(entry)
    lowest, highest = entry.get("at_least", -math.inf), entry.get("at_most", math.inf)

    def judge(ours: Sequence[float]) -> Answer:
        inside = lowest <= min(ours) and max(ours) <= highest
        ends = dict.fromkeys((number(min(ours)), number(max(ours))))
        return Answer(here=" to ".join(ends), grade="reproduced" if inside else "not reproduced")

    bounds = [
        f"{sign} {number(bound)}" for sign, bound in (("≥", lowest), ("≤", highest)) if math.isfinite(bound)
    ]
    figure = f"{METRICS[entry['metric']]}: {_named(spots)}"
    return Check(
        figure=figure,
        theirs=entry["theirs"],
        rule=", ".join(bounds),
        judge=lambda evidence: judge(evidence.values(entry["metric"], spots)),
    )


def _added(entry: Entry, terms: Terms) -> Check:
    """Ask how much every `per` of the level more add to a figure: at least half of theirs."""
    few, many = spots = terms.spots(entry)
    per, published, unit = entry["per"], entry["published"], UNITS[terms.scenario]

    def judge(ours: Sequence[float]) -> Answer:
        more = (ours[1] - ours[0]) * per / (many.level - few.level)
        return Answer(here=number(more), grade="reproduced" if more >= published / 2 else "not reproduced")

    return Check(
        figure=f"ms that {per:g} {unit} more add to the {METRICS[entry['metric']]}, {few.name},"
        f" {few.level:g} to {many.level:g} {unit}",
        theirs=number(published),
        rule=f"≥ {number(published / 2)}",
        judge=lambda evidence: judge(evidence.values(entry["metric"], spots)),
    )


def _alike_along(entry: Entry, terms: Terms) -> Check:
    """Ask that all curves run together: judged at the level at which they are farthest apart."""

    def judge(curves: Curves) -> Answer:
        found = list(curves.values())
        values = {level: [curve[level] for curve in found] for level in found[0]}
        worst = max(values, key=lambda level: grades.apart(values[level]))
        answer = grades.alike(values[worst])
        return Answer(here=f"{answer.here} at {worst:g}", grade=answer.grade)

    rule = f"≤ {number(ALIKE)} at every level"
    return _of_curves(entry, terms, figure="largest / smallest ", rule=rule, judge=judge)


def _best_along(entry: Entry, terms: Terms) -> Check:
    """Ask that one curve is above (or below) all others by a factor `margin`, at all levels or at some."""
    best: Best = entry["kind"].partition(" ")[0]
    candidate, margin = entry["candidate"], entry.get("margin", 1.0)

    def judge(curves: Curves) -> Answer:
        others = [curve for name, curve in curves.items() if name != candidate]
        ratios = {
            level: grades.over_best(value, [other[level] for other in others], best)
            for level, value in curves[candidate].items()
        }
        won = sum(found >= margin if best == "highest" else found * margin <= 1 for found in ratios.values())
        listed = ", ".join(f"{number(found)} at {level:g}" for level, found in ratios.items())
        here = f"{won} of {len(ratios)} (over the {best} other: {listed})"
        return Answer(here=here, grade=grades.part(won, len(ratios)))

    rule = "all levels" if margin == 1 else f"all levels, × {number(margin)}"
    return _of_curves(entry, terms, figure=f"levels with {candidate} {best}: ", rule=rule, judge=judge)


def _peak_between(entry: Entry, terms: Terms) -> Check:
    """Ask that every curve has its highest point between two levels, with levels measured on both sides."""
    low, high = entry["peak"]

    def judge(curves: Curves) -> Answer:
        levels = list(next(iter(curves.values())))
        for what, there in (
            (f"a level under {low:g}", levels[0] < low),
            (f"a level from {low:g} to {high:g}", any(low <= level <= high for level in levels)),
            (f"a level over {high:g}", levels[-1] > high),
        ):
            if not there:
                raise LackingError(f"{what} (`{terms.scenario}`)")
        peaks = {name: max(curve, key=lambda level: curve[level]) for name, curve in curves.items()}
        inside = sum(low <= level <= high for level in peaks.values())
        here = ", ".join(f"{name} {level:g}" for name, level in peaks.items())
        return Answer(here=here, grade=grades.part(inside, len(peaks)))

    rule = f"{low:g} to {high:g} for each"
    return _of_curves(entry, terms, figure="level of the highest ", rule=rule, judge=judge)


def _rises(entry: Entry, terms: Terms) -> Check:
    """Ask that every curve rises from each level to the next, but for noise: by the number of such steps."""

    def judge(curves: Curves) -> Answer:
        steps = [pair for curve in curves.values() for pair in pairwise(curve.values())]
        if not steps:
            raise LackingError(f"a second level (`{terms.scenario}`)")
        up = sum(upper * NOISE >= lower for lower, upper in steps)
        return Answer(here=f"{up} of {len(steps)}", grade=grades.part(up, len(steps)))

    figure = "steps to the next level that do not go down: "
    return _of_curves(entry, terms, figure=figure, rule="every step", judge=judge)


def _grows_fastest(entry: Entry, terms: Terms) -> Check:
    """Ask that one curve grows by a larger factor from first to last level than every other, or than some."""
    candidate = entry["candidate"]

    def judge(curves: Curves) -> Answer:
        found = {name: list(curve.values()) for name, curve in curves.items()}
        if any(len(curve) < 2 or curve[0] <= 0 for curve in found.values()):
            raise LackingError(f"a second level (`{terms.scenario}`)")
        growth = {name: curve[-1] / curve[0] for name, curve in found.items()}
        others = [factor for name, factor in growth.items() if name != candidate]
        slower = sum(growth[candidate] >= NOISE * factor for factor in others)
        grade: Grade = "not reproduced" if not slower else "partly"
        return Answer(
            here=", ".join(f"{name} × {number(factor)}" for name, factor in growth.items()),
            grade="reproduced" if slower == len(others) else grade,
        )

    figure = f"growth from the first to the last level, largest for {candidate}: "
    rule = f"{candidate} ≥ {number(NOISE)} × every other"
    return _of_curves(entry, terms, figure=figure, rule=rule, judge=judge)


_KINDS: Mapping[str, Callable[[Entry, Terms], Check]] = {
    **{"ratio": _ratio, "alike": _alike, "within": _within, "added": _added},
    **dict.fromkeys(get_args(Best), _best),
    **{"alike along": _alike_along, "peak between": _peak_between, "rises": _rises},
    **{"grows fastest": _grows_fastest},
    **dict.fromkeys((f"{best} along" for best in get_args(Best)), _best_along),
}


def _of_curves(
    entry: Entry, terms: Terms, *, figure: str, rule: str, judge: Callable[[Curves], Answer]
) -> Check:
    names = {name: terms.algorithms[name] for name in entry["of"]}
    low, high, unit = entry.get("from", 0.0), entry.get("to", math.inf), UNITS[terms.scenario]
    at = f"{low:g} to {high:g} {unit}"
    if low <= 0:
        at = f"up to {high:g} {unit}" if high < math.inf else f"all numbers of {unit}"
    elif high == math.inf:
        at = f"{low:g} {unit} and more"

    def read(evidence: Evidence) -> Answer:
        levels = evidence.levels(terms.scenario, tuple(names.values()), low, high)
        found = {}
        for name in names:
            spots = [terms.spot(name, level) for level in levels]
            found[name] = dict(zip(levels, evidence.values(entry["metric"], spots), strict=True))
        return judge(found)

    of = f"{METRICS[entry['metric']]} of {', '.join(names)} at {at}"
    return Check(figure=f"{figure}{of}", theirs=entry["theirs"], rule=rule, judge=read)


def _named(spots: Sequence[Spot], between: str = ", ") -> str:
    """Name them, with the level once if all have the same."""
    at = [f" at {spot.level:g} {UNITS[spot.scenario]}" for spot in spots]
    if len(set(at)) == 1:
        return between.join(spot.name for spot in spots) + at[0]
    return between.join(spot.name + level for spot, level in zip(spots, at, strict=True))


def _parts(name: str) -> tuple[str, str]:
    """The name here, and the one whose figures are published."""
    match = _INSTEAD.fullmatch(name)
    if match is None:
        raise ValueError("an algorithm without a name")
    return match[1], match[2] or match[1]


def as_list(value: Any) -> list[Any]:  # noqa: ANN401 - as TOML has it
    """Return a list as it is, and anything else as the list of it."""
    return value if isinstance(value, list) else [value]
