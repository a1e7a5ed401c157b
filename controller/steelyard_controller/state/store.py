"""What must outlive a restart, and who may write it: the contract of a store.

No I/O here: `redis_store` and `memory_store` keep it. Every write is fenced:
it names the lease under which it is made, and changes nothing once that is
another's. The store away is a value: the controller goes on from memory and
says that it is degraded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.state.lease import Lease
from steelyard_controller.state.saved import Saved

SCHEMA = 1
"""The version of what the keys hold; it stands in each key."""


class Unavailable(Exception):
    """The store did not do it; the message says what happened."""


class Rejected(Unavailable):
    """The store is there and said no: to this key or this value, not to all."""


class Lost(Exception):
    """The lease is no longer the writer's: it must stop at once. Nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What is declared, by upstream; `damaged` are those whose declarations cannot be read."""

    known: Mapping[str, Declaration]
    damaged: frozenset[str] = frozenset()


class Store(Protocol):
    """Where states are kept. All methods but `close` may raise `Unavailable`."""

    volatile: bool

    async def open(self) -> None:
        """Check the schema; raise `Newer` for a later version's."""

    async def leader(self) -> Lease | None:
        """Return who has the lease now; None: nobody."""

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease | None:
        """Take the lease if it is free, with a term above `above`; return whose it is now.

        The term is the last one known plus 1, or the draft's where none is known. A store that has never
        been led, or was wiped, gives a patient one nothing: None. Raises `Newer` for a later version's.
        """

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:
        """Prolong the lease; False when it is no longer ours."""

    async def release(self, lease: Lease) -> None:
        """Give the lease back, if it still is ours."""

    async def declarations(self) -> Declared:
        """Return what is declared; what is damaged is said in the log, and stays as it is."""

    async def declare(self, lease: Lease, changes: Mapping[str, Declaration | None]) -> None:
        """Keep declarations, all or none; None forgets the upstream and all about it. Raise `Lost`."""

    async def load(self, upstream: str) -> Saved | None:
        """Return the saved state, None when there is none or it is damaged; raise `Newer`."""

    async def save(self, lease: Lease, upstream: str, saved: Saved) -> None:
        """Keep a state, unless the upstream is not declared any more; raise `Lost`."""

    async def remember(self, lease: Lease, upstream: str, moment: bytes, *, keep: int) -> None:
        """Add a moment to the history, which keeps about the last `keep`; otherwise like `save`."""

    async def history(self, upstream: str, *, seconds: float, most: int) -> Sequence[bytes]:
        """Return the moments of the last seconds, by the store's own clock, oldest first, the last `most`."""

    async def close(self) -> None:
        """Close connections."""
