"""The query parameters of what is shown of a collection that is too large: a search, an order, a page."""

from typing import Annotated, Literal

from fastapi import Depends, Query

from steelyard_controller.api.problems import Mistake, invalid
from steelyard_controller.tick.ranking import ORDERS, View

_ORDERS = ("auto", "worst", *ORDERS, *(f"-{name}" for name in ORDERS))


def _view(
    search: Annotated[str, Query(max_length=100, description="in names and addresses; or a state")] = "",
    order: Annotated[
        Literal[_ORDERS] | None,  # type: ignore[valid-type]
        Query(description="what needs a look first (`worst`), or by a column; a minus: the largest first"),
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
"""What is asked for of search, order, troubled and offset; None: nothing of it."""
