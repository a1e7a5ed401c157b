"""Writes result files, and puts a page into a folder and between the marks of a file (I/O)."""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_protocol import whole_file

from steelyard_loadtest.reporting.markdown import filled

Draw = Callable[[Path], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page for a folder, for the marks of a file, or both.

    text   from the paths of the plots by name, as in Markdown, to the page
    plots  functions that draw them, by name without `.png`
    files  the figures, CSV or JSON by file name; only in the folder
    """

    text: Callable[[Mapping[str, str]], str]
    plots: Mapping[str, Draw]
    files: Mapping[str, str] = field(default_factory=dict)


def check_page(file: Path | None, marks: str) -> None:
    """Check before a long measurement whether the file can be filled. Raises OSError, ValueError."""
    if file is not None:
        filled(file.read_text(encoding="utf-8"), marks, "")


def write_page(page: Page, out: Path, name: str = "report") -> list[Path]:
    """Write OUT/NAME.md with its figures and plots; return the files. Raises OSError."""
    paths = {plot: f"{plot}.png" for plot in page.plots}
    texts = {f"{name}.md": page.text(paths), **page.files}
    written = [write_text(out / file, text) for file, text in texts.items()]
    for plot, draw in page.plots.items():
        draw(out / paths[plot])
    return [*written, *(out / path for path in paths.values())]


def fill_page(page: Page, file: Path | None, marks: str, *, folder: str = "plots", prefix: str = "") -> None:
    """Write the page between the file's marks, and its plots as PREFIX + name to FOLDER in the file's folder.

    Does nothing without a file. Raises OSError, and ValueError without such marks.
    """
    if file is None:
        return
    paths = {plot: f"{folder}/{prefix}{plot}.png" for plot in page.plots}
    (file.parent / folder).mkdir(parents=True, exist_ok=True)
    for plot, draw in page.plots.items():
        draw(file.parent / paths[plot])
    text = filled(file.read_text(encoding="utf-8"), marks, page.text(paths))
    write_text(file, text)


def write_text(file: Path, text: str) -> Path:
    """Write a text, compressed without a time stamp if the name ends in .gz. Raises OSError.

    The write is one step: nobody reads half of it, and a full disk leaves the earlier text.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    whole_file.write(file, gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    return file
