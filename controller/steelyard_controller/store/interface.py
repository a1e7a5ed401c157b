"""The interface of a state store: declarations, saved states, history, and the lease of the leader.

No I/O here: `redis_store` and `memory_store` implement it. Every write is
fenced: it names its lease, and changes nothing once another controller has the
lease. An unreachable store raises `Unavailable`; then the controller goes on
from memory and reports that it is degraded.
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
    """The store did not answer, or refused; the message has the reason."""


class Rejected(Unavailable):
    """The store answers, but refuses this key or value."""


class LeaseLost(Exception):
    """The writer no longer has the lease and must stop at once. Nothing was written."""


class HigherTerm(LeaseLost):
    """Memcached holds a value of a higher term than the writer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeclarations:
    """The stored declarations by upstream; `damaged` names the upstreams with an unreadable one."""

    known: Mapping[str, Declaration]
    damaged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """A state and a moment of an upstream's history, which has about `most`; None and no bytes: no change."""

    state: SavedState | None = None
    moment: bytes = b""
    most: int = 1


class Store(Protocol):
    """A state store. All methods but `close` may raise `Unavailable`."""

    volatile: bool

    async def open(self) -> None:
        """Check the schema; raise `NewerVersion` if a later version wrote it."""

    async def leader(self) -> Lease | None:
        """Return the current lease; None: it is free."""

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease | None:
        """Take the lease if it is free, with a term above `above`; return the lease now in force.

        The term is the last known one plus 1, or the draft's if none is known. If the store is new or was
        wiped, a `patient` candidate gets None. Raises `NewerVersion`.
        """

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:
        """Renew the lease; return False if another controller has it, or none."""

    async def release(self, lease: Lease) -> None:
        """Release the lease, if this controller still has it."""

    async def declarations(self) -> StoredDeclarations:
        """Return all declarations; damaged ones are logged, and left in the store as they are."""

    async def declare(
        self, lease: Lease, changes: Mapping[str, Declaration | None], audit: Sequence[Entry] = ()
    ) -> None:
        """Store declarations with their audit entries, all or none; None deletes one. Raise `LeaseLost`."""

    async def audit(self, *, before: int | None, most: int) -> Sequence[tuple[int, bytes]]:
        """Return at most `most` entries of the audit log with an id below `before`, newest first."""

    async def load(self, upstreams: Sequence[str]) -> Mapping[str, SavedState]:
        """Return the readable saved states of these upstreams; raise `NewerVersion`."""

    async def keep(self, lease: Lease, saves: Mapping[str, Save]) -> Mapping[str, Unavailable]:
        """Save states and moments by upstream, all in one request; return why some were not saved.

        One that the store refuses stops no other. Nothing is saved for an upstream that is no longer
        declared. Raises `LeaseLost`.
        """

    async def history(self, upstream: str, *, seconds: float, most: int) -> Sequence[bytes]:
        """Return the moments of the last `seconds` by the store's clock: the last `most`, oldest first."""

    async def close(self) -> None:
        """Close connections."""
