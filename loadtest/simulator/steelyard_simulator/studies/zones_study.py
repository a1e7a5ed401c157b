"""A day on three zones, one of them at half its size for a while, in a table and a plot."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from steelyard_loadtest.reporting.markdown import document, image, markdown, text_columns
from steelyard_loadtest.reporting.publish import Page

from steelyard_simulator.model import Background, Balancing, Case, RunResult, Server
from steelyard_simulator.studies.autoscale_study import CPU, DAY_S, day_of
from steelyard_simulator.studies.measures import Figures, Runs, averaged, p99_by, percentile_ms

# Each zone has four servers of two cores, two load balancers and a third of the requests.
ZONES, SERVERS, BALANCERS = 3, 4, 2
FROM_S, UNTIL_S = DAY_S * 8 / 24, DAY_S * 18 / 24
HALF_AS_MANY = (Server(cores=2, zone=1, away=((FROM_S, UNTIL_S),)),) * 2
NEIGHBOUR = Background(start_s=FROM_S, end_s=UNTIL_S, share=0.5, idle_utilization=0.9)
DAYS = {
    "half the servers": (*HALF_AS_MANY, *(Server(cores=2, zone=1),) * 2),
    "half the CPU": (Server(cores=2, zone=1, background=(NEIGHBOUR,)),) * SERVERS,
}
ALGORITHMS = {
    "Steelyard, zones": Balancing(zoned="steelyard"),
    "Steelyard, no zones": Balancing(),
    "Envoy, zone-aware": Balancing(law=None, picker="lr", zoned="envoy"),
    "Envoy, load_aware_locality": Balancing(law="static", picker="lr", zoned="load-aware"),
}
HEAD = ("day: balancer", "requests that cross", "p99, ms", "seconds with p99 > 1 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonesTrial:
    """A day and an algorithm by their names."""

    day: str
    algorithm: str

    def case(self) -> Case:
        """Return the simulation."""
        around = [Server(cores=2, zone=zone) for zone in (0, 2) for _ in range(SERVERS)]
        return Case(
            servers=(*around, *DAYS[self.day]), clients=day_of(0.75), work=CPU, duration_s=DAY_S,
            balancing=ALGORITHMS[self.algorithm], balancers=ZONES * BALANCERS,
            zones=tuple(index % ZONES for index in range(ZONES * BALANCERS)),
        )  # fmt: skip


TRIALS = [ZonesTrial(day=day, algorithm=algorithm) for day in DAYS for algorithm in ALGORITHMS]


def figures_of(case: Case, result: RunResult) -> Figures:
    """Sum up a run; `crossed_N` and `p99_N` are those of half hour N."""
    crossed, picks = result.ticks.crossed, result.ticks.picks.sum(axis=1)
    both = zip(np.array_split(crossed, 48), np.array_split(picks, 48), strict=True)
    p99s = p99_by(result, case.duration_s / 48, case.duration_s)
    return {
        "crossed": float(crossed.sum() / picks.sum()),
        "p99_ms": percentile_ms(result, 99),
        "over_s": float(sum(p99_ms > 1000.0 for p99_ms in p99_by(result, 1.0, case.duration_s))),
        **{f"crossed_{half}": float(part.sum() / of.sum()) for half, (part, of) in enumerate(both)},
        **{f"p99_{half}": p99_ms for half, p99_ms in enumerate(p99s)},
    }


def page(_options: argparse.Namespace, runs: Runs, command: str) -> Page:
    """Return the table and the plot of the seeds' means."""
    rows = {trial: [figure.mean for figure in row.values()] for trial, row in averaged(runs).items()}
    lines = [
        [f"{trial.day}: {trial.algorithm}", f"{row[0]:.1%}", f"{row[1]:,.0f}", f"{row[2]:,.0f}"]
        for trial, row in rows.items()
    ]

    def draw(file: Path) -> None:
        from steelyard_loadtest.reporting.plots import Panel, Series, draw

        hours = [half / 2 for half in range(48)]
        grid = [
            [
                Panel(
                    series=[
                        Series(x=hours, y=row[at : at + 48], label=trial.algorithm)
                        for trial, row in rows.items()
                        if trial.day == day
                    ],
                    title=day, x_label="hour of the day", y_label=label,
                    y_scale="auto", legend=legend,
                )
                for at, label, legend in ((3, "requests that cross", "center left"), (51, "p99, ms", None))
            ]
            for day in DAYS
        ]  # fmt: skip
        draw(file, grid, size=(13, 7), title="A zone of three has half its size from 8 to 18")

    return Page(
        text=lambda plots: document(
            f"`{command}`.", image("Crossing and p99 over each day", plots.get("zones")),
            markdown(text_columns(HEAD, lines)),
        ),
        plots={"zones": draw},
    )  # fmt: skip
