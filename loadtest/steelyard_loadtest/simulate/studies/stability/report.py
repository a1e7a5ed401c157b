"""The stability study in words and tables: Markdown and CSV text. Pure."""

from collections.abc import Mapping, Sequence

from steelyard_loadtest.simulate.studies.stability.figures import SETTLED, Maps, Point
from steelyard_loadtest.simulate.studies.stability.grid import (
    BUSY,
    BY_NAME,
    DEFAULT_INTERVAL_S,
    PAPERS_EDGE,
    VARIANTS,
)
from steelyard_loadtest.simulate.studies.stability.reach import (
    Reach,
    delay_reach,
    gain_reach,
    interval_reach,
    load_reach,
    mismatch_reach,
)
from steelyard_loadtest.simulate.studies.statistics import Interval
from steelyard_loadtest.simulate.studies.tidy import MEASURE_COLUMNS, csv_text, measured

HEAD = ("map", "law", "parameters", "load", "delay_ticks", "mismatch_ticks", "interval_s", "knob", "settled")


def stability_csv(maps: Maps) -> str:
    """Return every point and measure: the same for the same seeds."""
    named: Mapping[str, Sequence[Point]] = {
        "load-delay": maps.delay,
        "load-mismatch": maps.mismatch,
        "gain-interval": maps.gain,
    }
    return csv_text(
        (*HEAD, *MEASURE_COLUMNS),
        [
            (*_head(name, point), *measured(measure, unit, found))
            for name, points in named.items()
            for point in points
            for measure, unit, found in (
                ("swing", "part of traffic", point.swing),
                ("misplaced", "part of traffic", point.misplaced),
                ("p99_ms", "ms", point.p99_ms),
            )
        ],
    )


def report(maps: Maps, command: str, plot: str | None) -> str:
    """Return the defaults' margins, and what the laws do where they are at home."""
    parts = [
        f"From the model: `{command}`. Settled: the shares' swing in the last third of a run is below "
        f"{100 * SETTLED:.0f} % of all traffic. Figures: means of the seeds ± half of their 95 % interval.",
        *([f"![Heat maps of the swing, a column for each law]({plot})"] if plot else []),
        "**Margins of the defaults**: how far each thing may go, alone, until the law oscillates. Lateness: "
        f"at the loads at which the law settles as shipped, up to {HIGHEST_PLANNED:g}. T and gain: at load "
        f"{BUSY:g}, of the paper's law at {PAPERS_EDGE:g}.\n\n" + "\n".join(_margins(maps)),
        f"**As shipped, at load {BUSY:g}**\n\n" + "\n".join(_at_home(maps)),
    ]
    return "\n\n".join(parts) + "\n"


def _margins(maps: Maps) -> list[str]:
    lines = [
        "| law | settles up to load | there, all messages late by ticks | there, samples alone late by ticks "
        "| T up, s | T down, s | more gain |",
        "|---|---|---|---|---|---|---|",
    ]
    for variant in VARIANTS:
        own = maps.of(variant)
        load = load_reach(own.delay)
        loads = [
            each
            for each in sorted({point.cell.load for point in own.delay})
            if load.last_settled is not None and each <= min(load.last_settled, HIGHEST_PLANNED)
        ]
        gain = gain_reach(own.gain, variant)
        cells = [
            variant.title,
            _shown(load),
            _shown(_worst([delay_reach(own.delay, each) for each in loads])),
            _shown(_worst([mismatch_reach(own.mismatch, each) for each in loads])),
            _shown(interval_reach(own.gain, variant, upwards=True)),
            _shown(interval_reach(own.gain, variant, upwards=False)),
            "no knob" if gain is None or variant.knob is None else f"{variant.knob.name}: {_shown(gain)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


HIGHEST_PLANNED = 0.9
"""Beyond it the queues of a Poisson stream swing by themselves; nobody plans for that."""


def _at_home(maps: Maps) -> list[str]:
    lines = ["| law | swing, % | at the wrong server, % | p99, ms |", "|---|---|---|---|"]
    for variant in VARIANTS:
        for point in maps.of(variant).delay:
            cell = point.cell
            if cell.load == BUSY and cell.delay_ticks == 0 and cell.interval_s == DEFAULT_INTERVAL_S:
                lines.append(
                    f"| {variant.title} | {_percent(point.swing)} | {_percent(point.misplaced)} "
                    f"| {point.p99_ms.mean:,.0f} |"
                )
    return lines


def _worst(reaches: Sequence[Reach]) -> Reach:
    """Return the reach that ends first; one that only the map ends is beyond all others."""

    def length(each: Reach) -> tuple[float, float]:
        infinite = float("inf")
        return (
            infinite if each.first_unsettled is None else each.first_unsettled,
            -infinite if each.last_settled is None else each.last_settled,
        )

    return min(reaches, key=length, default=Reach(last_settled=None, first_unsettled=None))


def _shown(found: Reach) -> str:
    if found.last_settled is None:
        return "oscillates from the start"
    if found.first_unsettled is None:
        return f"{found.last_settled:g} (the map's end)"
    return f"{found.last_settled:g} (not {found.first_unsettled:g})"


def _percent(found: Interval) -> str:
    half = "" if found.count < 2 else f" ± {100 * found.half_width:.1f}"
    return f"{100 * found.mean:.1f}{half}"


def _head(name: str, point: Point) -> tuple[object, ...]:
    cell, variant = point.cell, BY_NAME[point.cell.variant]
    parameters = dict(variant.parameters)
    if variant.knob is not None and cell.knob is not None:
        parameters[variant.knob.name] = cell.knob
    text = " ".join(f"{key}={value:g}" for key, value in parameters.items())
    return (
        name, variant.law, text, cell.load, cell.delay_ticks, cell.mismatch_ticks, cell.interval_s, cell.knob,
        int(point.settled),
    )  # fmt: skip
