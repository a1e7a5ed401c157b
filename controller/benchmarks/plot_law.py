"""The plots of docs/research/law.md: `make plot-law`.

The laws run in the tests' fluid model, which has no noise: every movement comes from the law.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from steelyard_controller import laws
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import Floats

sys.path.insert(0, str(Path(__file__).parents[2]))
from testing.fluid_model import OTHER_INDICATORS, Servers, closed_loop, decisions

mpl.use("Agg")
import matplotlib.pyplot as plt

PLOTS = Path(__file__).parents[2] / "docs" / "research" / "plots"

SHOWN: dict[str, tuple[str, dict[str, float], dict[str, Any]]] = {
    "cswrr": ("cswrr", {}, {"linestyle": "--"}),
    "steelyard": ("steelyard", {}, {}),
    # At its own H = 0.3 it never acts, and its line would be the top of every panel.
    "paper, H = 0.7": ("paper", {"H": 0.7}, {"linewidth": 1.0}),
}
LOADS = (0.4, 0.6, 0.75, 0.9)
CAPACITY, SLOWED = 400.0, 200.0
BREAKS, MENDED, END = 60, 100, 140


def share(run: Sequence[Decision]) -> list[float]:
    """Return server 0's share of the weights by tick."""
    return [float(each.weights[0] / each.weights.sum()) for each in run]


def loses_half(tick: int, servers: Servers) -> None:
    """Halve server 0 at one tick, mend it at another."""
    if tick in (BREAKS, MENDED):
        servers.capacity = np.array([SLOWED if tick == BREAKS else CAPACITY, *[CAPACITY] * 3])


def stumbles(tick: int, servers: Servers) -> None:
    """Take a tenth of server 0's capacity for one tick."""
    servers.capacity = np.array([360.0 if tick == 10 else CAPACITY, *[CAPACITY] * 3])


def steady(requests: float) -> Callable[[int], float]:
    """Return a demand that does not change."""
    return lambda _tick: requests


def decided(
    law: laws.Law, ticks: int, demand: Callable[[int], float], *, late: int = 0,
    others: Floats = OTHER_INDICATORS, **more: Any,  # noqa: ANN401 - the model's
) -> list[Decision]:  # fmt: skip
    """Run a law on four equal servers, with samples and reports `late` ticks old."""
    servers = Servers(capacity=np.full(4, CAPACITY), others=others)
    return list(
        decisions(
            law,
            closed_loop(servers, ticks=ticks, demand=demand, late_samples=late, late_reports=late, **more),
        )
    )


def step_responses() -> None:
    """Draw every load and delay: the share of the server that loses half its capacity."""
    figure, panels = plt.subplots(4, 3, sharex=True, sharey=True, figsize=(11, 10), layout="constrained")
    for row, load in zip(panels, LOADS, strict=True):
        for late, panel in enumerate(row):
            panel.plot([50, BREAKS, BREAKS, MENDED, MENDED, END], [1 / 4, 1 / 4, 1 / 7, 1 / 7, 1 / 4, 1 / 4],
                       color="black", linewidth=0.8, linestyle=":", label="what it can do")  # fmt: skip
            for label, (law, parameters, style) in reversed(SHOWN.items()):
                demand = steady(load * (3 * CAPACITY + SLOWED))
                run = decided(laws.create(law, parameters), END, demand, late=late, event=loses_half)
                style = {"linewidth": 1.5, "color": laws.presentation_of(law).color, **style}
                panel.step(range(50, END), share(run)[50:], where="post", label=label, **style)
            lateness = "fresh" if late == 0 else f"{late} tick{'s' if late > 1 else ''} late"
            panel.set_title(f"load {load:g} of what is left, {lateness}", fontsize=9)
    panels[0, 0].legend(fontsize=8, loc="lower right")
    panels[0, 0].set_ylim(0, 0.34)
    for panel in panels[-1]:
        panel.set_xlabel("tick (s)")
    for panel in panels[:, 0]:
        panel.set_ylabel("share of server 0")
    figure.suptitle("One server of four loses half its capacity at 60 and gets it back at 100")
    saved(figure, "law-step")


