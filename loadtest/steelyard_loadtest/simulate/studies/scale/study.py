"""Runs the scale study: every point of the grid with every seed, in parallel."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TextIO

from steelyard_loadtest.simulate.parallel import mapped
from steelyard_loadtest.simulate.run import run
from steelyard_loadtest.simulate.studies.scale.figures import Figures, Point, figures_of, points
from steelyard_loadtest.simulate.studies.scale.grid import ScaleCell, seeds_of
from steelyard_loadtest.simulate.studies.speed import Speed


def simulated(
    cells: Sequence[ScaleCell], *, seeds: int, first_seed: int, jobs: int, stream: TextIO | None = None
) -> tuple[list[Point], Speed]:
    """Return the points, the same however many jobs there are, and how fast the model ran."""
    work = [(cell, seed) for cell in cells for seed in range(first_seed, first_seed + seeds_of(cell, seeds))]
    runs: defaultdict[ScaleCell, list[Figures]] = defaultdict(list)
    speeds = []
    done = mapped(_one, work, jobs=jobs, title="scale", stream=stream)
    for (cell, _), (figures, speed) in zip(work, done, strict=True):
        runs[cell].append(figures)
        speeds.append(speed)
    return points(cells, runs), sum(speeds, Speed())


def _one(of: tuple[ScaleCell, int]) -> tuple[Figures, Speed]:
    cell, seed = of
    case = cell.case()
    result = run(case, seed)
    return figures_of(case, result), Speed(events=result.events, cpu_s=result.cpu_s)
