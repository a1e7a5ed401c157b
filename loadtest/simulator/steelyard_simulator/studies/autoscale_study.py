"""A day on unequal servers, started and stopped by headroom or by mean CPU, in a table and a plot."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
from steelyard_loadtest.reporting.markdown import document, image, markdown, text_columns
from steelyard_loadtest.reporting.publish import Page

from steelyard_simulator.model import Background, Case, Draw, OpenClients, RunResult, ScaledBy, Server, Work
from steelyard_simulator.studies.measures import Figures, Runs, averaged, p99_by, percentile_ms

# A day passes in two hours, so load changes twelve times as fast. Requests/s at every second hour of the day.
DAY_S, LOAD = 7200.0, (30, 20, 22, 50, 120, 150, 180, 150, 155, 140, 95, 55)
CPU, DISK = Work(cpu=Draw(mean_s=0.1)), Work(cpu=Draw(mean_s=0.03), io=Draw(mean_s=0.06))
# From ten to six, the neighbour takes half of two servers.
NEIGHBOUR = Background(start_s=DAY_S * 10 / 24, end_s=DAY_S * 18 / 24, share=0.5, idle_utilization=0.9)
DAYS = {"cpu": (CPU, ()), "neighbours": (CPU, (NEIGHBOUR,)), "disk": (DISK, ())}
CORES = (2, 1, 4) * 12
HEAD = ("day: signal", "server-hours", "core-hours", "p99, ms", "seconds with p99 > 1 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaleTrial:
    """A day by its name, and the signal by which servers are started and stopped."""

    day: str
    by: ScaledBy

    def case(self) -> Case:
        """Return the simulation."""
        work, beside = DAYS[self.day]
        servers = tuple(
            Server(cores=cores, baseline=None, background=beside if place in (0, 2) else ())
            for place, cores in enumerate(CORES)
        )
        return Case(servers=servers, clients=day_of(), work=work, duration_s=DAY_S, scaled_by=self.by)


def day_of(scale: float = 1.0) -> OpenClients:
    """Return the day's requests, times `scale`."""
    at_s = np.arange(0.0, DAY_S, 60.0)
    rates = scale * np.interp(at_s, np.arange(len(LOAD)) * DAY_S / len(LOAD), LOAD)
    changes = tuple(zip(at_s.tolist(), rates.tolist(), strict=True))
    return OpenClients(rate_per_s=scale * LOAD[0], changes=changes[1:])


TRIALS = [AutoscaleTrial(day=day, by=by) for day in DAYS for by in get_args(ScaledBy)]


def figures_of(case: Case, result: RunResult) -> Figures:
    """Sum up a run; `at_N` is the number of servers in half hour N."""
    there = result.ticks.weights > 0
    hours = there.sum(axis=0) * case.tick_s / 3600
    return {
        "server_hours": float(hours.sum()),
        "core_hours": float(hours @ CORES),
        "p99_ms": percentile_ms(result, 99),
        "over_s": float(sum(p99_ms > 1000.0 for p99_ms in p99_by(result, 1.0, case.duration_s))),
        **{f"at_{half}": each.mean() for half, each in enumerate(np.array_split(there.sum(axis=1), 48))},
    }


def page(_options: argparse.Namespace, runs: Runs, command: str) -> Page:
    """Return the table and the plot of the seeds' means."""
    rows = {
        f"{trial.day}: by {trial.by}": [figure.mean for figure in row.values()]
        for trial, row in averaged(runs).items()
    }
    lines = [[name, *(f"{figure:,.0f}" for figure in row[:4])] for name, row in rows.items()]
    table = markdown(text_columns(HEAD, lines))

    def draw(file: Path) -> None:
        from steelyard_loadtest.reporting.plots import Panel, Series, draw

        hours = [half / 2 for half in range(48)]
        series = [Series(x=hours, y=row[4:], label=name) for name, row in rows.items()]
        panels = [
            Panel(
                series=series[at : at + 2], x_label="hour of the day", y_label="servers", y_limits=(0, None),
                legend="lower center",
            )
            for at in range(0, len(series), 2)
        ]  # fmt: skip
        draw(file, [panels], size=(13, 3.4), title="Number of servers over each day")

    return Page(
        text=lambda plots: document(
            f"`{command}`.", image("Servers over each day", plots.get("autoscale")), table
        ),
        plots={"autoscale": draw},
    )
