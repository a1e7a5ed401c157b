"""Writes the report: Markdown, HTML and plots, into one folder (I/O)."""

import base64
from pathlib import Path

from steelyard_loadtest.lab.report import render
from steelyard_loadtest.lab.report.document import document
from steelyard_loadtest.lab.report.plots.draw import FOLDER, draw_scenario, draw_verdict
from steelyard_loadtest.lab.report.view import views
from steelyard_loadtest.lab.results import Results


def write(out: Path, results: Results) -> list[Path]:
    """Write everything anew, from whatever was measured, and return the files. Raises OSError."""
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    found = views(results)
    verdict_figure = draw_verdict(out, found)
    figures = {view.scenario.name: draw_scenario(out, view) for view in found}
    drawn = [figure for own in figures.values() for figure in own]
    if verdict_figure:
        drawn.append(verdict_figure)
    report = document(results, found, verdict_figure, figures)
    pictures = {figure.path: _data_uri(out / figure.path) for figure in drawn}
    texts = {
        "report.html": render.one_html(report, pictures),
        "report.md": render.markdown(report),
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    return [*(out / name for name in texts), *(out / figure.path for figure in drawn)]


def _data_uri(file: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
