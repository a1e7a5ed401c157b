"""One Memcached server, as an agent uses it: one small value, set again and again, never waited for.

I/O only. Failure is a value: the agent drops the sample or gives it to another
server, and goes on sampling, because the next one is worth more than the one that was lost.
"""

from collections.abc import Callable
from math import ceil

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError, MemcacheUnexpectedCloseError

from steelyard_agent import flag_values
from steelyard_agent.deadline import Deadline, Sockets
from steelyard_agent.flag_values import Address
from steelyard_agent.lookup import Lookup

# A sample outlives two lost ones, so that one slow tick does not make a server look gone.
INTERVALS_TO_LIVE = 3

# Memcached counts whole seconds, and a TTL of 1 may be over within milliseconds.
SHORTEST_TTL_S = 2

# Memcached answers within a millisecond; whoever takes this long is as good as away.
LONGEST_PUT_S = 0.25

# The first failure costs one tick only (a restarted Memcached is back by then); after that the
# pause doubles up to this, short enough that a server is not missed long when Memcached returns.
LONGEST_PAUSE_S = 8.0
FIRST_PAUSE_S = 0.5

HUNG_UP = (ConnectionError, MemcacheUnexpectedCloseError)


def ttl_s(interval_s: float) -> int:
    """Return how many whole seconds a sample lives."""
    return max(ceil(INTERVALS_TO_LIVE * interval_s), SHORTEST_TTL_S)


def put_s(interval_s: float, servers: int) -> float:
    """Return how long a put may take in all, so that one to every server fits into half an interval."""
    return min(LONGEST_PUT_S, interval_s / 2 / servers)


class Store:
    """One server. `clock` is monotonic; `random` is within 0..1 and spreads reconnects."""

    def __init__(
        self,
        address: Address,
        *,
        ttl_s: int,
        put_s: float,
        clock: Callable[[], float],
        random: Callable[[], float],
        lookup: Callable[[float], list[Address]] | None = None,
    ) -> None:
        self.name = flag_values.shown(address)
        self._lookup = lookup or Lookup(address)
        self._ttl_s = ttl_s
        self._put_s = put_s
        self._clock = clock
        self._random = random
        self._deadline = Deadline(clock)
        self._client: Client | None = None
        self._failures = 0
        self._fault = ""
        self._not_before_s = 0.0

    def put(self, key: str, value: bytes) -> str | None:
        """Store a value; return why it was not taken, None when it was.

        Never raises, takes no longer than `put_s`, tries nothing during a pause.
        """
        if self._failures and self._clock() < self._not_before_s:
            return self._fault
        self._deadline.start(self._put_s)
        used_before = self._client is not None
        fault = self._attempt(key, value)
        if used_before and isinstance(fault, HUNG_UP):
            # The server closed a connection that lay idle, or was restarted: that is no failure yet.
            fault = self._attempt(key, value)
        if fault is None:
            self._failures = 0
            return None
        return self._failed(_said(fault))

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _attempt(self, key: str, value: bytes) -> Exception | None:
        try:
            if self._client is None:
                self._client = self._connected()
            # Without noreply=False a full or broken Memcached would go unnoticed.
            stored = self._client.set(key, value, expire=self._ttl_s, noreply=False)
        except (MemcacheError, OSError, UnicodeError) as error:  # the last one: an impossible host name
            self.close()
            return error
        return None if stored else MemcacheError("it did not store the value")

    def _connected(self) -> Client:
        addresses = self._lookup(self._deadline.left_s())
        return Client(
            # A name may have an address where nobody listens (localhost as ::1): each in its turn.
            addresses[self._failures % len(addresses)],
            connect_timeout=self._put_s,
            timeout=self._put_s,
            no_delay=True,
            socket_module=Sockets(self._deadline),
        )

    def _failed(self, why: str) -> str:
        self._fault = why
        self._failures += 1
        if self._failures > 1:
            # 2 ** 10 is beyond the longest pause; an unbounded exponent would overflow within a day.
            pause_s = min(FIRST_PAUSE_S * 2 ** min(self._failures - 2, 10), LONGEST_PAUSE_S)
            self._not_before_s = self._clock() + pause_s * (0.5 + self._random() / 2)
        return why


def _said(error: Exception) -> str:
    # pymemcache quotes the server's words as they came, in bytes.
    words = [part.decode(errors="replace") for part in error.args if isinstance(part, bytes)]
    return " ".join((" ".join(words) or str(error)).split()) or type(error).__name__
