"""The interface of a state store: declarations, saved states, history, and the lease that allows to write.

No I/O here: `redis_store` and `memory_store` implement it. Every write is
fenced: it names the lease under which it is made, and changes nothing once
another controller has the lease. A store that is away raises `Unavailable`;
the controller then goes on from memory and says that it is degraded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from steelyard_controller.declarations.audit import Entry
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.saved_state import SavedState

SCHEMA = 1
"""The version of the stored documents; it is part of each key."""


class Unavailable(Exception):
    """The store did not answer, or refused; the message says what happened."""


class Rejected(Unavailable):
    """The store answers and refuses this key or this value, not all of them."""


class LeaseLost(Exception):
    """The writer no longer has the lease: it must stop at once. Nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeclarations:
    """The stored declarations by upstream; `damaged` are the upstreams whose declarations cannot be read."""

    known: Mapping[str, Declaration]
    damaged: frozenset[str] = frozenset()


class Store(Protocol):
    """A state store. All methods but `close` may raise `Unavailable`."""

    volatile: bool

    async def open(self) -> None:
        """Check the schema; raise `NewerVersion` where a later version wrote it."""

    async def leader(self) -> Lease | None:
        """Return the current lease; None: nobody has it."""

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease | None:
        """Take the lease if it is free, with a term above `above`; return the lease that holds now.

        The term is the last one known plus 1, or the draft's where none is known. From a store that is new
        or was wiped a `patient` candidate gets nothing: None. Raises `NewerVersion`.
        """

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:
        """Renew the lease; False when another controller has it, or nobody."""

    async def release(self, lease: Lease) -> None:
        """Release the lease, if this controller still has it."""

    async def declarations(self) -> StoredDeclarations:
        """Return all declarations; damaged ones are logged, and left in the store as they are."""

    async def declare(
        self, lease: Lease, changes: Mapping[str, Declaration | None], audit: Sequence[Entry] = ()
    ) -> None:
        """Store declarations and who made them, all or none; None deletes all but that. Raise `LeaseLost`."""

    async def audit(self, *, before: int | None, most: int) -> Sequence[tuple[int, bytes]]:
        """Return the entries of the audit log with an id below `before`, newest first, at most so many."""

    async def load(self, upstreams: Sequence[str]) -> Mapping[str, SavedState]:
        """Return the saved states of those that have one which is not damaged; raise `NewerVersion`."""

    async def keep(
        self, lease: Lease, upstream: str, saved: SavedState | None, moment: bytes = b"", *, most: int = 1
    ) -> None:
        """Save a state, and add a moment to the history of about the last `most`; None and no bytes: neither.

        Where the upstream is not declared any more nothing is kept. Raises `LeaseLost`.
        """

    async def history(self, upstream: str, *, seconds: float, most: int) -> Sequence[bytes]:
        """Return the moments of the last seconds, by the store's own clock, oldest first, the last `most`."""

    async def close(self) -> None:
        """Close connections."""
