"""Puts a comparison into a page of the documentation: the report, the findings, the plots beside it (I/O)."""

import csv
import re
import shutil
from pathlib import Path

from steelyard_loadtest.lab.figures.cell import figures
from steelyard_loadtest.lab.figures.summary import summarize
from steelyard_loadtest.lab.findings import page as findings
from steelyard_loadtest.lab.results import Results
from steelyard_loadtest.marked_page import filled

NAME = "measured"
"""Of the marks."""

PLOTS = "plots"


def check(page: Path) -> None:
    """Look before an hour of measuring whether the page can be filled. Raises OSError, ValueError."""
    filled(page.read_text(encoding="utf-8"), NAME, "")


def fill(page: Path, out: Path, results: Results, dataplane: Path) -> None:
    """Write the report in `out` between the page's marks, and its plots to plots/<page's name>/.

    dataplane: the CSV of `steelyard-loadtest dataplane`, for the findings that come
    from it; without it they say that they were not measured.
    """
    events = {scenario.name: scenario.events for scenario in results.scenarios}
    summaries = summarize(figures(entry, events[entry.cell.scenario]) for entry in results.measured)
    rows = None
    if dataplane.exists():
        with dataplane.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    report = (out / "report.md").read_text(encoding="utf-8")
    text = inserted(report, f"{PLOTS}/{page.stem}") + "\n" + findings.section(summaries, rows)
    folder = page.parent / PLOTS / page.stem
    shutil.rmtree(folder, ignore_errors=True)  # a plot that is not made any more is not shown any more
    shutil.copytree(out / PLOTS, folder)
    page.write_text(filled(page.read_text(encoding="utf-8"), NAME, text), encoding="utf-8")


def inserted(report: str, plots: str) -> str:
    """Return a report as a part of a page: without its title, one level down, with its plots elsewhere."""
    _, _, body = report.partition("\n")
    body = re.sub(r"^(#{2,5}) ", r"#\1 ", body, flags=re.MULTILINE)
    return body.replace(f"]({PLOTS}/", f"]({plots}/").strip() + "\n"
