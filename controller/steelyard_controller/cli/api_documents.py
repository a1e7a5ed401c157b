"""The documents of the REST API, with the fields for the commands. Pure.

Fields of a newer controller are ignored; fields that may be missing have defaults.
"""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Document(BaseModel):
    """A JSON object with some known fields."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def printable(value: object) -> object:
    """Return a text without control characters, which could steer a terminal; other values as they are.

    The reason of a refusal may quote the refused value, and any writer can have sent that.
    """
    if not isinstance(value, str):
        return value
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in value)


Text = Annotated[str, BeforeValidator(printable)]


class TablePeer(Document):
    """One row of a weight table."""

    id: Text
    address: Text
    weight: int
    baseline: int
    state: Text


class Live(TablePeer):
    """One peer's row of an overview."""

    share: float = 0.0
    pin: float | None = None
    score: float | None = None
    utilization: dict[str, float | None] | None = None
    sample_age_s: float | None = None
    silent: bool = False
    leaving: bool = False
    completed_per_tick: float | None = None
    failed_per_tick: float | None = None
    in_flight: float | None = None
    waiting: float | None = None
    open: float | None = None
    latency_ms: float | None = None
    pod: Text | None = None


class Indicator(Document):
    """A declared or reported indicator."""

    used: bool = True
    knee: float | None = None
    reporting: int = 0


class LoadBalancer(Document):
    """The last report of a load balancer."""

    report_age_s: float
    silent: bool = False
    declared: bool = True
    rung: Text | None = None
    order: tuple[int, int] | None = None


class Refused(Document):
    """The present refusals, by source."""

    now: dict[Text, Text] = {}


class Headroom(Document):
    """An upstream's possible, present and remaining requests."""

    could_carry_per_s: float | None = None
    carries_per_s: float | None = None
    left_per_s: float | None = None
    ratio: float | None = None
    servers: int = 0
    unknown: Text | None = None


class ZoneTraffic(Document):
    """The requests of a zone's load balancers, and those that leave the zone."""

    brings_per_s: float
    crosses_per_s: float


class Published(Document):
    """The common fields of a weight table and an overview."""

    upstream: Text
    term: int
    generation: int
    law: Text
    picker: Text


class Table(Published):
    """`GET /v1/upstreams/{upstream}/weights`."""

    peers: list[TablePeer]


class ControllerFaults(Document):
    """The leading controller, and its faults."""

    id: Text
    degraded: list[Text] = []


class Overview(Published):
    """`GET /v1/upstreams/{upstream}`, and a tick of `GET /v1/events`."""

    revision: int = 0
    alert: bool = False
    thresholds: dict[str, float] | None = None
    headroom: Headroom | None = None
    zone_traffic: dict[Text, ZoneTraffic] = {}
    indicators: dict[Text, Indicator] = {}
    peers: list[Live]
    load_balancers: dict[Text, LoadBalancer | None] = {}
    refused: Refused = Refused()
    degraded: list[Text] = []
    controller: ControllerFaults | None = None
    matching: int | None = None


class Declared(Document):
    """A peer as declared."""

    id: Text
    state: Text = "up"
    pin: float | None = None


class Leader(Document):
    """The leading controller."""

    id: Text
    url: Text


class Service(Document):
    """`GET /v1/service`."""

    id: Text
    installation: Text | None = None
    role: Text
    term: int | None = None
    leader: Leader | None = None
    version: Text = "?"
    tick_s: float = 1.0
    state: Text = "?"
    degraded: list[Text] = []
    uptime_s: float = 0.0


class Row(Document):
    """One upstream of `GET /v1/upstreams`."""

    name: Text
    law: Text
    picker: Text
    peers: int
    revision: int
    ready: bool
    degraded: list[Text] = []
    headroom: float | None = None
    troubles: list[Text] = []


class Upstreams(Document):
    """`GET /v1/upstreams`; `troubles` are those of many upstreams."""

    controller: ControllerFaults | None = None
    troubles: list[Text] = []
    upstreams: list[Row]
    matching: int | None = None


class Shadow(Document):
    """A shadow law's weight."""

    weight: float
    sentence: Text


class Explanation(Document):
    """`GET /v1/upstreams/{upstream}/peers/{peer}/explain`."""

    id: Text
    law: Text
    weight: float
    weight_before: float | None = None
    published: int
    baseline: float
    score: float | None = None
    capacity_estimate: float | None = None
    alert: bool = False
    entropy_weights: dict[str, float] = {}
    indicators: dict[Text, Indicator] = {}
    figures: dict[Text, float | None] = {}
    clamps: list[Text] = []
    parameters: dict[Text, float] = {}
    sentence: Text
    shadows: dict[Text, Shadow] = {}


class Moment(Document):
    """One moment of `GET /v1/upstreams/{upstream}/history`: columns over its peers."""

    at_ms: int
    ids: list[Text]
    share: list[float]


class History(Document):
    """`GET /v1/upstreams/{upstream}/history`."""

    upstream: Text
    moments: list[Moment]


class Change(Document):
    """A change of `GET /v1/events`."""

    revision: int | None = None
    what: Text = ""


class AuditEntry(Document):
    """One change of `GET /v1/audit`."""

    id: int
    at_ms: int = Field(ge=0, le=2**42)
    who: Text
    kind: Text
    address: Text | None = None
    via: Text | None = None
    upstream: Text
    what: Text


class Audit(Document):
    """`GET /v1/audit`."""

    entries: list[AuditEntry]


class Mistake(Document):
    """One field of a refused document."""

    field: Text = ""
    message: Text = ""
    remedy: Text | None = None


class Problem(Document):
    """An RFC 9457 problem document."""

    status: int
    title: Text = ""
    detail: Text = ""
    errors: list[Mistake] = Field(default=[])
