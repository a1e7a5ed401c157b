"""Look up the upstream of a request's path, and its last outcome; raise the 404 or 503 problem."""

import asyncio
import contextlib
from typing import Annotated

from fastapi import Path
from steelyard_protocol import name_list, wire

from steelyard_controller.api.problems import ProblemError, retry_later
from steelyard_controller.service import Service
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome

# A client that has just declared an upstream waits for its first tick rather than getting a 503.
PATIENCE_S = 3.0

_PATTERN = f"^{wire.NAME.pattern}$"

UpstreamName = Annotated[str, Path(pattern=_PATTERN, examples=["web"], description="the upstream's name")]
PeerName = Annotated[str, Path(pattern=_PATTERN, examples=["server-1"], description="the server's name")]

# As many names as fit a line or two.
MOST_NAMES = 20


def cycle_of(service: Service, upstream: str) -> Cycle:
    """Return an upstream; raise a 404 problem with the existing ones."""
    cycle = service.views.get(upstream)
    if cycle is None:
        known = name_list.shown(sorted(service.views), MOST_NAMES) or "none"
        where = f" in the installation {service.installation}" if service.installation else ""
        raise ProblemError(404, f"no upstream is called {upstream}{where}; there are: {known}")
    return cycle


async def outcome_of(service: Service, upstream: str) -> tuple[Cycle, Outcome]:
    """Return an upstream and its last outcome; wait `PATIENCE_S` for the first, then raise a 503 problem."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while cycle_of(service, upstream).outcome is None:
                await asyncio.sleep(0.02)
    cycle = cycle_of(service, upstream)
    if cycle.outcome is None:
        raise retry_later(f"{upstream} has not had its first tick")
    return cycle, cycle.outcome
