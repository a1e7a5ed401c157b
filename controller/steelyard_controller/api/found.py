"""Finding what a path names: an upstream, its outcome; or the problem that says why not."""

import asyncio
from typing import Annotated

from fastapi import Path
from steelyard_agent import wire

from steelyard_controller.api.problems import ProblemError, later
from steelyard_controller.cycle import Cycle
from steelyard_controller.outcome import Outcome
from steelyard_controller.service import Service

# A client that has just declared an upstream waits for its first tick rather than being sent away.
PATIENCE_S = 3.0

_PATTERN = f"^{wire.NAME.pattern}$"

UpstreamName = Annotated[str, Path(pattern=_PATTERN, examples=["web"], description="the upstream's name")]
PeerName = Annotated[str, Path(pattern=_PATTERN, examples=["server-1"], description="the server's name")]

# As many names as fit a line or two.
MOST_NAMES = 20


def cycle_of(service: Service, upstream: str) -> Cycle:
    """Return an upstream; raise a 404 problem that says which there are, a 503 one while nobody leads."""
    cycle = service.views.get(upstream)
    if cycle is None:
        raise ProblemError(
            404, f"no upstream is called {upstream}; there are: {names(sorted(service.views))}"
        )
    return cycle


async def outcome_of(service: Service, upstream: str) -> tuple[Cycle, Outcome]:
    """Return an upstream and its last outcome; wait for its first tick a little, then raise a 503 problem."""
    cycle = cycle_of(service, upstream)
    if cycle.outcome is None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                with service.subscribe(upstream) as events:
                    while cycle_of(service, upstream).outcome is None:
                        await events.get()
        except TimeoutError:
            raise later(f"{upstream} has not had its first tick") from None
        cycle = cycle_of(service, upstream)
    if cycle.outcome is None:
        raise later(f"{upstream} has not had its first tick")
    return cycle, cycle.outcome


def names(of: list[str] | tuple[str, ...]) -> str:
    """Return names for a message."""
    more = f" and {len(of) - MOST_NAMES} more" if len(of) > MOST_NAMES else ""
    return (", ".join(of[:MOST_NAMES]) or "none") + more
