"""What the demo is told on the command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The demo's settings; rate and users None: fitted to the servers; servers None: ask the controller."""

    seconds: int
    rate: float | None
    users: int | None
    out: Path
    base_url: str
    controller_url: str
    upstream: str
    burn: str
    servers: Mapping[str, str] | None

    @property
    def weights_url(self) -> str:
        """Where the controller tells the weights."""
        return f"{self.controller_url}/v1/upstreams/{self.upstream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One phase to be run: where the load goes, how much, for how long, and whom to burn in the middle."""

    name: str
    title: str
    path: str
    static: bool
    seconds: int
    rate: float
    users: int
    burn_url: str
    servers: tuple[str, ...]

    @property
    def burn_from_s(self) -> float:
        """When the burn begins: a third into the phase."""
        return self.seconds / 3

    @property
    def burn_to_s(self) -> float:
        """When the burn ends: two thirds into the phase."""
        return self.seconds * 2 / 3
