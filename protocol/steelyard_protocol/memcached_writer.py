"""Write each value to one of several Memcached servers: to the next while the first is unreachable. I/O only.

The order of the servers depends on the key (`rendezvous`), so that a thousand agents
spread over the pool. A reader asks a key's servers in the same order and takes
the first answer. A value on a server that was lost meanwhile expires with its TTL.

Failure is a value: a sample that no server took is dropped, because the next
one is worth more than the lost one.
"""

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import ceil

from steelyard_protocol import memcached_client, rendezvous
from steelyard_protocol.memcached_client import MemcachedClient, Unavailable

log = logging.getLogger(__name__)

# A sample outlives two lost ones, so that one slow tick does not make a server look absent.
INTERVALS_TO_LIVE = 3

# Memcached counts whole seconds, and a TTL of 1 may be over within milliseconds.
SHORTEST_TTL_S = 2

# The first failure costs one tick only (a restarted Memcached is back by then). After that the pause doubles
# up to this, short enough to find a server soon after it returns.
LONGEST_PAUSE_S = 8.0
FIRST_PAUSE_S = 0.5


def ttl_s(interval_s: float) -> int:
    """Return how many whole seconds a sample lives."""
    return max(ceil(INTERVALS_TO_LIVE * interval_s), SHORTEST_TTL_S)


def put_s(interval_s: float, servers: int) -> float:
    """Return the longest time of a put in all, so that one to every server fits into half an interval."""
    return min(memcached_client.TIMEOUT_S, interval_s / 2 / servers)


class MemcachedServer:
    """A server that is not used for a while after it failed.

    `clock` is monotonic; `random` is within 0..1 and spreads reconnects.
    """

    def __init__(
        self,
        client: MemcachedClient,
        *,
        ttl_s: int,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._ttl_s = ttl_s
        self._clock = clock
        self._random = random
        self.name = client.name
        self._failures = 0
        self._fault = ""
        self._not_before_s = 0.0

    def put_many(self, values: Mapping[str, bytes]) -> str | Mapping[str, str]:
        """Store values by key in one request; return the server's fault, or why it refuses values, by key.

        Never raises, takes no longer than the client's timeout for each part, tries nothing during a pause.
        A server that refuses a value (it is too large, or memory is short) takes others.
        """
        refused: dict[str, str] = {}
        fault = self._try(lambda: refused.update(self._client.put_many(values, ttl_s=self._ttl_s)))
        return refused if fault is None else fault

    def append(self, key: str, value: bytes, *, ttl_s: int) -> str | Mapping[str, str]:
        """Append to a value, or store it for `ttl_s` seconds; otherwise as `put_many`.

        A value without room for more is no fault of the server, which takes all others.
        """
        fault = self._try(lambda: self._client.append(key, value, ttl_s=ttl_s))
        return {} if fault is None else fault

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _try(self, put: Callable[[], object]) -> str | None:
        if self._failures and self._clock() < self._not_before_s:
            return self._fault
        try:
            put()
        except Unavailable as error:
            self._fault = str(error)
            self._back_off()
            return self._fault
        self._failures = 0
        return None

    def _back_off(self) -> None:
        self._failures += 1
        if self._failures > 1:
            # 2 ** 10 is beyond the longest pause; an unbounded exponent would overflow within a day.
            pause_s = min(FIRST_PAUSE_S * 2 ** min(self._failures - 2, 10), LONGEST_PAUSE_S)
            self._not_before_s = self._clock() + pause_s * (0.5 + self._random() / 2)


class MemcachedWriter:
    """Puts each value on one server, and logs when a server becomes unreachable and when it is back.

    `what` names the values in the log.
    """

    def __init__(self, servers: Sequence[MemcachedServer], *, what: str = "samples") -> None:
        self._servers = {server.name: server for server in servers}
        self._what = what
        self._faults: dict[str, str] = {}
        self._refused: set[str] = set()

    def put_many(self, values: Mapping[str, bytes]) -> set[str]:
        """Store values by key, those of one server in one request; return the keys taken. Never raises."""
        taken, refused = self._offer(values, lambda server, some: server.put_many(some))
        if taken:
            self._log_refused(refused)
        return taken

    def append(self, key: str, value: bytes, *, ttl_s: int) -> bool:
        """Append to a value or store it for `ttl_s` s; return whether a server answered. Never raises."""
        return bool(self._offer({key: value}, lambda server, _: server.append(key, value, ttl_s=ttl_s))[0])

    def _offer(
        self,
        values: Mapping[str, bytes],
        offer: Callable[[MemcachedServer, Mapping[str, bytes]], str | Mapping[str, str]],
    ) -> tuple[set[str], dict[str, str]]:
        """Return the keys taken, and why the others were refused, if their servers answered."""
        orders = {key: rendezvous.order(list(self._servers), key) for key in values}
        faults: dict[str, str] = {}
        taken: set[str] = set()
        taken_by: list[str] = []
        refused: dict[str, str] = {}  # by key
        refused_by: dict[str, str] = {}  # by server
        for choice in range(len(self._servers)):
            asked: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
            for key in values.keys() - taken:
                asked[orders[key][choice]][key] = values[key]
            for name, some in asked.items():
                if name in faults:
                    continue  # it has used its time already
                answer = offer(self._servers[name], some)
                if isinstance(answer, str):
                    faults[name] = answer
                    continue
                for key, why in answer.items():
                    refused[key] = refused_by[name] = why
                if len(answer) < len(some):
                    taken |= some.keys() - answer.keys()
                    taken_by.append(name)
        # A server that refuses all values is as good as unreachable.
        faults |= {name: why for name, why in refused_by.items() if name not in taken_by}
        self._log_changes(faults, taken_by)
        return taken, {key: refused[key] for key in refused.keys() - taken}

    @property
    def reachable(self) -> dict[str, bool]:
        """Return by server whether it took the last value."""
        return {name: name not in self._faults for name in self._servers}

    def close(self) -> None:
        """Close all connections."""
        for server in self._servers.values():
            server.close()

    def _log_changes(self, faults: Mapping[str, str], taken_by: Sequence[str]) -> None:
        for name, fault in faults.items():
            if name not in self._faults:
                self._faults[name] = fault
                log.warning(
                    "Memcached at %s takes no %s (%s): %s", name, self._what, fault, self._then(taken_by)
                )
        for name in taken_by:
            if name not in faults and self._faults.pop(name, None) is not None:
                log.info("Memcached at %s is back: %s arrive again", name, self._what)

    def _log_refused(self, refused: Mapping[str, str]) -> None:
        """Log the first value that no server takes while they take others, once until it is taken."""
        new = sorted(refused.keys() - self._refused)
        if new:
            more = f" and {len(new) - 1} more" if len(new) > 1 else ""
            log.warning(
                "Memcached takes no %s%s (%s), but the other %s", new[0], more, refused[new[0]], self._what
            )
        self._refused = set(refused)

    def _then(self, taken_by: Sequence[str]) -> str:
        if taken_by:
            return f"{' and '.join(dict.fromkeys(taken_by))} takes them meanwhile"
        return f"they are dropped until {'it' if len(self._servers) == 1 else 'one'} does"
