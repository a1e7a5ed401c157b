"""The audit log out of a store, in parts: of one upstream there may be few entries among many. I/O only."""

import asyncio
from typing import Any

from steelyard_controller.declarations import audit
from steelyard_controller.store.interface import Store

# So many are read at a time: some 400 kB.
PART = 1000


async def entries(
    store: Store, *, before: int | None, most: int, upstream: str | None
) -> list[dict[str, Any]]:
    """Return the entries below an id, newest first, of one upstream or of all; raise `Unavailable`."""
    found: list[dict[str, Any]] = []
    while len(found) < most:
        part = await store.audit(before=before, most=PART)
        found += await asyncio.to_thread(audit.decoded, part, upstream)
        if len(part) < PART:
            break
        before = part[-1][0]
    return found[:most]
