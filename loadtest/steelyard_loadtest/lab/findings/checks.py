"""Comparisons of figures at single levels. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard_loadtest.lab.findings import grades
from steelyard_loadtest.lab.findings.evidence import METRICS, UNITS, Evidence, LackingError, Spot
from steelyard_loadtest.lab.findings.finding import Answer
from steelyard_loadtest.lab.findings.grades import number


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A spot and what the source calls the algorithm."""

    name: str
    spot: Spot


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One figure over another, against the same ratio of theirs. published: not 1."""

    metric: str
    over: Named
    under: Named
    published: float

    @property
    def figure(self) -> str:
        """Name both."""
        return f"{METRICS[self.metric]}: {_pair(self.over, self.under)}"

    @property
    def theirs(self) -> str:
        """Give their ratio."""
        return number(self.published)

    @property
    def rule(self) -> str:
        """Give half of their effect."""
        return f"{'≥' if self.published > 1 else '≤'} {number(grades.half(self.published))}"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade by how much of their effect there is; some of it, but less than half, is `partly`."""
        over, under = evidence.values(self.metric, (self.over.spot, self.under.spot))
        if under == 0:
            raise LackingError(f"a {METRICS[self.metric]} of {self.under.name} that is not 0")
        return Answer(here=number(over / under), grade=grades.effect(over / under, self.published))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """The largest of some figures over the smallest, where a source finds no difference."""

    metric: str
    named: tuple[Named, ...]
    published: float | None = None
    """Largest over smallest of theirs; None: said in words only."""

    @property
    def figure(self) -> str:
        """Name all of them."""
        return f"{METRICS[self.metric]}, largest / smallest: {_names(self.named)}"

    @property
    def theirs(self) -> str:
        """Give their ratio, or that they gave none."""
        return "alike" if self.published is None else number(self.published)

    @property
    def bound(self) -> float:
        """Their own difference where it is larger than what is called alike."""
        return max(grades.ALIKE, self.published or 1.0)

    @property
    def rule(self) -> str:
        """Give the bound."""
        return f"≤ {number(self.bound)}"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade by how far they are apart."""
        return grades.alike(evidence.values(self.metric, [entry.spot for entry in self.named]), self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """One algorithm's figure over the best of the others'."""

    metric: str
    best: grades.Best
    candidate: Named
    others: tuple[Named, ...]
    published: float | None = None
    """Theirs over the best of the others of theirs; None: they have no such figure."""

    @property
    def figure(self) -> str:
        """Name the candidate and the others."""
        others = _names(self.others)
        rival = others if len(self.others) == 1 else f"{self.best} of {others}"
        return f"{METRICS[self.metric]}: {self.candidate.name} / {rival}"

    @property
    def theirs(self) -> str:
        """Give their ratio, or that they gave none."""
        return "–" if self.published is None else number(self.published)

    @property
    def rule(self) -> str:
        """Say on which side of 1 the best is."""
        return "≥ 1" if self.best == "highest" else "≤ 1"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade: the best, near it (`partly`), or neither."""
        ours, *others = evidence.values(
            self.metric, (self.candidate.spot, *(entry.spot for entry in self.others))
        )
        ratio = grades.over_best(ours, others, self.best)
        return Answer(here=number(ratio), grade=grades.beaten(ratio, self.best))


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Figures that must all lie on one side of a bound, such as `some fail` or `none reach it`."""

    metric: str
    named: tuple[Named, ...]
    published: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def figure(self) -> str:
        """Name them."""
        return f"{METRICS[self.metric]}: {_names(self.named)}"

    @property
    def theirs(self) -> str:
        """Give theirs."""
        return self.published

    @property
    def rule(self) -> str:
        """Give the bounds."""
        low = () if self.at_least is None else (f"≥ {number(self.at_least)}",)
        high = () if self.at_most is None else (f"≤ {number(self.at_most)}",)
        return ", ".join((*low, *high))

    def judge(self, evidence: Evidence) -> Answer:
        """Grade: all within, or not."""
        ours = evidence.values(self.metric, [entry.spot for entry in self.named])
        low = self.at_least is None or min(ours) >= self.at_least
        high = self.at_most is None or max(ours) <= self.at_most
        ends = dict.fromkeys((number(min(ours)), number(max(ours))))
        return Answer(here=" to ".join(ends), grade="reproduced" if low and high else "not reproduced")


def _at(spot: Spot) -> str:
    return f"at {spot.level:g} {UNITS[spot.scenario]}"


def _names(named: Sequence[Named]) -> str:
    """Name them, with the level once if all have the same."""
    if len({entry.spot.level for entry in named}) == 1:
        return f"{', '.join(entry.name for entry in named)} {_at(named[0].spot)}"
    return ", ".join(f"{entry.name} {_at(entry.spot)}" for entry in named)


def _pair(over: Named, under: Named) -> str:
    if over.spot.level == under.spot.level:
        return f"{over.name} / {under.name} {_at(over.spot)}"
    return f"{over.name} {_at(over.spot)} / {under.name} {_at(under.spot)}"
