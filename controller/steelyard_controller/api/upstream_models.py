"""The models of an upstream's present and past: tables, overviews, explanations, history. Pure.

Large answers are sent as bytes, encoded once, without these models; tests check that the two agree.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from steelyard_controller.declarations.discovered import Condition
from steelyard_controller.declarations.upstream import Check
from steelyard_controller.tick.shown_rows import Level

State = Literal["up", "drain", "down", "backup"]
Known = float | None
LEVEL = "how much it needs a person: it does not work, it may soon not, something is unusual, or nothing is"


def shown(example: object, description: str | None = None) -> Any:  # noqa: ANN401 - of the field's type
    """Return a field that is always present, with an example and a description."""
    return Field(examples=[example], description=description)


class Indicators(BaseModel):
    """A figure for each indicator, by name; null is "not known"."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Known] = Field(init=False)

    cpu: Known = shown(0.62)
    net: Known = shown(0.05)
    io: Known = shown(0.01)
    mem: Known = shown(0.31)


class IndicatorRow(BaseModel):
    """A declared or reported indicator."""

    used: bool = Field(description="whether it counts; a reported one without a declaration does not")
    knee: Known = shown(0.8, "utilization below it does not count as load; null: the law has none")
    weight: Known = shown(0.25, "its part of the score; null: none")
    reporting: int = shown(3, "how many servers report it")


EntropyWeights = Annotated[dict[str, float], shown({"cpu": 0.4, "net": 0.2, "io": 0.2, "mem": 0.2})]
IndicatorRows = dict[str, IndicatorRow]


class Headroom(BaseModel):
    """An upstream's possible, present and remaining requests; null is "unknown"."""

    could_carry_per_s: Known = shown(
        1400.0, "requests/s of its servers at a load of 1 - H, beside others' load"
    )
    carries_per_s: Known = shown(1000.0, "requests/s that end, over some 10 s")
    left_per_s: Known = shown(400.0, "the one less the other; below 0: it lacks these")
    ratio: Known = shown(0.29, "left_per_s as a part of could_carry_per_s, 0 to 1")
    learnt: Known = shown(0.99, "part of could_carry_per_s that was seen, not assumed")
    servers: int = shown(10, "how many count: they get requests, are measured and do not leave")
    unknown: str | None = shown(None, "why figures are null")


class Summary(BaseModel):
    """One upstream in the list."""

    name: str = shown("web")
    law: str = shown("steelyard")
    picker: str = shown("vnswrr2")
    peers: int = shown(3, "how many are declared")
    revision: int = shown(4, "raised by every change of the declaration")
    ready: bool = Field(description="whether it has had its first tick")
    degraded: list[str] = shown([], "its own faults, one a line")
    level: Level = shown("notice", LEVEL)
    up: int = shown(3, "servers that are up")
    requests_per_s: Known = shown(812.0, "requests/s that end, over some 10 s")
    failed_per_s: Known = shown(0.0, "those among the last tick's that failed")
    headroom: Known = shown(0.29, "ratio of its headroom; null: unknown")
    left_per_s: Known = shown(400.0, "requests/s of its headroom; below 0: it lacks these")
    could_carry_per_s: Known = shown(1400.0, "requests/s that it could carry without high load")
    headroom_unknown: str | None = shown(None, "why the headroom is unknown")
    crossing: Known = shown(0.02, "part of the requests that leaves its zone; null: no zones")
    troubles: list[str] = shown(["1 of 3 servers: draining"], "troubles, the worst first")
    found: list[str] = shown([], "first three servers that a search matches, unless it matches the upstream")


class Tightest(BaseModel):
    """The upstream with the least headroom."""

    name: str = shown("web")
    headroom: float = shown(0.29)


class FleetTotals(BaseModel):
    """All upstreams together: their number by level, and sums."""

    fault: int = shown(0)
    warning: int = shown(0)
    notice: int = shown(1)
    well: int = shown(0)
    servers: int = shown(3)
    requests_per_s: float = shown(812.0)
    failed_per_s: float = shown(0.0)
    tightest: Tightest | None = Field(description="null: no headroom is known")


class ControllerFaults(BaseModel):
    """The leading controller, and its faults: those of no single upstream."""

    id: str = shown("edge-a-8081")
    degraded: list[str] = shown(["state: Connection refused"], "faults, one a line")


class Upstreams(BaseModel):
    """Every upstream, and what concerns many of them."""

    controller: ControllerFaults
    troubles: list[str] = shown(
        ["load balancer edge-1: silent at 2,000 upstreams"], "troubles of many upstreams, left out at each"
    )
    upstreams: list[Summary]
    total: int = shown(1, "how many upstreams there are")
    matching: int = shown(1, "upstreams that match the search")
    totals: Annotated[
        FleetTotals, Field(default=None, description="of all upstreams; absent for pages by names")
    ]


