"""Leaves a run's report: in its folder, and in a page of the documentation (I/O)."""

from collections.abc import Mapping
from pathlib import Path

from steelyard_loadtest.chaos import bounds_plot, files, timeline_plot
from steelyard_loadtest.chaos.judge import lost_between
from steelyard_loadtest.chaos.records import Gathered
from steelyard_loadtest.chaos.table import report
from steelyard_loadtest.marked_page import filled

BOUNDS = "The slowest answer and the time to recover of each fault, beside their bounds"
TIMELINE = "The slowest answer in each tenth of a second of the run, the faults shaded, failures in red"


def write(out: Path, gathered: Gathered, conditions: Mapping[str, str]) -> list[Path]:
    """Write report, figures and pictures into a folder, and return the files. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    pictures = {BOUNDS: "bounds.png", TIMELINE: "timeline.png"}
    _draw(out, pictures, gathered)
    (out / "report.md").write_text(_report(gathered, conditions, pictures), encoding="utf-8")
    written = files.write(out, gathered, conditions)
    return [out / "report.md", *written, *(out / name for name in pictures.values())]


def fill(page: Path, marks: str, gathered: Gathered, conditions: Mapping[str, str]) -> None:
    """Write the report between a page's marks, and its pictures to plots/<page's name>/ beside it."""
    folder = f"plots/{page.stem}"
    pictures = {BOUNDS: f"{folder}/{marks}-bounds.png", TIMELINE: f"{folder}/{marks}-timeline.png"}
    (page.parent / folder).mkdir(parents=True, exist_ok=True)
    _draw(page.parent, pictures, gathered)
    text = filled(page.read_text(encoding="utf-8"), marks, _report(gathered, conditions, pictures))
    page.write_text(text, encoding="utf-8")


def _report(gathered: Gathered, conditions: Mapping[str, str], pictures: Mapping[str, str]) -> str:
    return report(
        gathered.outcomes,
        requests=len(gathered.requests),
        strays=lost_between(gathered),
        interrupted=gathered.interrupted,
        conditions=conditions,
        pictures=pictures,
    )


def _draw(folder: Path, pictures: Mapping[str, str], gathered: Gathered) -> None:
    bounds_plot.draw(folder / pictures[BOUNDS], gathered.outcomes)
    timeline_plot.draw(folder / pictures[TIMELINE], gathered)
