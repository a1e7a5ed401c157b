"""Pages of a collection: `limit` and `after` in the query, the next one in the header `Link` (RFC 8288).

In the order of the names, so that what comes or goes between two pages moves nothing else.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query
from steelyard_protocol import wire

MOST = 10_000

Limit = Annotated[
    int | None,
    Query(ge=1, le=MOST, description="at most so many, in the order of their names; left out: all of them"),
]
After = Annotated[
    str | None,
    Query(pattern=f"^{wire.NAME.pattern}$", description="those behind this name, as `Link` has it"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The places of a page's members in the collection, and the headers that name the next page."""

    places: Sequence[int]
    headers: dict[str, str]


def page(path: str, names: Sequence[str], *, after: str | None, limit: int | None) -> Page:
    """Return a page of a collection by its members' names; all of it where nothing else is asked for."""
    if after is None and limit is None:
        return Page(places=range(len(names)), headers={})
    order = sorted(range(len(names)), key=names.__getitem__)
    first = 0 if after is None else bisect_right(order, after, key=names.__getitem__)
    end = len(order) if limit is None else first + limit
    if limit is None or end >= len(order):
        return Page(places=order[first:], headers={})
    query = urlencode({"after": names[order[end - 1]], "limit": limit})
    return Page(places=order[first:end], headers={"Link": f'<{path}?{query}>; rel="next"'})
