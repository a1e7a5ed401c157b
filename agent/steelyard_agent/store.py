"""Memcached, as an agent uses it: one small value, set again and again, never waited for.

I/O only. Failure is a value: the agent drops the sample and goes on sampling,
because the next one is worth more than the one that was lost.
"""

import logging
from collections.abc import Callable
from math import ceil

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

log = logging.getLogger(__name__)

# A sample outlives two lost ones, so that one slow tick does not make a server look gone.
INTERVALS_TO_LIVE = 3

# Memcached counts whole seconds, and a TTL of 1 may be over within milliseconds.
SHORTEST_TTL_S = 2

# Memcached answers within a millisecond; whoever takes this long is as good as away.
TIMEOUT_S = 0.25

# The first failure costs one tick only (a restarted Memcached is back by then); after that the
# pause doubles up to this, short enough that a server is not missed long when Memcached returns.
LONGEST_PAUSE_S = 8.0
FIRST_PAUSE_S = 0.5


def ttl_s(interval_s: float) -> int:
    """Return how many whole seconds a sample lives."""
    return max(ceil(INTERVALS_TO_LIVE * interval_s), SHORTEST_TTL_S)


def timeout_s(interval_s: float, servers: int) -> float:
    """Return how long one step with one server may take, so that all of them fit well into an interval."""
    return min(TIMEOUT_S, interval_s / 4 / servers)


class Store:
    """One Memcached server. `clock` is monotonic; `random` is within 0..1 and spreads reconnects.

    A host name is looked up when connecting, by the system's resolver, in the resolver's own time.
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        ttl_s: int,
        timeout_s: float,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        host, port = address
        self._name = f"Memcached at {f'[{host}]' if ':' in host else host}:{port}"
        self._client = Client(address, connect_timeout=timeout_s, timeout=timeout_s, no_delay=True)
        self._ttl_s = ttl_s
        self._clock = clock
        self._random = random
        self._failures = 0
        self._not_before_s = 0.0

    def put(self, key: str, value: bytes) -> bool:
        """Store a value; tell whether Memcached took it. Never raises, tries nothing during a pause."""
        if self._failures and self._clock() < self._not_before_s:
            return False
        try:
            # Without noreply=False a full or broken Memcached would go unnoticed.
            stored = self._client.set(key, value, expire=self._ttl_s, noreply=False)
        except (MemcacheError, OSError, UnicodeError) as error:  # the last one: an impossible host name
            self._failed(_said(error))
            return False
        if not stored:
            self._failed("it did not store the value")
            return False
        if self._failures:
            log.info("%s is back: samples arrive again", self._name)
            self._failures = 0
        return True

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _failed(self, why: str) -> None:
        self._client.close()
        if not self._failures:
            log.warning("%s takes no samples (%s): they are dropped until it does", self._name, why)
        self._failures += 1
        if self._failures > 1:
            # 2 ** 10 is beyond the longest pause; an unbounded exponent would overflow within a day.
            pause_s = min(FIRST_PAUSE_S * 2 ** min(self._failures - 2, 10), LONGEST_PAUSE_S)
            self._not_before_s = self._clock() + pause_s * (0.5 + self._random() / 2)


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