class Thresholds(BaseModel):
    """The scores of a highly loaded server (H and below) and of one with room (L and above)."""

    H: float = shown(0.3)
    L: float = shown(0.4)


class TableRow(BaseModel):
    """A server in a weight table."""

    id: str = shown("server-1")
    address: str = shown("10.0.0.11:80", "IP:port; names are resolved")
    weight: int = Field(examples=[267], ge=1)
    baseline: int = Field(examples=[333], ge=1, description="its weight at rest, on the scale of `weight`")
    state: State
    zone: Annotated[str, Field(default=None, examples=["eu-1a"], exclude_if=lambda zone: zone is None)]
    max_conns: Annotated[int, Field(default=None, examples=[64], exclude_if=lambda most: most is None)]


class PeerRow(TableRow):
    """A server in its present state."""

    share: float = shown(0.267, "share of the requests, by weight; 0 for a server without new requests")
    pin: float | None = shown(None, "percentage that a person fixed")
    score: Known = shown(0.38, "weighted residual: 0 is busy, 1 is idle")
    utilization: Indicators | None = Field(description="utilization in its last sample or its responses")
    sample_age_s: float | None = shown(0.8)
    silent: bool = Field(
        description="whether its agent is silent for three of its intervals, or of ticks if longer"
    )
    leaving: bool = Field(description="whether its agent has reported its shutdown")
    completed_per_tick: Known = shown(812.0)
    failed_per_tick: Known = shown(0.0)
    in_flight: float = shown(3.0)
    waiting: Known = shown(1.0, "waiting ones of those in flight; null: unknown to the law")
    open: Known = shown(2.0, "the others: merely open, and no work waits")
    latency_ms: Known = shown(4.1)
    why: str = shown("267: does 410 requests per busy second, from 1290 observed requests")
    pod: Annotated[
        Condition,
        Field(
            default=None,
            exclude_if=lambda condition: condition is None,
            description="Kubernetes' report; absent: not a pod",
        ),
    ]
    shadows: dict[str, float] = shown({"paper": 312.0}, "weights by the shadow laws")
    troubles: list[str] = shown([], "why somebody should look, the worst first")


class LoadBalancer(BaseModel):
    """A load balancer's last report."""

    report_age_s: float = shown(0.4)
    silent: bool = Field(description="whether its reports are late, by the same rule as a server's samples")
    declared: bool = Field(description="false: it announced itself, and is forgotten a minute after it left")
    rung: str | None = shown("fresh", "source of its weights")
    zone: str | None = shown("eu-1a", "zone; null: none")
    order: list[int] | None = shown([3, 118], "(term, generation) of its weight table")


class Refused(BaseModel):
    """Refused messages."""

    now: dict[str, str] = shown({"sample of server-2": "not_json: Expecting value"}, "by source")
    count: dict[str, int] = shown({"not_json": 2}, "since the start, by reason")
    sources: int = Field(
        description="number of sources in `now`, which has at most 20 for a selection of servers"
    )


class Totals(BaseModel):
    """All servers of an upstream together: sums, and means of the known figures."""

    servers: int = shown(3)
    up: int = shown(3)
    share: float = shown(1.0, "0: no server gets requests")
    weight: Known = shown(333.3)
    score: Known = shown(0.38)
    utilization: dict[str, Known] = shown({"cpu": 0.62, "mem": 0.31}, "utilization by counting indicator")
    completed_per_tick: float = shown(2410.0)
    failed_per_tick: float = shown(0.0)
    in_flight: float = shown(9.0)
    latency_ms: Known = shown(4.1, "of a request")
    pinned: float = shown(0.0, "pinned percentage of the weight")
    moved: TableRow | None = Field(description="the furthest from its baseline; null: all are at theirs")


class _Published(BaseModel):
    v: Literal[1]
    upstream: str = shown("web")
    term: int = shown(3, "raised by every change of leader")
    generation: int = shown(118, "raised by every tick")
    issued_at_ms: int = shown(1790000000000)
    law: str = shown("steelyard")
    picker: str = shown("vnswrr2")
    # Absent, not null, if nginx.conf's hold.
    check: Annotated[Check, Field(default=None)]
    hash_key: Annotated[str, Field(default=None, examples=["cookie:session"])]
    max_conns: Annotated[int, Field(default=None, examples=[200])]
    reporters: list[str] = shown(["edge-1", "edge-2"], "load balancers whose traffic reports arrive")
    zones: Annotated[
        list[str],
        Field(default=None, description="zones of the servers; absent: no load balancer is in any"),
    ]
    zone_factors: Annotated[
        list[list[int]],
        Field(
            default=None,
            description="factors by which load balancers of each zone, and without one, multiply the weights "
            "of each zone's servers, and of those without",
        ),
    ]
    digest: str = shown(
        "0c1f6b1d9d5f4c0e8a7b6c5d4e3f2a1b",
        "digest of all but order, time and weights: after a change nginx reads the whole table",
    )


