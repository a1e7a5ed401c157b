"""The models of an upstream as it stands and stood: tables, overviews, explanations, the past. Pure.

Large answers are sent as bytes that were encoded once, without these models; tests check that the two agree.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from steelyard_controller.declarations.discovered import Condition
from steelyard_controller.declarations.upstream import Check

State = Literal["up", "drain", "down", "backup"]
Known = float | None


class Indicators(BaseModel):
    """A figure for each indicator, by name; null is "not known"."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Known] = Field(init=False)

    cpu: Known = Field(examples=[0.62])
    net: Known = Field(examples=[0.05])
    io: Known = Field(examples=[0.01])
    mem: Known = Field(examples=[0.31])


class IndicatorRow(BaseModel):
    """An indicator that is declared or reported."""

    used: bool = Field(description="whether it counts: one that is reported and not declared does not")
    knee: Known = Field(
        examples=[0.8], description="utilization below it does not count as load; null: the law has none"
    )
    weight: Known = Field(examples=[0.25], description="the part that it has in the score; null: it has none")
    reporting: int = Field(examples=[3], description="how many servers report it")


EntropyWeights = Annotated[
    dict[str, float], Field(examples=[{"cpu": 0.4, "net": 0.2, "io": 0.2, "mem": 0.2}])
]
IndicatorRows = dict[str, IndicatorRow]


class Headroom(BaseModel):
    """What an upstream could carry, carries, and has left; null is "not known"."""

    could_carry_per_s: Known = Field(
        examples=[1400.0], description="requests/s of its servers at a load of 1 - H, beside others' load"
    )
    carries_per_s: Known = Field(examples=[1000.0], description="requests/s that end, over some 10 s")
    left_per_s: Known = Field(examples=[400.0], description="the one less the other; below 0: it lacks these")
    ratio: Known = Field(examples=[0.29], description="left as a part of what it could carry, 0 to 1")
    learnt: Known = Field(
        examples=[0.99],
        description="the part of what it could carry that was seen, not assumed",
    )
    servers: int = Field(
        examples=[10], description="how many count: they get requests, are measured and do not leave"
    )
    unknown: str | None = Field(examples=[None], description="why figures are null")


class Summary(BaseModel):
    """One upstream in the list."""

    name: str = Field(examples=["web"])
    law: str = Field(examples=["steelyard"])
    picker: str = Field(examples=["vnswrr2"])
    peers: int = Field(examples=[3], description="how many are declared")
    revision: int = Field(examples=[4], description="raised by every change of the declaration")
    ready: bool = Field(description="whether it has had its first tick")
    degraded: list[str] = Field(examples=[[]], description="a line for each part that does not work")
    headroom: Known = Field(examples=[0.29], description="its ratio; null: not known, its overview says why")
    troubles: list[str] = Field(
        examples=[["1 of 3 servers: draining"]], description="why somebody should look, the worst first"
    )
    found: list[str] = Field(
        examples=[[]],
        description="where a search finds servers, and not the upstream's name: the first three",
    )


class Upstreams(BaseModel):
    """Every upstream."""

    upstreams: list[Summary]
    total: int = Field(examples=[1], description="how many upstreams there are")
    matching: int = Field(examples=[1], description="how many of them the search finds")


class Thresholds(BaseModel):
    """The scores between which a server is highly loaded (H and below) or has room (L and above)."""

    H: float = Field(examples=[0.3])
    L: float = Field(examples=[0.4])


class TableRow(BaseModel):
    """A server in a weight table."""

    id: str = Field(examples=["server-1"])
    address: str = Field(examples=["10.0.0.11:80"], description="IP:port; names are resolved")
    weight: int = Field(examples=[267], ge=1)
    baseline: int = Field(examples=[333], ge=1, description="its weight at rest, on the scale of `weight`")
    state: State
    zone: Annotated[str, Field(default=None, examples=["eu-1a"], exclude_if=lambda zone: zone is None)]
    max_conns: Annotated[int, Field(default=None, examples=[64], exclude_if=lambda most: most is None)]


