"""Runs the stability study: every distinct point of the maps with every seed, in parallel."""

from collections import defaultdict
from typing import TextIO

from steelyard_loadtest.simulate.parallel import mapped
from steelyard_loadtest.simulate.run import run
from steelyard_loadtest.simulate.studies.speed import Speed
from steelyard_loadtest.simulate.studies.stability.figures import Figures, Maps, figures_of, point
from steelyard_loadtest.simulate.studies.stability.grid import MapCells, StabilityCell


def simulated(
    cells: MapCells, *, seeds: int, first_seed: int, jobs: int, stream: TextIO | None = None
) -> tuple[Maps, Speed]:
    """Return the maps, the same however many jobs there are, and how fast the model ran."""
    # The maps share their defaults: each point is simulated once. The longest first, so that no core
    # waits for one of them at the end.
    distinct = dict.fromkeys((*cells.delay, *cells.mismatch, *cells.gain))
    work = [
        (cell, seed)
        for cell in sorted(distinct, key=lambda each: -each.ticks * each.interval_s * each.load)
        for seed in range(first_seed, first_seed + seeds)
    ]
    runs: defaultdict[StabilityCell, list[Figures]] = defaultdict(list)
    speeds = []
    done = mapped(_one, work, jobs=jobs, title="stability", stream=stream)
    for (cell, _), (figures, speed) in zip(work, done, strict=True):
        runs[cell].append(figures)
        speeds.append(speed)
    points = {cell: point(cell, found) for cell, found in runs.items()}
    return Maps(
        delay=[points[cell] for cell in cells.delay],
        mismatch=[points[cell] for cell in cells.mismatch],
        gain=[points[cell] for cell in cells.gain],
    ), sum(speeds, Speed())


def _one(of: tuple[StabilityCell, int]) -> tuple[Figures, Speed]:
    cell, seed = of
    case = cell.case()
    result = run(case, seed)
    return figures_of(case, result), Speed(events=result.events, cpu_s=result.cpu_s)
