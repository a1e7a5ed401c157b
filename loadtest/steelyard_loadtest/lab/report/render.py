"""The document as Markdown and as one HTML file, by the templates beside this file (reads them)."""

import html
import re
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from steelyard_loadtest.lab.report.document import Document

TEMPLATES = Path(__file__).with_name("templates")


def markdown(document: Document) -> str:
    """Write it as GitHub's Markdown."""
    environment = Environment(  # noqa: S701 - Markdown, in which `cell` and `plain` escape what must be
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"cell": _cell, "plain": _plain}
    text = environment.get_template("report.md").render(document=document)
    return re.sub(r"\n{3,}", "\n\n", text)


def one_html(document: Document, pictures: Mapping[str, str]) -> str:
    """Write it as HTML that needs nothing else; pictures: the data URI by a figure's path."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = _marked
    return environment.get_template("report.html").render(document=document, pictures=pictures)


def _plain(text: str) -> str:
    """Text in which < begins no tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _cell(text: str) -> str:
    """Text for a table's cell: a bar would end it."""
    return _plain(text).replace("|", "\\|").replace("\n", " ")


def _marked(text: str) -> Markup:
    """The two marks of Markdown that our texts use: `code` and *emphasis*."""
    escaped = html.escape(text)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escaped))  # noqa: S704 - escaped above