class PeerRow(TableRow):
    """A server as it stands now."""

    share: float = Field(
        examples=[0.267], description="of the requests, by weight; 0 for one that gets no new requests"
    )
    pin: float | None = Field(examples=[None], description="percentage that a person fixed")
    score: Known = Field(examples=[0.38], description="weighted residual: 0 is busy, 1 is idle")
    utilization: Indicators | None = Field(description="of its last sample, or told in-band")
    sample_age_s: float | None = Field(examples=[0.8])
    silent: bool = Field(
        description="whether nothing came from its agent for three of its intervals, or of ticks if longer"
    )
    leaving: bool = Field(description="whether its agent said that it is shutting down")
    completed_per_tick: Known = Field(examples=[812.0])
    failed_per_tick: Known = Field(examples=[0.0])
    in_flight: float = Field(examples=[3.0])
    waiting: Known = Field(examples=[1.0], description="of those in flight; null where the law does not tell")
    open: Known = Field(examples=[2.0], description="the others: merely open, and no work waits")
    latency_ms: Known = Field(examples=[4.1])
    why: str = Field(examples=["267 because it does 410 requests per busy second (baseline 333)."])
    pod: Annotated[
        Condition,
        Field(
            default=None,
            exclude_if=lambda condition: condition is None,
            description="what Kubernetes says; left out: it is no pod",
        ),
    ]
    shadows: dict[str, float] = Field(
        examples=[{"paper": 312.0}], description="what the shadow laws would give it"
    )
    troubles: list[str] = Field(examples=[[]], description="why somebody should look, the worst first")


class LoadBalancer(BaseModel):
    """What a load balancer last reported."""

    report_age_s: float = Field(examples=[0.4])
    silent: bool = Field(description="whether its reports are late, by the same rule as a server's samples")
    declared: bool = Field(description="false: it came by itself, and is forgotten a minute after it left")
    rung: str | None = Field(examples=["fresh"], description="where its weights come from")
    order: list[int] | None = Field(
        examples=[[3, 118]], description="(term, generation) of the weight table that it serves"
    )


class Refused(BaseModel):
    """What was sent and not believed."""

    now: dict[str, str] = Field(
        examples=[{"sample of server-2": "not_json: Expecting value"}], description="by source"
    )
    count: dict[str, int] = Field(examples=[{"not_json": 2}], description="since the start, by reason")
    sources: int = Field(
        description="how many sources there are in `now`; where servers are asked for, 20 are"
    )


class Totals(BaseModel):
    """All servers of an upstream together: sums, and means of what is known."""

    servers: int = Field(examples=[3])
    up: int = Field(examples=[3])
    share: float = Field(examples=[1.0], description="0: no server gets requests")
    weight: Known = Field(examples=[333.3])
    score: Known = Field(examples=[0.38])
    utilization: dict[str, Known] = Field(
        examples=[{"cpu": 0.62, "mem": 0.31}], description="of each indicator that counts"
    )
    completed_per_tick: float = Field(examples=[2410.0])
    failed_per_tick: float = Field(examples=[0.0])
    in_flight: float = Field(examples=[9.0])
    latency_ms: Known = Field(examples=[4.1], description="of a request")
    pinned: float = Field(examples=[0.0], description="percent of the weight that persons fixed")
    moved: TableRow | None = Field(description="the furthest from its baseline; null: all are at theirs")


class _Published(BaseModel):
    v: Literal[1]
    upstream: str = Field(examples=["web"])
    term: int = Field(examples=[3], description="raised by every change of leader")
    generation: int = Field(examples=[118], description="raised by every tick")
    issued_at_ms: int = Field(examples=[1790000000000])
    law: str = Field(examples=["steelyard"])
    picker: str = Field(examples=["vnswrr2"])
    # The members that are left out, not null, where nginx.conf's stand.
    check: Annotated[Check, Field(default=None)]
    hash_key: Annotated[str, Field(default=None, examples=["cookie:session"])]
    max_conns: Annotated[int, Field(default=None, examples=[200])]
    report_version: int = Field(
        examples=[2], description="the latest version of traffic reports that is read"
    )
    reporters: list[str] = Field(
        examples=[["edge-1", "edge-2"]], description="the load balancers whose traffic reports come"
    )
    zones: Annotated[
        list[str],
        Field(default=None, description="the servers' zones; left out: no load balancer is in any"),
    ]
    zone_factors: Annotated[
        list[list[int]],
        Field(
            default=None,
            description="by what load balancers of each zone, and of none, multiply the weights of each "
            "zone's servers, and of none's",
        ),
    ]
    digest: str = Field(
        examples=["0c1f6b1d9d5f4c0e8a7b6c5d4e3f2a1b"],
        description="of all but order, time and weights: nginx reads the whole table where it has changed",
    )


