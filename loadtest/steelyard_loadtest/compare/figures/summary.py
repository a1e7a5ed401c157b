"""The repeats of a cell as one: mean, deviation, median and range of every figure. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

from steelyard_loadtest.compare.figures.cell_figures import CellFigures
from steelyard_loadtest.reporting.statistics import Spread, grouped, spread_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All repeats of one algorithm at one level. A metric that no repeat knows is not in `metrics`."""

    scenario: str
    algorithm: str
    level: float
    cells: tuple[CellFigures, ...]
    metrics: Mapping[str, Spread]

    @property
    def failures(self) -> int:
        """Return the failures of all repeats."""
        return sum(one.measured.outcome.failures for one in self.cells)

    @property
    def failures_part(self) -> float:
        """Return the failures of all repeats over the requests of all, 0..1."""
        requests = sum(one.measured.outcome.requests for one in self.cells)
        return self.failures / requests if requests else 0.0


def summarize(figures: Iterable[CellFigures]) -> list[Summary]:
    """Put the repeats together, in the order in which scenario, level and algorithm first came."""
    groups = grouped(figures, lambda one: replace(one.measured.cell, repeat=0))
    return [
        Summary(
            scenario=cell.scenario,
            algorithm=cell.algorithm,
            level=cell.level,
            cells=tuple(cells),
            metrics={
                name: found
                for name in cells[0].metrics
                if (found := spread_of([one.metrics for one in cells], itemgetter(name)))
            },
        )
        for cell, cells in groups.items()
    ]
