"""The models of a declaration: upstreams, their peers, checks and migrations.

Pure. Their errors name the mistake and its remedy.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from steelyard_protocol import check_schema, peer_address, sample_record, weight_table, wire
from steelyard_protocol.check_schema import CheckField

from steelyard_controller import laws

Name = Annotated[str, Field(pattern=f"^{wire.NAME.pattern}$")]

# A declaration may contain only what a weight table can carry.
_HASH_KEY = f"^({weight_table.HASH_KEY.pattern})$"


def _with_host_and_port(value: str) -> str:
    peer_address.parse(value)
    return value


Address = Annotated[str, AfterValidator(_with_host_and_port)]
MaxConns = Annotated[int, Field(ge=1, le=1_000_000)]

IN_FLIGHT_INDICATOR = "max_conns"
"""The indicator of a server without an agent: its requests in flight, divided by its max_conns."""


class Peer(BaseModel):
    """One server of an upstream.

    pin         the percentage of the upstream's weight that a person fixed
    max_conns   its own limit, in place of the upstream's
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    address: Address
    baseline: float | None = Field(default=None, gt=0, le=1e6)
    state: weight_table.State = "up"
    pin: float | None = Field(default=None, gt=0, lt=100)
    zone: Name | None = Field(default=None, exclude_if=lambda declared: declared is None)
    max_conns: MaxConns | None = Field(default=None, exclude_if=lambda declared: declared is None)

    @property
    def has_ip(self) -> bool:
        """Return whether the address is an IP and a port, not a name to resolve."""
        return not peer_address.is_name(self.address)


def _check_field(field: CheckField) -> tuple[Any, Any]:
    """Return the type of a setting of a check, and pydantic's field."""
    bounds = Field(ge=field.lowest, le=field.highest)
    match field.kind:
        case "text":
            # Rust's regexes: $ is the end of the text.
            text = Field(pattern=f"^({field.pattern})$", max_length=field.longest)
            kind: Any = Annotated[str, text] | None
        case "statuses":
            kind = Annotated[list[Annotated[int, bounds]], Field(min_length=1)] | None
        case "number":
            kind = Annotated[float, bounds]
        case "whole number":
            kind = Annotated[int, bounds]
        case "flag":
            kind = bool
    return kind, Field(default=field.default, description=field.about)


if TYPE_CHECKING:
    _CheckFields = BaseModel
else:
    _CheckFields = create_model(
        "_CheckFields", **{field.name: _check_field(field) for field in check_schema.FIELDS}
    )


class Check(_CheckFields):
    """nginx's active health check: HTTP to a path, or gRPC's health service.

    The protocol's `check_schema` has its fields, with bounds and defaults.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _goes_together(self) -> "Check":
        if conflict := check_schema.conflict(self.model_dump()):
            raise ValueError(conflict)
        return self


# The names that a sample can carry: the four, or others. Rust's regexes have no look-ahead.
IndicatorName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]


class Indicator(BaseModel):
    """An indicator that counts; utilization below `knee` is no load. Null: 0, for mem the law's parameter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    knee: float | None = Field(default=None, ge=0, le=0.99)


# The other servers share the rest, so it must not be 0.
MOST_PINNED = 99


class Blend(BaseModel):
    """A migration to another law, completed to `percent`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: str
    parameters: dict[str, float] = {}
    percent: float = Field(ge=0, le=100)


# The load balancers of an upstream that declares none.
LOAD_BALANCERS = ("edge-1",)


class Upstream(BaseModel):
    """One upstream: its laws, its picker, its servers, and its load balancers.

    shadows      other laws with their parameters: they decide on the same snapshots, without effect
    indicators   all indicators that count; None: cpu, net, io and mem
    check        None: the one in nginx.conf
    hash_key     None: the one in nginx.conf
    max_conns    the requests that a server may have from all load balancers
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: str = "steelyard"
    parameters: dict[str, float] = {}
    shadows: dict[str, dict[str, float]] = {}
    blend: Blend | None = None
    # If it is undeclared, it is left out of the JSON, as a peer's `zone` is.
    indicators: dict[IndicatorName, Indicator] | None = Field(
        default=None, min_length=1, exclude_if=lambda declared: declared is None
    )
    picker: Name = "vnswrr2"
    hash_key: str | None = Field(default=None, pattern=_HASH_KEY)
    max_conns: MaxConns | None = Field(default=None, exclude_if=lambda declared: declared is None)
    check: Check | None = None
    load_balancers: list[Name] = list(LOAD_BALANCERS)
    peers: list[Peer] = []

    @model_validator(mode="after")
    def _is_consistent(self) -> "Upstream":
        twice = sorted(peer for peer, count in Counter(peer.id for peer in self.peers).items() if count > 1)
        if twice:
            raise ValueError(f"peers share an id: {', '.join(twice)}; give each its own")
        if len(self.zones) > weight_table.MOST_ZONES:
            raise ValueError(f"{len(self.zones)} zones; a weight table has at most {weight_table.MOST_ZONES}")
        pins = sum(peer.pin or 0 for peer in self.peers)
        if pins > MOST_PINNED:
            raise ValueError(
                f"the pins sum to {pins:g} %; leave at least {100 - MOST_PINNED} % to the others"
            )
        named = [self.law, *self.shadows, *([self.blend.law] if self.blend else [])]
        again = sorted({law for law in named if named.count(law) > 1})
        if again:
            raise ValueError(f"law {', '.join(again)} is named twice among law, shadows and blend")
        further = [each for each in self.indicators or () if each not in sample_record.INDICATORS]
        if len(further) > sample_record.MAX_FURTHER:
            raise ValueError(
                f"{len(further)} indicators beside cpu, net, io and mem; a sample has at most"
                f" {sample_record.MAX_FURTHER}"
            )
        limited = self.max_conns or all(peer.max_conns for peer in self.peers)
        if IN_FLIGHT_INDICATOR in (self.indicators or ()) and not limited:
            raise ValueError("the indicator max_conns needs a limit: declare max_conns for the upstream, too")
        self.made_laws()
        return self

    @property
    def zones(self) -> tuple[str, ...]:
        """Return the servers' zones in order."""
        return tuple(sorted({peer.zone for peer in self.peers if peer.zone is not None}))

    @property
    def knees(self) -> Mapping[str, float | None]:
        """Return the declared knee of each indicator that counts: the four first, in their order."""
        if self.indicators is None:
            return dict.fromkeys(sample_record.INDICATORS)
        four = [each for each in sample_record.INDICATORS if each in self.indicators]
        further = [each for each in self.indicators if each not in sample_record.INDICATORS]
        return {each: self.indicators[each].knee for each in (*four, *further)}

    def made_laws(self) -> dict[str, laws.Law]:
        """Return the upstream's laws by name, the live one first; raise ValueError as `laws.create` does."""
        wanted = {self.law: self.parameters, **self.shadows}
        if self.blend:
            wanted[self.blend.law] = self.blend.parameters
        return {name: laws.create(name, parameters) for name, parameters in wanted.items()}
