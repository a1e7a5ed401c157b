"""Parts of a collection that may be too large: pages by names, or a view of it.

Pages: `limit` and `after` in the query, the next one in the header `Link` (RFC 8288). They are sorted by
name, so that members added or removed between two pages move no others. A view is a search, an order, and a
page by places.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Depends, Query
from steelyard_protocol import wire

from steelyard_controller.api.problems import Mistake, invalid
from steelyard_controller.tick.shown_rows import ORDERS, View

MAX_PAGE_MEMBERS = 10_000

Limit = Annotated[
    int | None,
    Query(
        ge=1, le=MAX_PAGE_MEMBERS, description="members per page, in the order of their names (default: all)"
    ),
]
After = Annotated[
    str | None,
    Query(pattern=f"^{wire.NAME.pattern}$", description="those behind this name, as `Link` has it"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page's members as places in the collection, and the headers with the next page."""

    places: Sequence[int]
    headers: dict[str, str]


def page(path: str, names: Sequence[str], *, after: str | None, limit: int | None) -> Page:
    """Return a page of a collection by its members' names; all of it without parameters."""
    if after is None and limit is None:
        return Page(places=range(len(names)), headers={})
    order = sorted(range(len(names)), key=names.__getitem__)
    first = 0 if after is None else bisect_right(order, after, key=names.__getitem__)
    end = len(order) if limit is None else first + limit
    if limit is None or end >= len(order):
        return Page(places=order[first:], headers={})
    query = urlencode({"after": names[order[end - 1]], "limit": limit})
    return Page(places=order[first:end], headers={"Link": f'<{path}?{query}>; rel="next"'})


_ORDERS = ("auto", "worst", *ORDERS, *(f"-{name}" for name in ORDERS))


def _view(
    search: Annotated[str, Query(max_length=100, description="in names and addresses; or a state")] = "",
    order: Annotated[
        Literal[_ORDERS] | None,  # type: ignore[valid-type]
        Query(description="order: most troubled first (`worst`), or by a column; a minus: largest first"),
    ] = None,
    troubled: Annotated[bool, Query(description="only what needs a look")] = False,
    offset: Annotated[int, Query(ge=0, le=10_000_000, description="behind so many")] = 0,
    limit: int | None = None,
    after: str | None = None,
) -> View | None:
    if order is None and not search and not troubled and offset == 0:
        return None
    if after is not None:
        raise invalid([Mistake(field="after", message="pages by names: leave it out, and give `offset`")])
    return View(search=search, order=order or "auto", troubled=troubled, offset=offset, limit=limit or 50)


Shown = Annotated[View | None, Depends(_view)]
"""The query's search, order, troubled and offset; None: none of them."""
