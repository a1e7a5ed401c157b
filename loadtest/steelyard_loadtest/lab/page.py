"""Puts a comparison into a page of the documentation: the report, the findings, the plots beside it (I/O)."""

import csv
import re
import shutil
from pathlib import Path

from steelyard_loadtest.lab.figures.cell import figures
from steelyard_loadtest.lab.figures.summary import summarize
from steelyard_loadtest.lab.findings import page as findings
from steelyard_loadtest.lab.results import Results

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"

PLOTS = "plots"


def check(page: Path) -> None:
    """Look before an hour of measuring whether the page can be filled. Raises OSError, ValueError."""
    _filled(page.read_text(encoding="utf-8"), "")


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
    page.write_text(_filled(page.read_text(encoding="utf-8"), text), encoding="utf-8")


def inserted(report: str, plots: str) -> str:
    """Return a report as a part of a page: without its title, one level down, with its plots elsewhere."""
    _, _, body = report.partition("\n")
    body = re.sub(r"^(#{2,5}) ", r"#\1 ", body, flags=re.MULTILINE)
    return body.replace(f"]({PLOTS}/", f"]({plots}/").strip() + "\n"


def _filled(page: str, text: str) -> str:
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END} to write between")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"
