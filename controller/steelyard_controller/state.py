"""What must outlive a restart: term, generation and the law's memory, one key per upstream.

I/O only. Redis away is a value, not an error: the controller goes on from
memory and says that it is degraded.
"""

from typing import Protocol

import redis.asyncio as redis_client
from redis.exceptions import RedisError

from steelyard_controller.saved import VERSION, Saved, decode, encode

# Redis on the same network answers within milliseconds; a tick must not wait for one that does not.
TIMEOUT_S = 0.25


class Unavailable(Exception):
    """The store did not do it; the message says what happened."""


class Store(Protocol):
    """Where states are kept."""

    volatile: bool

    async def load(self, upstream: str) -> Saved | None:
        """Return the saved state, None when there is none or it is damaged; raise `Unavailable`, `Newer`."""

    async def save(self, upstream: str, saved: Saved) -> None:
        """Keep a state; raise `Unavailable`."""

    async def close(self) -> None:
        """Close connections."""


class InMemory:
    """Keeps nothing beyond the process (`memory://`)."""

    volatile = True

    def __init__(self) -> None:
        self._saved: dict[str, Saved] = {}

    async def load(self, upstream: str) -> Saved | None:
        """Return what this process saved."""
        return self._saved.get(upstream)

    async def save(self, upstream: str, saved: Saved) -> None:
        """Keep a state until the process ends."""
        self._saved[upstream] = saved

    async def close(self) -> None:
        """Do nothing."""


class Redis:
    """Keeps states in Redis, at `steelyard:1:state:<upstream>`."""

    volatile = False

    def __init__(self, url: str) -> None:
        self._client = redis_client.Redis.from_url(
            url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S, decode_responses=False
        )

    async def load(self, upstream: str) -> Saved | None:
        """Return the saved state."""
        try:
            value = await self._client.get(_key(upstream))
        except (RedisError, OSError) as error:
            raise Unavailable(str(error)) from None
        return decode(value) if isinstance(value, bytes) else None

    async def save(self, upstream: str, saved: Saved) -> None:
        """Write the state; it does not expire."""
        try:
            await self._client.set(_key(upstream), encode(saved))
        except (RedisError, OSError) as error:
            raise Unavailable(str(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def open_store(url: str) -> Store:
    """Return the store that a `--state-url` names."""
    return InMemory() if url.startswith("memory://") else Redis(url)


def _key(upstream: str) -> str:
    return f"steelyard:{VERSION}:state:{upstream}"
