"""A neighbour burns the CPU of one server: how long after it does the server have its share again?

Three servers of a quarter core (1 : 1 : 2) get few requests of 1.25 ms. Six burners beside the first one
leave it a seventh. `make law-burns` prints the distribution over all runs.
"""

import itertools
import sys
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
from steelyard_controller.laws.snapshot import Bools, Floats

from steelyard_simulator.model import Background, Balancing, Case, Draw, OpenClients, RunResult, Server, Work
from steelyard_simulator.studies.measures import Figures
from steelyard_simulator.studies.study import simulated

PICKERS = ("vnswrr2", "vnswrr")
RATES_PER_S, VARIATIONS, BURNS_S, TIMES = (90, 30), (0, 2), (1.5, 4, 10), (1, 3)
SEEDS = 5
SPEEDS = (0.25, 0.25, 0.5)
# A burn ends before the evidence of the previous one has faded; the figure is for the last one.
FIRST_S, BETWEEN_S, WATCHED_S = 60.0, 12.0, 110.0
ENOUGH = 0.8
STEADY_TICKS = 5


class BurnTrial(NamedTuple):
    """Requests a second, the variation of their cost (0: even), and a burn's length and number."""

    picker: str
    rate_per_s: int
    variation: float
    burn_s: float
    times: int
    run: int

    def case(self) -> Case:
        """Return the simulation."""
        begins_s = FIRST_S + Random(repr(self)).random()
        burns = tuple(
            Background(start_s=start_s, end_s=start_s + self.burn_s, share=6 / 7)
            for start_s in (begins_s + number * (self.burn_s + BETWEEN_S) for number in range(self.times))
        )
        cost = Draw(mean_s=0.00125, shape="constant")
        if self.variation:
            cost = Draw(mean_s=0.00125, shape="lognormal", cv=self.variation)
        first, *others = SPEEDS
        return Case(
            servers=(Server(speed=first, background=burns), *(Server(speed=each) for each in others)),
            clients=OpenClients(rate_per_s=self.rate_per_s),
            work=Work(cpu=cost),
            duration_s=burns[-1].end_s + WATCHED_S + STEADY_TICKS,
            balancing=Balancing(picker=self.picker),
            in_phase=True,
        )


def trials(pickers: Sequence[str] = PICKERS, runs: int = SEEDS) -> list[BurnTrial]:
    """Return every combination, `runs` times."""
    axes = (pickers, RATES_PER_S, VARIATIONS, BURNS_S, TIMES, range(runs))
    return list(itertools.starmap(BurnTrial, itertools.product(*axes)))


def figures_of(case: Case, result: RunResult) -> Figures:
    """Return the seconds from the last burn's end to the first share of 80 % of what is due.

    steady_s is the time until it stays there for five ticks. Both are at most `WATCHED_S`.
    """
    due = SPEEDS[0] / sum(SPEEDS)
    after_s = result.ticks.t_s - case.servers[0].background[-1].end_s
    enough = result.ticks.weights[after_s >= 0, 0] >= ENOUGH * due
    in_a_row = np.lib.stride_tricks.sliding_window_view(enough, STEADY_TICKS)
    steady: Bools = np.logical_and.reduce(in_a_row, axis=-1)
    after_s = after_s[after_s >= 0]
    return {"back_s": _first_s(enough, after_s), "steady_s": _first_s(steady, after_s)}


def _first_s(met: Bools, after_s: Floats) -> float:
    return min(float(after_s[np.argmax(met)]), WATCHED_S) if met.any() else WATCHED_S


def main() -> int:
    """Print a row for each picker and figure; the exit status is 1 if a target of `back_s` is missed."""
    runs = simulated([(trial, trial.run) for trial in trials()], figures_of, jobs=None, title="burns")
    print("| picker | seconds until | runs | median | 90th | longest | over 10 s | over 20 s |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    met = True
    for picker, (name, what) in itertools.product(
        PICKERS, (("back_s", "80 % of its share"), ("steady_s", "the same for five ticks"))
    ):
        seconds = np.array([own[0][name] for trial, own in runs.items() if trial.picker == picker])
        median, late, longest = np.percentile(seconds, [50, 90, 100])
        print(
            f"| {picker} | {what} | {len(seconds)} | {median:.1f} | {late:.1f} | {longest:.1f} "
            f"| {(seconds > 10).sum()} | {(seconds > 20).sum()} |"
        )
        met &= name != "back_s" or bool(median <= 2 and late <= 5 and longest <= 10)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
