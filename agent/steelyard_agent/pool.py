"""Several Memcached servers as one: a record goes to one of them, and to the next while that is away.

Which comes first is each key's own (`rendezvous`), so that a thousand agents
are spread over the pool. A reader who asks a key's servers in the same order
finds it at the first that has it: what an earlier one still holds from before
it was lost is gone after the TTL.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from steelyard_agent import rendezvous

log = logging.getLogger(__name__)


class Server(Protocol):
    """One of the pool, such as `store.Store`."""

    @property
    def name(self) -> str:
        """Return the address, as it was given."""
        ...

    def put(self, key: str, value: bytes) -> str | None:
        """Store a value; return why it was not taken, None when it was."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Pool:
    """Puts each value on one server, and logs when a server goes and when it is back."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = {server.name: server for server in servers}
        self._orders: dict[str, list[str]] = {}
        self._faults: dict[str, str] = {}

    def put(self, key: str, value: bytes) -> bool:
        """Store a value; tell whether a server took it. Never raises."""
        found: dict[str, str] = {}
        taken_by = None
        for name in self._order(key):
            fault = self._servers[name].put(key, value)
            if fault is None:
                taken_by = name
                break
            found[name] = fault
        for name, fault in found.items():
            if name not in self._faults:
                self._faults[name] = fault
                log.warning("Memcached at %s takes no samples (%s): %s", name, fault, self._then(taken_by))
        if taken_by is not None and self._faults.pop(taken_by, None) is not None:
            log.info("Memcached at %s is back: samples arrive again", taken_by)
        return taken_by is not None

    @property
    def reachable(self) -> dict[str, bool]:
        """Tell by server whether it took the last value that it was offered."""
        return {name: name not in self._faults for name in self._servers}

    def close(self) -> None:
        """Close all connections."""
        for server in self._servers.values():
            server.close()

    def _order(self, key: str) -> list[str]:
        if key not in self._orders:
            self._orders[key] = rendezvous.order(list(self._servers), key)
        return self._orders[key]

    def _then(self, taken_by: str | None) -> str:
        if taken_by is not None:
            return f"{taken_by} takes them meanwhile"
        return f"they are dropped until {'it' if len(self._servers) == 1 else 'one'} does"