def anatomy() -> None:
    """Draw the parts of the default law's weight in the hardest case."""
    run = decided(
        laws.create("steelyard"), 90, steady(0.9 * (3 * CAPACITY + SLOWED)), late=2, event=loses_half
    )[55:]
    ticks = range(55, 90)
    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(8, 6), layout="constrained")
    estimate = [each.capacity_estimate[0] / each.capacity_estimate.sum() for each in run]
    top.plot(ticks, share(run), color="tab:blue", label="weight", drawstyle="steps-post")
    top.plot(ticks, estimate, color="tab:orange", label="estimate of capacity", drawstyle="steps-post")
    top.axhline(1 / 7, color="black", linestyle=":", linewidth=0.8, label="what it can do")
    top.set_ylabel("share of server 0")
    top.set_ylim(0, 0.3)
    for name, color in (("backlog", "tab:blue"), ("slow", "tab:red")):
        factor = [each.columns[name][0] for each in run]
        bottom.plot(ticks, factor, color=color, label=f"factor {name}", drawstyle="steps-post")
    backlog = [each.columns["backlog_s"][0] for each in run]
    bottom.plot(ticks, backlog, color="grey", label="backlog (s)", drawstyle="steps-post")
    bottom.set_ylim(bottom=0)
    bottom.set_xlabel("tick (s)")
    for panel in (top, bottom):
        panel.legend(fontsize=8)
    figure.suptitle("Why the weight goes below its target: load 0.9, samples and reports 2 ticks late")
    saved(figure, "law-backlog")


def paper_eigenvalue() -> None:
    """Draw the paper's law after a small disturbance, below and above half load."""
    figure, panels = plt.subplots(1, 3, sharey=True, figsize=(11, 3.4), layout="constrained")
    for load, panel in zip((0.4, 0.55, 0.6), panels, strict=True):
        for label, law, parameters in (
            ("paper, every node below H", "paper", {"H": 0.99, "L": 1.0}),
            ("steelyard", "steelyard", {}),
        ):
            demand = steady(load * 4 * CAPACITY)
            run = decided(laws.create(law, parameters), 50, demand, others=np.ones(3), event=stumbles)
            color = laws.presentation_of(law).color
            panel.plot(share(run), color=color, label=label, linewidth=1.4)
        panel.set_title(f"load {load:g}: eigenvalue {-load / (1 - load):.2f}", fontsize=9)
        panel.set_xlabel("tick (s)")
    panels[0].set_ylabel("share of server 0")
    panels[0].legend(fontsize=8)
    figure.suptitle("The paper's law after a tick with a tenth less capacity, at 10")
    saved(figure, "law-paper")


def fades_and_fails() -> None:
    """Draw weights as traffic fades, and for a server that fails fast."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    fading = decided(
        laws.create("steelyard"),
        600,
        lambda tick: 1000.0 * max(0.0, 1.0 - max(0, tick - 100) / 200),
        baseline=(400, 200, 200, 200),
    )
    left.plot(share(fading), color="tab:blue", label="share of server 0")
    left.plot([each.columns["prior_share"][0] for each in fading], color="tab:orange", label="prior's part")
    left.axhline(0.4, color="black", linestyle=":", linewidth=0.8, label="its baseline")
    left.axvspan(100, 300, color="grey", alpha=0.15, label="traffic fades to nothing")
    left.set_title("Traffic fades, the estimates stay", fontsize=9)

    def fails(tick: int, servers: Servers) -> None:
        if tick in (60, 160):
            servers.failing = np.array([1.0 if tick == 60 else 0.0, 0, 0, 0])

    failing = decided(laws.create("steelyard"), 260, steady(0.75 * 4 * CAPACITY), late=1, event=fails)
    right.plot(share(failing), color="tab:blue", label="share of server 0")
    right.axhline(0.02 / 4, color="black", linestyle=":", linewidth=0.8, label="the floor")
    right.axvspan(60, 160, color="tab:red", alpha=0.12, label="answers every request with an error at once")
    right.set_title("Idle, fast, and failing: to the floor and back", fontsize=9)
    right.set_ylim(0, 0.36)
    left.set_ylim(bottom=0)
    for panel in (left, right):
        panel.set_xlabel("tick (s)")
        panel.legend(fontsize=8, loc="upper left")
    saved(figure, "law-fades-and-fails")


def saved(figure: Any, name: str) -> None:  # noqa: ANN401 - matplotlib's figure
    """Write a plot to docs/research/plots."""
    path = PLOTS / f"{name}.png"
    # No date and no version in the file: the same law draws the same bytes.
    figure.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(figure)
    print(path)


def main() -> None:
    """Draw all of them."""
    PLOTS.mkdir(parents=True, exist_ok=True)
    step_responses()
    anatomy()
    paper_eigenvalue()
    fades_and_fails()


if __name__ == "__main__":
    main()