class Table(_Published):
    """A weight table as it was published; docs/contract/weights.json has examples."""

    peers: list[TableRow]


class ZoneTraffic(BaseModel):
    """Requests from the load balancers of a zone, over some 5 s, and those that leave the zone."""

    brings_per_s: float = shown(120.0)
    crosses_per_s: float = shown(12.0)


class ZoneRow(ZoneTraffic):
    """A zone's servers and load balancers; null is "not known", and the zone null is "no zone"."""

    zone: str | None = shown("eu-1a")
    servers: int = shown(3)
    up: int = shown(3)
    share: float = shown(0.5, "part of all weights")
    load_balancers: list[str] = shown(["edge-1"])
    brings_per_s: Known = shown(120.0)  # type: ignore[assignment]
    crosses_per_s: Known = shown(12.0)  # type: ignore[assignment]
    crosses_to: dict[str, float] = shown({"eu-1b": 12.0}, "requests/s by other zone; an empty name: no zone")


class Overview(_Published):
    """An upstream's weights with the samples and reports behind them."""

    peers: list[PeerRow]
    revision: int = shown(4)
    alert: bool = Field(description="whether any server's score is at or below H")
    thresholds: Thresholds | None = Field(description="null: the law has none")
    headroom: Headroom
    entropy_weights: EntropyWeights
    indicators: IndicatorRows
    totals: Totals
    zone_traffic: Annotated[
        dict[str, ZoneTraffic], Field(default=None, description="traffic by zone; absent without `zones`")
    ]
    by_zone: Annotated[
        list[ZoneRow], Field(default=None, description="servers and traffic by zone; absent without any zone")
    ]
    level: Level = shown("well", LEVEL)
    troubles: list[str] = shown([], "why somebody should look, the worst first")
    matching: Annotated[int, Field(default=None, description="servers that match; absent: all are here")]
    shadow_laws: list[str] = shown(["paper"])
    load_balancers: dict[str, LoadBalancer | None] = Field(description="null: none has reported")
    refused: Refused
    degraded: list[str] = shown([], "the upstream's own faults, one a line")
    controller: Annotated[
        ControllerFaults, Field(default=None, description="absent in the `tick` of an event stream")
    ]


class Shadow(BaseModel):
    """A shadow law's answer."""

    weight: float = shown(312.0)
    sentence: str


class Explanation(BaseModel):
    """All figures behind a server's weight; null is "unknown"."""

    id: str = shown("server-1")
    law: str = shown("steelyard")
    weight: float = shown(267.3)
    weight_before: Known
    published: int = shown(267)
    baseline: float = shown(333.3)
    score: Known
    capacity_estimate: Known = Field(description="requests per busy second")
    alert: bool
    entropy_weights: EntropyWeights
    indicators: IndicatorRows
    figures: dict[str, float | None] = Field(description="every figure of the decision, by name")
    clamps: list[str] = Field(description="bounds that apply")
    parameters: dict[str, float]
    sentence: str = shown("267: does 410 requests per busy second, from 1290 observed requests")
    shadows: dict[str, Shadow]


class Moment(BaseModel):
    """One moment of an upstream: columns over `ids`; null is "unknown"."""

    at_ms: int = shown(1790000000000)
    term: int = shown(3)
    generation: int = shown(118)
    alert: bool
    ids: list[str] = shown(["server-1"])
    weight: list[int] = shown([267])
    share: list[float] = shown([0.267])
    state: list[State]
    score: list[Known]
    cpu: list[Known]
    net: list[Known]
    io: list[Known]
    mem: list[Known]
    completed: list[Known]
    latency_ms: list[Known]
    entropy: list[Known] = Field(description="the weights of `indicators`")
    indicators: Annotated[list[str], Field(default=None, description="absent: cpu, net, io, mem")]
    further: Annotated[
        dict[str, list[Known]], Field(default=None, description="utilization by any other indicator")
    ]
    all: Annotated[
        dict[str, Any],
        Field(default=None, description="all servers: sums of shares and requests, else means"),
    ]


class History(BaseModel):
    """The history of an upstream, oldest first."""

    upstream: str = shown("web")
    moments: list[Moment]
