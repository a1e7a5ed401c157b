"""A map for each law over load and message delay: where it settles, and where it oscillates."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

from steelyard_loadtest.reporting.markdown import document, image
from steelyard_loadtest.reporting.publish import Page

from steelyard_simulator import model
from steelyard_simulator.model import Balancing, Case, RunResult, Server
from steelyard_simulator.studies import measures
from steelyard_simulator.studies.measures import Figures, Measures, Runs

LAWS: Mapping[str, Balancing] = {
    "paper, as printed (H 0.3)": Balancing(law="paper", picker="vnswrr"),
    "paper, H 0.7: always awake": Balancing(law="paper", picker="vnswrr", parameters={"H": 0.7}),
    "paper, H 0.7, k F W_S": Balancing(
        law="paper", picker="vnswrr", parameters={"H": 0.7, "scale_by_k": 1.0}
    ),
    "cswrr (gRPC A58, Envoy)": Balancing(law="cswrr", picker="vnswrr"),
    "steelyard (default)": Balancing(law="steelyard", picker="vnswrr"),
}
"""By their titles. The picker follows weights only."""

LOADS, QUICK_LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95), (0.4, 0.6, 0.8, 0.95)
DELAYS_TICKS, QUICK_DELAYS_TICKS = (0, 1, 2, 3, 4, 6, 12), (0, 2, 6)

SETTLED = 0.2
"""Counting noise alone makes a law without a memory swing by about 10 % of all traffic here; unstable loops
swing by 30 % and more. The line is between them."""

# The slowest server does 25 requests a second, so that each tick has some to count. The run is long enough
# for three memories of the default law.
SPEEDS, WORK_S, DURATION_S = (1.0, 1.0, 2.0, 2.0, 4.0), 0.04, 120.0
# One server loses a fifth of its speed after a sixth of the run, which makes an unstable law swing.
SHOCKED, SHOCK = 2, model.Step(at_s=DURATION_S / 6, factor=0.8)
# Long after the change, so that a stable law has settled.
LAST_PART_S = DURATION_S / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityTrial:
    """A point of a law's map: its load, and the delay of all messages, half of it before the controller."""

    law: str
    load: float
    delay_ticks: int = 0

    def case(self) -> Case:
        """Return the simulation: five servers, one of which slows down; a tick has a second."""
        servers = [Server(speed=speed, baseline=speed) for speed in SPEEDS]
        servers[SHOCKED] = replace(servers[SHOCKED], steps=(SHOCK,))
        left = sum(SPEEDS) - (1 - SHOCK.factor) * SPEEDS[SHOCKED]
        before_s = float((self.delay_ticks + 1) // 2)
        prompt = model.Delays()
        return Case(
            servers=tuple(servers),
            clients=model.OpenClients(rate_per_s=self.load * left / WORK_S),
            work=model.Work(cpu=model.Draw(mean_s=WORK_S)),
            duration_s=DURATION_S,
            warmup_s=DURATION_S - LAST_PART_S,
            balancing=LAWS[self.law],
            delays=model.Delays(
                sample_s=prompt.sample_s + before_s,
                report_s=prompt.report_s + before_s,
                fetch_s=prompt.fetch_s + (self.delay_ticks - before_s),
            ),
        )


def trials(options: argparse.Namespace) -> list[StabilityTrial]:
    """Return the points of every law's map, or of a coarse one."""
    loads, delays = (QUICK_LOADS, QUICK_DELAYS_TICKS) if options.quick else (LOADS, DELAYS_TICKS)
    return [
        StabilityTrial(law=law, load=load, delay_ticks=ticks)
        for law, load, ticks in product(LAWS, loads, delays)
    ]


def figures_of(case: Case, result: RunResult) -> Figures:
    """Sum up the last third of a run.

    swing       part of all traffic that moves to and fro (`measures.swing`)
    misplaced   part of the traffic at the wrong server: a law may be at rest and wrong
    """
    ticks = result.ticks
    last = ticks.t_s > case.warmup_s
    weights = ticks.weights[last]
    return {
        "swing": measures.swing(weights),
        "misplaced": measures.misplaced(weights, measures.shares(measures.capacities(case, ticks.t_s[last]))),
        "p99_ms": measures.percentile_ms(result, 99),
    }


def page(_options: argparse.Namespace, runs: Runs, command: str) -> Page:
    """Return every law's results over load, in time and with the latest messages; and the maps."""
    points = measures.averaged(runs)
    latest = max(at.delay_ticks for at in points)
    in_time, late = (
        {(at.law, at.load): its for at, its in points.items() if at.delay_ticks == ticks}
        for ticks in (0, latest)
    )
    tables = [
        measures.table_of(f"{title}, by load", "law", measures.texts(of, measure, scale, digits))
        for title, of, measure, scale, digits in (
            ("Swing, %, as shipped", in_time, "swing", 100, 1),
            (f"Swing, %, all messages {latest} ticks late", late, "swing", 100, 1),
            ("Traffic at the wrong server, %, as shipped", in_time, "misplaced", 100, 1),
            ("p99, ms, as shipped", in_time, "p99_ms", 1, 0),
        )
    ]
    introduction = (
        f"From the model: `{command}`. A law oscillates if the swing of its shares "
        f"in the last third of a run is {100 * SETTLED:.0f} % of all traffic or more. "
        "Values are means of the seeds ± half of their 95 % interval."
    )
    return Page(
        text=lambda plots: document(
            introduction, image("Maps of the swing, one for each law", plots.get("stability")), *tables
        ),
        plots={"stability": partial(draw, points=points)},
    )


def draw(file: Path, points: Mapping[StabilityTrial, Measures]) -> None:
    """Draw the maps into a PNG file."""
    # Here, because matplotlib takes a second that --help need not wait.
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm
    from steelyard_loadtest.reporting import plots

    loads, delays = (sorted({getattr(at, name) for at in points}) for name in ("load", "delay_ticks"))

    def squares(axes: Axes, law: str) -> None:
        at = partial(StabilityTrial, law=law)
        own = [[points[at(load=x, delay_ticks=y)]["swing"].mean for x in loads] for y in delays]
        # White lies at the square root of the ends' product: at SETTLED.
        norm = LogNorm(SETTLED**2, 1.0, clip=True)
        axes.imshow(own, origin="lower", aspect="auto", cmap="RdBu_r", norm=norm, alpha=0.6)
        for y, x in product(range(len(delays)), range(len(loads))):
            axes.text(x, y, f"{100 * own[y][x]:.0f}", ha="center", va="center", fontsize=8)
        axes.set_xticks(range(len(loads)), [f"{load:g}" for load in loads])
        axes.set_yticks(range(len(delays)), [str(ticks) for ticks in delays])

    panels = [
        plots.Panel(
            series=(), title=law, empty="", x_label="load (part of the capacity)",
            y_label="all messages late (ticks more)", x_limits=(-0.5, len(loads) - 0.5),
            finish=partial(squares, law=law),
        )
        for law in LAWS
    ]  # fmt: skip
    plots.draw(
        file, [panels], size=(16, 4), settings={"axes.grid": False},
        title=f"Swing of the shares, % of all traffic: from {100 * SETTLED:.0f} on (red) a law oscillates",
    )  # fmt: skip
