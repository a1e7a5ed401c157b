"""Leaves a report in a folder of results and between the marks of a page, its plots beside it (I/O)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_loadtest.reporting.markdown import filled
from steelyard_loadtest.reporting.result_files import write_text

Draw = Callable[[Path], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report that is written to a folder, to a page or to both.

    text: from the paths of the plots by name, as they stand in Markdown, to the report.
    plots: what draws each, by name without `.png`. files: the figures, CSV or JSON by file name; a page has
    none of them.
    """

    text: Callable[[Mapping[str, str]], str]
    plots: Mapping[str, Draw]
    files: Mapping[str, str] = field(default_factory=dict)


def check_page(page: Path | None, marks: str) -> None:
    """Look before an hour of measuring whether the page can be filled. Raises OSError, ValueError."""
    if page is not None:
        filled(page.read_text(encoding="utf-8"), marks, "")


def write_report(report: Report, out: Path, name: str = "report") -> list[Path]:
    """Write OUT/NAME.md, and the figures and plots beside it; return the files. Raises OSError."""
    paths = {plot: f"{plot}.png" for plot in report.plots}
    texts = {f"{name}.md": report.text(paths), **report.files}
    written = [write_text(out / file, text) for file, text in texts.items()]
    for plot, draw in report.plots.items():
        draw(out / paths[plot])
    return [*written, *(out / path for path in paths.values())]


def fill_page(
    report: Report, page: Path | None, marks: str, *, folder: str = "plots", prefix: str = ""
) -> None:
    """Write the report between the page's marks, and PREFIX + its plots to FOLDER beside it.

    Without a page nothing is done. Raises OSError, ValueError (there are no such marks).
    """
    if page is None:
        return
    paths = {plot: f"{folder}/{prefix}{plot}.png" for plot in report.plots}
    (page.parent / folder).mkdir(parents=True, exist_ok=True)
    for plot, draw in report.plots.items():
        draw(page.parent / paths[plot])
    text = filled(page.read_text(encoding="utf-8"), marks, report.text(paths))
    page.write_text(text, encoding="utf-8")
