"""Writes a comparison: two CSV files, the page in Markdown, its plots, a page of docs/ (I/O)."""

import csv
import shutil
from pathlib import Path

from steelyard_loadtest.compare.findings.verdicts import SOURCES, section
from steelyard_loadtest.compare.page.document import page_text
from steelyard_loadtest.compare.page.plots.draw import FOLDER, draw_scenario
from steelyard_loadtest.compare.page.view import views
from steelyard_loadtest.figures.columns import results_csv, servers_csv
from steelyard_loadtest.figures.trial_figures import TrialFigures, figures, summarize
from steelyard_loadtest.measurements.trials import Results
from steelyard_loadtest.reporting.markdown import as_section, filled
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.scenario.find import EXPERIMENTS


def write(out: Path, results: Results) -> list[Path]:
    """Write the page anew, from whatever was measured, and return the files. Raises OSError."""
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    seen = views(results)
    drawn = {view.scenario.name: draw_scenario(out, view) for view in seen}
    texts = {name: [figure.markdown for figure in own] for name, own in drawn.items()}
    written = write_text(out / "report.md", page_text(results, seen, texts))
    return [written, *(out / figure.path for own in drawn.values() for figure in own)]


def write_csv(out: Path, results: Results) -> list[Path]:
    """Write a line a trial, and a line a server and second; return the files. Raises OSError."""
    return [
        write_text(out / "results.csv", results_csv(_figures(results))),
        write_text(out / "servers.csv", servers_csv(results.measured)),
    ]


def fill_page(page: Path, marks: str, out: Path, results: Results, dataplane: Path) -> None:
    """Write the page in `out` and the findings between the page's marks, and the plots to plots/PAGE/.

    A page without any scenario of the five sources has no findings. Raises OSError, ValueError.

    dataplane: the CSV of `steelyard-loadtest dataplane`, for the findings that come
    from it; without it they say that they were not measured.
    """
    rows = [*csv.DictReader(dataplane.read_text("utf-8").splitlines())] if dataplane.exists() else None
    text = (out / "report.md").read_text(encoding="utf-8")
    text = as_section(text, FOLDER, f"{FOLDER}/{page.stem}")
    if {scenario.name for scenario in results.scenarios} & set(EXPERIMENTS):
        text += "\n" + section(SOURCES, summarize(_figures(results)), rows)
    folder = page.parent / FOLDER / page.stem
    shutil.rmtree(folder, ignore_errors=True)  # a plot that is not made any more is not shown any more
    shutil.copytree(out / FOLDER, folder)
    write_text(page, filled(page.read_text(encoding="utf-8"), marks, text))


def _figures(results: Results) -> list[TrialFigures]:
    known = {scenario.name: (scenario.events, scenario.servers) for scenario in results.scenarios}
    return [figures(entry, *known[entry.trial.scenario]) for entry in results.measured]
