"""Memcached, as the controller uses it: read many keys, write one.

I/O only. Failure is a value: the cycle keeps the last good state and goes on.
"""

import asyncio
from collections.abc import Sequence

from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheError

# Memcached answers within a millisecond; a tick must not wait for one that does not.
TIMEOUT_S = 0.25


class Unavailable(Exception):
    """Memcached did not do it; the message says what happened."""


class Memcached:
    """A pool of connections to one Memcached server."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._client = PooledClient(
            (host.strip("[]"), int(port)),
            connect_timeout=TIMEOUT_S,
            timeout=TIMEOUT_S,
            no_delay=True,
            max_pool_size=4,
        )

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values of the keys that are there; raise `Unavailable`."""
        return await asyncio.to_thread(self._get_many, keys) if keys else {}

    async def set(self, key: str, value: bytes, *, ttl_s: int) -> None:
        """Store a value for `ttl_s` seconds; raise `Unavailable`."""
        await asyncio.to_thread(self._set, key, value, ttl_s)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        try:
            found = self._client.get_many(list(keys))
        except (MemcacheError, OSError) as error:
            raise Unavailable(_said(error)) from None
        return dict(found)

    def _set(self, key: str, value: bytes, ttl_s: int) -> None:
        try:
            stored = self._client.set(key, value, expire=ttl_s, noreply=False)
        except (MemcacheError, OSError) as error:
            raise Unavailable(_said(error)) from None
        if not stored:
            raise Unavailable("it did not store the value")


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
