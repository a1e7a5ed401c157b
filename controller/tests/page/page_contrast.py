"""The contrast of the page's texts against their grounds, computed in the browser. I/O.

A text is measured where it is painted: over the backgrounds of all elements below it, with their opacity. The
labels of charts are pixels, so they are measured by the colours that they are drawn with.
"""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

FOLDER = Path(__file__).parent

# WCAG 2.2, 1.4.3, for text of any size.
LEAST = 4.5

_ADD = """
(html) => {
  const box = Object.assign(document.createElement("div"), { id: "specimen", innerHTML: html });
  document.querySelector("main").append(box);
}
"""


def contrasts(page: Page) -> list[dict[str, Any]]:
    """Return the lowest contrast for each kind of text in view, {what, text, ratio}, the lowest first.

    The specimen stands beside the page's own texts: it has the colours of every state.
    """
    page.evaluate(_ADD, (FOLDER / "specimen.html").read_text(encoding="utf-8"))
    measured: list[dict[str, Any]] = page.evaluate((FOLDER / "contrast.js").read_text(encoding="utf-8"))
    page.evaluate("document.querySelector('#specimen').remove()")
    return measured
