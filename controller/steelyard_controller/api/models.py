"""The models of requests, and of all answers but an upstream's, for OpenAPI and client authors. Pure.

`upstream_models` has the models of an upstream's present and past.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from steelyard_controller.api.upstream_models import PeerRow, State, shown
from steelyard_controller.declarations.upstream import Address, MaxConns, Name, Peer, Upstream
from steelyard_controller.laws import Parameter
from steelyard_controller.laws.presentation import Step


class Peers(BaseModel):
    """The servers of an upstream, as declared."""

    peers: list[Peer]


class LivePeer(Peer):
    """A server as declared, with its present state."""

    live: PeerRow | None = Field(description="row in the weight table; null: not published yet")


class PeerDocument(BaseModel):
    """The declaration of a server; an absent field has its default."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"address": "10.0.0.14:80", "baseline": 2}]},
    )

    address: Address = shown("10.0.0.14:80", "IP:port, [v6]:port or name:port")
    baseline: float | None = Field(
        default=None, gt=0, le=1e6, description="weight at rest (default: from the agent's reported capacity)"
    )
    state: State = "up"
    pin: float | None = Field(
        default=None, gt=0, lt=100, description="percentage of the weight (default: the law decides)"
    )
    zone: Name | None = Field(default=None, examples=["eu-1a"], description="zone (default: none)")
    max_conns: MaxConns | None = Field(default=None, examples=[64], description="null: the upstream's")


class PeerPatch(BaseModel):
    """Changes of a server; null sets the default, an absent field stays."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"state": "drain"}]})

    address: Address = Field(default="", examples=["10.0.0.14:80"])
    baseline: float | None = Field(default=None, gt=0, le=1e6)
    state: State | None = None
    pin: float | None = Field(default=None, gt=0, lt=100, examples=[25])
    zone: Name | None = Field(default=None, examples=["eu-1a"])
    max_conns: MaxConns | None = Field(default=None, examples=[64])


class LawDescription(BaseModel):
    """A law, and how it shows itself."""

    name: str = shown("steelyard")
    sentence: str = shown("weights stay at the baselines")
    color: str = shown("#D55E00", "its colour in plots")
    steps: list[Step]
    limits: dict[str, str] = Field(description="meaning of each clamp, by its name in an explanation")
    parameters: list[Parameter]


class Laws(BaseModel):
    """Every law, the default first."""

    laws: list[LawDescription]


class Leader(BaseModel):
    """The leading controller."""

    id: str = shown("edge-a-8081")
    url: str = shown("http://10.0.0.5:8081")


class ServiceDocument(BaseModel):
    """This controller."""

    id: str = shown("edge-a-8081")
    installation: str | None = Field(examples=["shop"], description="--installation; null: the only one")
    role: Literal["leader", "standby", "waiting"]
    term: int | None = shown(3)
    leader: Leader | None
    version: str = shown("0.1.0")
    tick_s: float = shown(1.0)
    state: Literal["redis", "memory"] = Field(description="memory: nothing outlives a restart")
    degraded: list[str] = shown([])
    uptime_s: float = shown(86400.0)


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether requests may be sent to this controller, and its faults."""

    status: Literal["ok", "degraded"]
    role: Literal["leader", "standby", "waiting"]
    state: str = Field(examples=["redis", "memory: nothing outlives a restart"])
    degraded: list[str] = shown(["state: Connection refused"], "the controller's faults, one a line")
    upstreams: dict[str, list[str]] = shown(
        {"web": ["publishing: too large"]}, "the own faults of the first 20 degraded upstreams, by name"
    )
    more: Annotated[int, Field(default=0, description="number of further degraded upstreams", examples=[0])]


class DryRun(BaseModel):
    """The effect that a change would have had."""

    upstream: str = shown("web")
    revision: int = shown(5, "the declaration's afterwards")
    what: str = shown("server-1: state drain -> up; server-4 removed")


class AuditChange(BaseModel):
    """One field of a change; null stands for an absent value."""

    field: str = shown("peers.server-1.state")
    before: Any = shown("up")
    after: Any = shown("drain")


class AuditEntry(BaseModel):
    """One change, and its author."""

    id: int = shown(1764110000000, "rises from change to change")
    at_ms: int = shown(1764110000000)
    who: str = shown("anna", "name of a token, a person, a Service or a file")
    kind: str = shown("token", "token, person, agent, kubernetes, file or controller")
    address: str | None = shown("10.0.0.9", "source address of the request")
    via: str | None = shown("oauth2-proxy", "proxy or standby that forwarded the request")
    upstream: str = shown("web")
    revision: int | None = shown(5, "new revision of the declaration; null: deleted")
    what: str = shown("server-1: state up -> drain")
    changes: list[AuditChange]
    more: int = shown(0, "how many more fields it set than are here")


class Audit(BaseModel):
    """The audit log: changes with their authors, newest first."""

    entries: list[AuditEntry]


REQUESTS: tuple[type[BaseModel], ...] = (Upstream, PeerDocument, PeerPatch)
"""The models of request bodies."""
