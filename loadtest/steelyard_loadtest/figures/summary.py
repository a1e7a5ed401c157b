"""The repeats of a trial as one: mean, deviation, median and range of every figure. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

from steelyard_loadtest.figures.trial_figures import TrialFigures
from steelyard_loadtest.reporting.statistics import Spread, grouped, spread_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All repeats of one algorithm at one level. A metric that no repeat knows is not in `metrics`."""

    scenario: str
    algorithm: str
    level: float
    trials: tuple[TrialFigures, ...]
    metrics: Mapping[str, Spread]

    @property
    def failures(self) -> int:
        """Return the failures of all repeats."""
        return sum(one.measured.outcome.failures for one in self.trials)

    @property
    def failures_part(self) -> float:
        """Return the failures of all repeats over the requests of all, 0..1."""
        requests = sum(one.measured.outcome.requests for one in self.trials)
        return self.failures / requests if requests else 0.0


def summarize(figures: Iterable[TrialFigures]) -> list[Summary]:
    """Put the repeats together, in the order in which scenario, level and algorithm first came."""
    groups = grouped(figures, lambda one: replace(one.measured.trial, repeat=0))
    return [
        Summary(
            scenario=trial.scenario,
            algorithm=trial.algorithm,
            level=trial.level,
            trials=tuple(trials),
            metrics={
                name: spread
                for name in trials[0].metrics
                if (spread := spread_of([one.metrics for one in trials], itemgetter(name)))
            },
        )
        for trial, trials in groups.items()
    ]