class Table(_Published):
    """A weight table as it was published; docs/contract/weights.json has examples."""

    peers: list[TableRow]


class ZoneTraffic(BaseModel):
    """What the load balancers of a zone bring, over some 5 s, and what of it leaves the zone."""

    brings_per_s: float = Field(examples=[120.0])
    crosses_per_s: float = Field(examples=[12.0])


class Overview(_Published):
    """An upstream's weights beside the samples and reports that led to them."""

    peers: list[PeerRow]
    revision: int = Field(examples=[4])
    alert: bool = Field(description="whether any server's score is at or below H")
    thresholds: Thresholds | None = Field(description="null: the law has none")
    headroom: Headroom
    entropy_weights: EntropyWeights
    indicators: IndicatorRows
    totals: Totals
    zone_traffic: Annotated[
        dict[str, ZoneTraffic], Field(default=None, description="by zone; left out where `zones` are")
    ]
    matching: Annotated[int, Field(default=None, description="servers that match; left out: all are here")]
    shadow_laws: list[str] = Field(examples=[["paper"]])
    load_balancers: dict[str, LoadBalancer | None] = Field(description="null: none has reported")
    refused: Refused
    degraded: list[str] = Field(examples=[[]])


class Shadow(BaseModel):
    """A shadow law's answer."""

    weight: float = Field(examples=[312.0])
    sentence: str


class Explanation(BaseModel):
    """All that led to a server's weight; null is "not known"."""

    id: str = Field(examples=["server-1"])
    law: str = Field(examples=["steelyard"])
    weight: float = Field(examples=[267.3])
    weight_before: Known
    published: int = Field(examples=[267])
    baseline: float = Field(examples=[333.3])
    score: Known
    capacity_estimate: Known = Field(description="requests per busy second")
    alert: bool
    entropy_weights: EntropyWeights
    indicators: IndicatorRows
    figures: dict[str, float | None] = Field(description="every figure of the decision, by name")
    clamps: list[str] = Field(description="the bounds that were hit")
    parameters: dict[str, float]
    sentence: str = Field(examples=["267 because it does 410 requests per busy second (baseline 333)."])
    shadows: dict[str, Shadow]


class Moment(BaseModel):
    """One moment of an upstream: columns over `ids`; null is "not known"."""

    at_ms: int = Field(examples=[1790000000000])
    term: int = Field(examples=[3])
    generation: int = Field(examples=[118])
    alert: bool
    ids: list[str] = Field(examples=[["server-1"]])
    weight: list[int] = Field(examples=[[267]])
    share: list[float] = Field(examples=[[0.267]])
    state: list[State]
    score: list[Known]
    cpu: list[Known]
    net: list[Known]
    io: list[Known]
    mem: list[Known]
    completed: list[Known]
    latency_ms: list[Known]
    entropy: list[Known] = Field(description="the weights of `indicators`")
    indicators: Annotated[list[str], Field(default=None, description="left out: cpu, net, io, mem")]
    further: Annotated[
        dict[str, list[Known]], Field(default=None, description="utilization by any other indicator")
    ]
    all: Annotated[
        dict[str, Any],
        Field(default=None, description="all servers: sums of shares and requests, else means"),
    ]


class History(BaseModel):
    """The past of an upstream, oldest first."""

    upstream: str = Field(examples=["web"])
    moments: list[Moment]
