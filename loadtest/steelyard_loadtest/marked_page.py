"""Puts a generated report between the marks of a page. Pure."""


def filled(page: str, name: str, report: str) -> str:
    """Return the page with the report between the marks of this name. Raises ValueError when it has none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no {begin} and {end} to write between")
    return f"{before}{begin}\n\n{report}\n{end}{after}"
