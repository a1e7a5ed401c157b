"""The store of `--state-url memory://`: in this process, which always leads; a restart loses it."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from steelyard_controller.declarations.audit import KEPT_ENTRIES, LOGS, Entry
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.store.interface import Save, StoredDeclarations, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.saved_state import SavedState


class MemoryStore:
    """Keeps everything in dicts."""

    volatile = True

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._term = 0
        self._declarations: dict[str, Declaration] = {}
        self._saved: dict[str, SavedState] = {}
        self._moments: dict[str, deque[tuple[float, bytes]]] = {}
        self._entries = 0
        self._audit: list[deque[tuple[int, bytes]]] = [deque(maxlen=KEPT_ENTRIES) for _ in LOGS]

    async def open(self) -> None:
        """Do nothing."""

    async def leader(self) -> Lease | None:
        """Return None: no other controller can lead."""
        return None

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease:  # noqa: ARG002
        """Return the lease, always."""
        self._term = max(self._term + 1 if self._term else draft.term, above + 1)
        return replace(draft, term=self._term, store="memory")

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    async def release(self, lease: Lease) -> None:
        """Do nothing."""

    async def declarations(self) -> StoredDeclarations:
        """Return all declarations."""
        return StoredDeclarations(known=dict(self._declarations))

    async def declare(
        self,
        lease: Lease,  # noqa: ARG002
        changes: Mapping[str, Declaration | None],
        audit: Sequence[Entry] = (),
    ) -> None:
        """Keep declarations until the process ends."""
        for entry in audit:
            self._entries += 1
            self._audit[entry.log].append((self._entries, entry.value))
        for upstream, declaration in changes.items():
            if declaration is not None:
                self._declarations[upstream] = declaration
            else:
                for kept in (self._declarations, self._saved, self._moments):
                    kept.pop(upstream, None)

    async def audit(self, *, before: int | None, most: int) -> Sequence[tuple[int, bytes]]:
        """Return the newest entries."""
        entries = sorted((each for log in self._audit for each in log), reverse=True)
        return [each for each in entries if before is None or each[0] < before][:most]

    async def load(self, upstreams: Sequence[str]) -> Mapping[str, SavedState]:
        """Return the states that this process saved."""
        return {name: self._saved[name] for name in upstreams if name in self._saved}

    async def keep(self, lease: Lease, saves: Mapping[str, Save]) -> Mapping[str, Unavailable]:  # noqa: ARG002
        """Keep the states and the last moments until the process ends."""
        declared = {upstream: save for upstream, save in saves.items() if upstream in self._declarations}
        for upstream, save in declared.items():
            if save.state is not None:
                self._saved[upstream] = save.state
            if save.moment:
                moments = self._moments.setdefault(upstream, deque(maxlen=save.most))
                moments.append((self._clock(), save.moment))
        return {}

    async def history(self, upstream: str, *, seconds: float, most: int) -> Sequence[bytes]:
        """Return the last moments."""
        since_s = self._clock() - seconds
        return [moment for at_s, moment in self._moments.get(upstream, ()) if at_s >= since_s][-most:]

    async def close(self) -> None:
        """Do nothing."""
