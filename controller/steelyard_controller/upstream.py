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


class Upstream(BaseModel):
    """One upstream: its law, its picker, its servers, and who reports on them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: str = "steelyard"
    parameters: dict[str, float] = {}
    picker: Name = "vnswrr"
    load_balancers: list[Name] = ["edge-1"]
    peers: list[Peer] = []

    @model_validator(mode="after")
    def _is_consistent(self) -> "Upstream":
        ids = [peer.id for peer in self.peers]
        twice = sorted({peer for peer in ids if ids.count(peer) > 1})
        if twice:
            raise ValueError(f"peers share an id: {', '.join(twice)}; give each its own")
        laws.create(self.law, self.parameters)
        return self
