"""What an operator declares: upstreams and their peers.

Pure: models that say what is wrong with a declaration and how to mend it.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from steelyard_agent import wire

from steelyard_controller import address as addresses
from steelyard_controller import laws

Name = Annotated[str, Field(pattern=f"^{wire.NAME.pattern}$")]


class Peer(BaseModel):
    """One server of an upstream."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    address: str
    baseline: float | None = Field(default=None, gt=0, le=1e6)
    state: Literal["up", "drain", "down", "backup"] = "up"

    @field_validator("address")
    @classmethod
    def _is_ip_and_port(cls, value: str) -> str:
        addresses.split(value)
        return value


class Blend(BaseModel):
    """A migration under way: so many percent of the way to another law."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: str
    parameters: dict[str, float] = {}
    percent: float = Field(ge=0, le=100)


class Upstream(BaseModel):
    """One upstream: its laws, its picker, its servers, and who reports on them.

    `shadows` (law -> parameters) decide on the same snapshots, are shown, and move nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: str = "steelyard"
    parameters: dict[str, float] = {}
    shadows: dict[str, dict[str, float]] = {}
    blend: Blend | None = None
    picker: Name = "vnswrr2"
    load_balancers: list[Name] = ["edge-1"]
    peers: list[Peer] = []

    @model_validator(mode="after")
    def _is_consistent(self) -> "Upstream":
        ids = [peer.id for peer in self.peers]
        twice = sorted({peer for peer in ids if ids.count(peer) > 1})
        if twice:
            raise ValueError(f"peers share an id: {', '.join(twice)}; give each its own")
        named = [self.law, *self.shadows, *([self.blend.law] if self.blend else [])]
        again = sorted({law for law in named if named.count(law) > 1})
        if again:
            raise ValueError(f"law {', '.join(again)} is named twice among law, shadows and blend")
        self.made_laws()
        return self

    def made_laws(self) -> dict[str, laws.Law]:
        """Return every law that steps here by name, the live one first; raise ValueError as `laws.create`."""
        wanted = {self.law: self.parameters, **self.shadows}
        if self.blend:
            wanted[self.blend.law] = self.blend.parameters
        return {name: laws.create(name, parameters) for name, parameters in wanted.items()}
