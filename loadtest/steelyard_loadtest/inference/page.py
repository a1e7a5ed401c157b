"""The page of a comparison before inference engines: its tables, and its plots (matplotlib, PNG files)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

from steelyard_loadtest.inference.contenders import BY_NAME, SIZES, SLOWED
from steelyard_loadtest.inference.figures import ADAPTED_S, GOOD_TTFT_S, Row, Run, rows
from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.markdown import Column, bullets, document, image, markdown, table
from steelyard_loadtest.reporting.plot_style import COLORS, FAINT, INK, PROGRAMS
from steelyard_loadtest.reporting.plots import Mark, Panel, RowName, RowPanel, Rule, Series, draw
from steelyard_loadtest.reporting.publish import Page
from steelyard_loadtest.reporting.statistics import grouped

COLUMNS = 5
WINDOWS = 40
"""Interval over which queues are averaged: each prompt is a step, and only lasting queues matter."""

SHOWN_S = 30.0
"""A queue that keeps growing leaves the plot at the top, because otherwise no other could be seen."""

PERCENTILES = (50, 90, 99)


def page(runs: Sequence[Run], missing: Mapping[str, str], setup: Mapping[str, str], asked: str) -> Page:
    """Return the page. setup: the conditions. asked: the requests, in words."""
    found = rows(runs, list(BY_NAME))
    plots = {"ttft": partial(_draw_ttft, found), "queues": partial(_draw_queues, found)}
    return Page(text=partial(_text, found, missing, setup, asked), plots=plots if found else {})


def _text(
    found: Sequence[Row], missing: Mapping[str, str], setup: Mapping[str, str], asked: str,
    plots: Mapping[str, str],
) -> str:  # fmt: skip
    compression = max((run.compression for row in found for run in row.runs), default=1.0)
    lost = max((row.medians["lost"] or 0.0 for row in found), default=0.0)
    trials = wording.counted(max((len(row.runs) for row in found), default=0), "trial")
    figures = [
        *(_of(f"TTFT p{part}, s", f"ttft_p{part}_s", 2) for part in PERCENTILES),
        *(_of(f"between tokens p{part}, ms", f"between_p{part}_s", 0, 1000) for part in (50, 99)),
        _of("good/s", "good_per_s", 2), _of("failed", "failed", 0), _of("429", "refused", 0),
        _of("hits, %", "hits", 1, 100), _of("CPU, ms", "balancer_cpu_ms", 2),
    ]  # fmt: skip
    engines = [
        *(_of(f"share {name}, %", f"share_{name}", 0, 100) for name in SIZES),
        *(_of(f"cost {name}, %", f"cost_{name}", 0, 100) for name in SIZES),
        _of("queues", "queue_ratio", 2),
    ]
    return document(
        f"Requests: {asked}. Time passes {compression:.3g} times as fast, and all times are the engines'."
        f" Medians of {trials}. Load is the cost of all requests without a cache, as a part of the engines'"
        f" capacity. This machine took at most {wording.small_percent(lost)} of an engine's time.",
        _table(found, figures),
        f"Good: requests with a first token within {GOOD_TTFT_S:g} s. Between tokens: mean of a response."
        " Hits: part of the prompts' tokens. CPU: the balancer's, per request.",
        _table(found, engines),
        "Share: part of the requests. Cost: computed tokens, as a part of the engine's capacity. Queues: the"
        f" longest mean queue in time over the shortest, from {ADAPTED_S:g} s after {SLOWED} has slowed."
        f" {_judged(found)}",
        image("Time to the first token: median, p90 and p99 of each contender", plots.get("ttft")),
        image("The queue of each engine over time", plots.get("queues")),
        bullets([f"{BY_NAME[name].title} was not measured: {why}" for name, why in missing.items()]),
        bullets(setup),
    )


def _table(found: Sequence[Row], columns: Sequence[Column[Row]]) -> str:
    title = Column[Row]("", lambda row: BY_NAME[row.algorithm].title, "left")
    ours = table(
        found, [title, *columns], bold=lambda row: BY_NAME[row.algorithm].ours,
        group=lambda row: f"load {row.level:.0%}: {row.medians['asked_per_s']:.2f} requests/s",
    )  # fmt: skip
    return markdown(ours)


def _judged(found: Sequence[Row]) -> str:
    """Return a sentence for each load: the contenders with no queue twice as long as another."""
    sentences = []
    for level, own in grouped(found, lambda row: row.level).items():
        below = [row.algorithm for row in own if (ratio := row.medians["queue_ratio"]) and ratio < 2]
        names = ", ".join(BY_NAME[name].title for name in below) or "none"
        sentences.append(f"At {wording.percent(level)} load it is below 2 with: {names}.")
    return " ".join(sentences)


def _of(heading: str, name: str, digits: int, factor: float = 1.0) -> Column[Row]:
    def field(row: Row) -> str:
        value = row.medians.get(name)
        return wording.number(None if value is None else value * factor, digits)

    return Column(heading, field)


def _draw_ttft(found: Sequence[Row], file: Path) -> None:
    shown = [contender for name, contender in BY_NAME.items() if any(row.algorithm == name for row in found)]
    panels = [
        RowPanel(
            rows=[
                [mark for row in own if row.algorithm == one.name for mark in _marks(row)] for one in shown
            ],
            title=f"time to the first token (s): p50, p90, p99 at {wording.percent(level)} load",
            scale="log",
        )
        for level, own in grouped(found, lambda row: row.level).items()
    ]
    names = [RowName(text=one.title, bold=one.ours) for one in shown]
    draw(file, [panels], size=(2.5 + 4.5 * len(panels), 0.9 + 0.32 * len(shown)), names=names)


def _marks(row: Row) -> list[Mark]:
    values = [value for part in PERCENTILES if (value := row.medians[f"ttft_p{part}_s"]) is not None]
    color = PROGRAMS.get(BY_NAME[row.algorithm].program, INK)
    marks = [Mark(value=value, color=color, marker=kind) for value, kind in zip(values, "|oD", strict=False)]
    text = f"{values[-1]:.1f}" if values else ""
    return marks[:-1] + [replace(mark, low=values[0], high=values[-1], text=text) for mark in marks[-1:]]


def _draw_queues(found: Sequence[Row], file: Path) -> None:
    level = max(row.level for row in found)
    panels = [_queues(row.runs[0]) for row in found if row.level == level]
    panels += [Panel(series=[], empty="")] * (-len(panels) % COLUMNS)
    grid = [panels[begin : begin + COLUMNS] for begin in range(0, len(panels), COLUMNS)]
    draw(
        file, grid, size=(14, 0.8 + 2.2 * len(grid)), sharex=True, sharey=True, legend="outside lower center",
        title=f"Prompts that wait at each engine, in seconds of its time ({wording.percent(level)} load)."
        f" Dashed: {SLOWED} slows",
    )  # fmt: skip


def _queues(run: Run) -> Panel:
    window_s = run.end_s / WINDOWS
    series = []
    for place, name in enumerate(run.sizes):
        own = [one for one in run.readings if one.engine == name]
        windows = grouped(own, lambda one: one.at_s // window_s).items()
        y = [fmean(one.values["queue_s"] for one in inside) for _, inside in windows]
        style = {"color": COLORS[0 if name == run.slowed else place + 1], "linewidth": 1.4}
        series.append(Series(x=[at * window_s for at, _ in windows], y=y, label=name, style=style))
    slowed = Rule(at=run.slowed_s, axis="x", color=FAINT)
    return Panel(
        series=series, title=BY_NAME[run.trial.algorithm].title, y_limits=(0, SHOWN_S), rules=[slowed]
    )
