"""One scenario's part of the results, as the plots and tables ask for it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard_loadtest.lab.figures.cell import figures
from steelyard_loadtest.lab.figures.summary import Spread, Summary, summarize
from steelyard_loadtest.lab.figures.verdict import Verdict, verdicts
from steelyard_loadtest.lab.records import Measured, Missing
from steelyard_loadtest.lab.results import Results
from steelyard_loadtest.lab.scenario.model import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A scenario and what was found in it; summaries are in the scenario's order of algorithms."""

    scenario: Scenario
    measured: tuple[Measured, ...]
    summaries: tuple[Summary, ...]
    verdicts: tuple[Verdict, ...]
    missing: tuple[Missing, ...]

    @property
    def levels(self) -> list[float]:
        """Return the levels at which anything was measured, ascending."""
        return sorted({summary.level for summary in self.summaries})

    @property
    def algorithms(self) -> list[str]:
        """Return the algorithms of which anything was measured."""
        return list(dict.fromkeys(summary.algorithm for summary in self.summaries))

    @property
    def repeats(self) -> int:
        """Return how many repeats the cell with the fewest has; 0 when there is none."""
        return min((len(summary.cells) for summary in self.summaries), default=0)

    def at(self, level: float) -> list[Summary]:
        """Return the summaries of a level."""
        return [summary for summary in self.summaries if summary.level == level]

    def find(self, algorithm: str, level: float) -> Summary | None:
        """Return the summary of an algorithm at a level."""
        return next((entry for entry in self.at(level) if entry.algorithm == algorithm), None)

    def spread(self, algorithm: str, level: float, metric: str) -> Spread | None:
        """Return a figure of an algorithm at a level; None when it is not known."""
        found = self.find(algorithm, level)
        return found.metrics.get(metric) if found else None

    def repeats_of(self, algorithm: str, level: float) -> list[Measured]:
        """Return the cells of an algorithm at a level, in the order in which they were repeated."""
        own = [
            entry
            for entry in self.measured
            if entry.cell.algorithm == algorithm and entry.cell.level == level
        ]
        return sorted(own, key=lambda entry: entry.cell.repeat)


def views(results: Results) -> list[View]:
    """Take the results apart, one view a scenario, also of those in which nothing was measured."""
    return [_view(scenario, results) for scenario in results.scenarios]


def _view(scenario: Scenario, results: Results) -> View:
    measured = [entry for entry in results.measured if entry.cell.scenario == scenario.name]
    order = {name: position for position, name in enumerate(scenario.algorithms)}
    measured.sort(key=lambda entry: (entry.cell.level, order.get(entry.cell.algorithm, len(order))))
    summaries = summarize(figures(entry, scenario.events) for entry in measured)
    return View(
        scenario=scenario,
        measured=tuple(measured),
        summaries=tuple(summaries),
        verdicts=tuple(verdicts(summaries)),
        missing=_missing(entry for entry in results.missing if entry.scenario == scenario.name),
    )


def _missing(entries: Iterable[Missing]) -> tuple[Missing, ...]:
    return tuple(dict.fromkeys(entries))
