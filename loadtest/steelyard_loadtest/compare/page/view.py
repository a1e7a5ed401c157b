"""One scenario's part of the results, for plots and tables, and the choice of what a plot shows. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.figures.trial_figures import Summary, figures, summarize
from steelyard_loadtest.figures.verdict import Verdict, verdicts
from steelyard_loadtest.measurements.capacity import Capacity
from steelyard_loadtest.measurements.trials import Measured, Missing, Results
from steelyard_loadtest.reporting.plot_style import COLORS
from steelyard_loadtest.reporting.statistics import Spread
from steelyard_loadtest.scenario.algorithms import DEFAULT
from steelyard_loadtest.scenario.definition import Scenario

MOST_LINES = 9
"""More lines in one plot cannot be distinguished."""
MOST_PANELS = 4
"""More panels beside each other are too small to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A scenario and its results; summaries are in the scenario's order of algorithms.

    capacity: the servers', if levels are parts of it.
    """

    scenario: Scenario
    measured: tuple[Measured, ...]
    summaries: tuple[Summary, ...]
    verdicts: tuple[Verdict, ...]
    missing: tuple[Missing, ...]
    capacity: Capacity | None = None

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
        """Return how many repeats the trial with the fewest has; 0 when there is none."""
        return min((len(summary.trials) for summary in self.summaries), default=0)

    def at(self, level: float) -> list[Summary]:
        """Return the summaries of a level."""
        return [summary for summary in self.summaries if summary.level == level]

    def find(self, algorithm: str, level: float) -> Summary | None:
        """Return the summary of an algorithm at a level."""
        return next((entry for entry in self.at(level) if entry.algorithm == algorithm), None)

    def spread(self, algorithm: str, level: float, metric: str) -> Spread | None:
        """Return a figure of an algorithm at a level; None when it is not known."""
        summary = self.find(algorithm, level)
        return summary.metrics.get(metric) if summary else None


def views(results: Results) -> list[View]:
    """Take the results apart, one view a scenario, also of those in which nothing was measured."""
    return [_view(scenario, results) for scenario in results.scenarios]


def _view(scenario: Scenario, results: Results) -> View:
    measured = [entry for entry in results.measured if entry.trial.scenario == scenario.name]
    order = {name: position for position, name in enumerate(scenario.algorithms)}
    measured.sort(key=lambda entry: (entry.trial.level, order.get(entry.trial.algorithm, len(order))))
    summaries = summarize(figures(entry, scenario.events, scenario.servers) for entry in measured)
    return View(
        scenario=scenario,
        measured=tuple(measured),
        summaries=tuple(summaries),
        verdicts=tuple(verdicts(summaries)),
        missing=tuple(dict.fromkeys(entry for entry in results.missing if entry.scenario == scenario.name)),
        capacity=results.capacities.get(scenario.name),
    )


def shown_algorithms(view: View, most: int = MOST_LINES) -> list[str]:
    """Return the algorithms to draw as lines: ours, the best online peers, then the preferred ones."""
    rivals = [verdict.online.algorithm for verdict in view.verdicts if verdict.online]
    # The one that is the best peer at most levels comes first.
    rivals.sort(key=lambda name: -rivals.count(name))
    wanted = [DEFAULT, *rivals, *scenario_text.LAYOUT["preferred"], *view.algorithms]
    return [name for name in dict.fromkeys(wanted) if name in view.algorithms][:most]


def shown_levels(levels: Sequence[float]) -> list[float]:
    """Return at most four levels, the lowest and the highest among them, evenly spread."""
    if len(levels) <= MOST_PANELS:
        return list(levels)
    step = (len(levels) - 1) / (MOST_PANELS - 1)
    return [levels[round(position * step)] for position in range(MOST_PANELS)]


def main_level(view: View) -> float | None:
    """Return the level that is shown where there is room for one.

    It is the fleet's, if there are questions about that. Otherwise it is the highest at which our default
    kept its failures low: above that, everything is a queue. Else the highest. None: nothing was measured.
    """
    levels, fleet = view.levels, view.scenario.fleet
    if fleet and fleet.level in levels:
        return fleet.level
    held = [verdict.level for verdict in view.verdicts if verdict.standing in ("met", "missed", "no peer")]
    return max(held or levels, default=None)


def unlike(scenario: Scenario) -> list[str]:
    """Return the servers that differ from the most, or to which something happens.

    If these are more than a plot has colours, only those to which something happens.
    """
    abilities = {server.name: replace(server, name="") for server in scenario.servers}
    usual = Counter(abilities.values()).most_common(1)[0][0]
    touched = {event.server for event in scenario.events}
    touched |= {server.name for server in scenario.servers if server.moves}
    differ = [name for name, ability in abilities.items() if ability != usual or name in touched]
    return [name for name in differ if len(differ) <= len(COLORS) or name in touched] or differ
