"""Reports in Markdown: parts, lists, pictures, and the place between two marks of a page. Pure."""

import re
from collections.abc import Mapping, Sequence


def document(*parts: str | None) -> str:
    """Join the parts with an empty line between; empty ones and None are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def bullets(items: Sequence[str] | Mapping[str, str], title: str = "") -> str:
    """Write a list, of a mapping as `name: text`, under a line that introduces it; "" without items."""
    lines = [f"{name}: {text}" for name, text in items.items()] if isinstance(items, Mapping) else list(items)
    if not lines:
        return ""
    return "\n".join([*([title, ""] if title else []), *(f"- {line}" for line in lines)])


def image(alt: str, path: str | None) -> str:
    """Write a picture; "" without a path."""
    return f"![{alt}]({path})" if path else ""


def as_section(page: str, plots: str, plots_on_page: str) -> str:
    """Return a page as a part of another: without its title, one level down, its plots elsewhere."""
    _, _, body = page.partition("\n")
    body = re.sub(r"^(#{2,5}) ", r"#\1 ", body, flags=re.MULTILINE)
    return body.replace(f"]({plots}/", f"]({plots_on_page}/").strip() + "\n"


def filled(file: str, marks: str, page: str) -> str:
    """Return the file with the page between the marks of this name. Raises ValueError when it has none."""
    begin, end = f"<!-- {marks}: begin -->", f"<!-- {marks}: end -->"
    before, begun, rest = file.partition(begin)
    _, closed, after = rest.partition(end)
    if not begun or not closed:
        raise ValueError(f"the page has no {begin} and {end} to write between")
    return f"{before}{begin}\n\n{page}\n{end}{after}"
