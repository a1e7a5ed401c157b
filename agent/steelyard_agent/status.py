"""What the agent shows to those who ask it: its newest sample, and how delivery goes. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from steelyard_agent.record import SampleRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state after a tick. `at_s` is monotonic; `record` is None while there is nothing to sample.

    `delivered` and `dropped` count samples since the start; `reachable` is by Memcached server;
    `registered` tells whether a controller took the last registration, None for a server that has none.
    """

    at_s: float
    stale_s: float
    record: SampleRecord | None
    delivered: int
    dropped: int
    reachable: Mapping[str, bool]
    registered: bool | None = None


class Shows(Protocol):
    """A place where the newest status is shown, such as a file."""

    def show(self, status: Status) -> None:
        """Show it in the place of the one before; never raise."""
        ...

    def close(self) -> None:
        """Show nothing any more."""
        ...


def fresh(status: Status | None, now_s: float) -> SampleRecord | None:
    """Return the sample, unless it is older than it would live in Memcached."""
    if status is None or now_s - status.at_s > status.stale_s:
        return None
    return status.record
