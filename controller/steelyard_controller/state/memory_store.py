"""The store of `memory://`: nothing outlives the process, which always leads."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.state.lease import Lease
from steelyard_controller.state.saved import Saved
from steelyard_controller.state.store import Declared


class InMemory:
    """Keeps nothing beyond the process."""

    volatile = True

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._term = 0
        self._declarations: dict[str, Declaration] = {}
        self._saved: dict[str, Saved] = {}
        self._moments: dict[str, deque[tuple[float, bytes]]] = {}

    async def open(self) -> None:
        """Do nothing."""

    async def leader(self) -> Lease | None:
        """Return None: nobody else can."""
        return None

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease:  # noqa: ARG002
        """Return a lease of one's own."""
        self._term = max(self._term + 1 if self._term else draft.term, above + 1)
        return replace(draft, term=self._term, store="memory")

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    async def release(self, lease: Lease) -> None:
        """Do nothing."""

    async def declarations(self) -> Declared:
        """Return what is declared."""
        return Declared(known=dict(self._declarations))

    async def declare(self, lease: Lease, changes: Mapping[str, Declaration | None]) -> None:  # noqa: ARG002
        """Keep declarations until the process ends."""
        for upstream, declaration in changes.items():
            if declaration is not None:
                self._declarations[upstream] = declaration
            else:
                for kept in (self._declarations, self._saved, self._moments):
                    kept.pop(upstream, None)

    async def load(self, upstream: str) -> Saved | None:
        """Return what this process saved."""
        return self._saved.get(upstream)

    async def save(self, lease: Lease, upstream: str, saved: Saved) -> None:  # noqa: ARG002
        """Keep a state until the process ends."""
        if upstream in self._declarations:
            self._saved[upstream] = saved

    async def remember(self, lease: Lease, upstream: str, moment: bytes, *, keep: int) -> None:  # noqa: ARG002
        """Keep the last moments."""
        if upstream not in self._declarations:
            return
        moments = self._moments.setdefault(upstream, deque(maxlen=keep))
        moments.append((self._clock(), moment))

    async def history(self, upstream: str, *, seconds: float, most: int) -> Sequence[bytes]:
        """Return the last moments."""
        since_s = self._clock() - seconds
        return [moment for at_s, moment in self._moments.get(upstream, ()) if at_s >= since_s][-most:]

    async def close(self) -> None:
        """Do nothing."""
