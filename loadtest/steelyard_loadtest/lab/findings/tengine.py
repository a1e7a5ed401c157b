"""What Tengine says of its VNSWRR: ngx_http_upstream_vnswrr_module, README. Pure.

Its charts have no printed values; the figures are those of its text.
"""

from dataclasses import dataclass

from steelyard_loadtest.lab.findings.checks import Alike, Named, Ratio
from steelyard_loadtest.lab.findings.evidence import DATAPLANE, Evidence, Spot
from steelyard_loadtest.lab.findings.finding import Answer, Check, Finding, Source
from steelyard_loadtest.lab.findings.grades import number

FEW, MANY = 3, 2000
STEP = 500
"""Servers, by which it counts."""

SPEEDUP = 1.60
RATE_KEPT = 0.90
ADDED_MS = 1.0
CPU_PART_SWRR = 0.39
CPU_PART_VNSWRR = 0.0027

OURS = {
    "SWRR": "nginx-swrr",
    "VNSWRR": "vnswrr",
    "Tengine's VNSWRR": "tengine-vnswrr",
    "Steelyard": "vnswrr2",
}


def _named(name: str, servers: int) -> Named:
    return Named(name=name, spot=Spot(scenario=DATAPLANE, algorithm=OURS[name], level=servers))


def _faster(name: str) -> Ratio:
    return Ratio(
        metric="requests_per_s", over=_named(name, MANY), under=_named("SWRR", MANY), published=SPEEDUP
    )


def _cpu(name: str) -> Ratio:
    """What is not spent on picking is the same for both, so the whole is in inverse proportion to it."""
    return Ratio(
        metric="balancer_cpu_us_per_request",
        over=_named(name, MANY),
        under=_named("SWRR", MANY),
        published=(1 - CPU_PART_SWRR) / (1 - CPU_PART_VNSWRR),
    )


def _flat(metric: str, name: str) -> Alike:
    return Alike(metric=metric, named=(_named(name, FEW), _named(name, MANY)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Median latency that every 500 servers more add, from 3 to 2000, in ms."""

    name: str

    @property
    def figure(self) -> str:
        """Name it."""
        return f"ms that {STEP} servers more add to the median latency, {self.name}, {FEW} to {MANY} servers"

    @property
    def theirs(self) -> str:
        """Give theirs."""
        return number(ADDED_MS)

    @property
    def rule(self) -> str:
        """Half of theirs."""
        return f"≥ {number(ADDED_MS / 2)}"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade: at least half of theirs, or not."""
        few, many = evidence.values("p50_ms", [_named(self.name, count).spot for count in (FEW, MANY)])
        added = (many - few) * STEP / (MANY - FEW)
        return Answer(here=number(added), grade="reproduced" if added >= ADDED_MS / 2 else "not reproduced")


_RATE: tuple[Check, ...] = (
    Ratio(metric="requests_per_s", over=_named("SWRR", STEP), under=_named("SWRR", FEW), published=RATE_KEPT),
    Ratio(
        metric="requests_per_s",
        over=_named("SWRR", MANY),
        under=_named("SWRR", STEP),
        published=RATE_KEPT ** ((MANY - STEP) // STEP),
    ),
)

FINDINGS = (
    Finding(
        statement="With 2000 servers VNSWRR does 60 % more requests/s than SWRR.",
        where="Performance",
        checks=(_faster("VNSWRR"),),
        beside=(_faster("Tengine's VNSWRR"), _faster("Steelyard")),
    ),
    Finding(
        statement="With 2000 servers picking takes 39 % of the CPU with SWRR and 0.27 % with VNSWRR.",
        where="Performance",
        checks=(_cpu("VNSWRR"),),
        beside=(_cpu("Tengine's VNSWRR"), _cpu("Steelyard")),
        note="the benchmark does not profile functions: the CPU per request is judged, which by these parts "
        "is 61 % of SWRR's. It has all that many servers cost, not the picking alone.",
    ),
    Finding(
        statement="Every 500 servers more cost SWRR about 10 % of its requests/s.",
        where="Performance",
        checks=_RATE,
    ),
    Finding(
        statement="Every 500 servers more add about 1 ms to SWRR's response time.",
        where="Performance",
        checks=(Added(name="SWRR"),),
        note="in a closed loop the response time is connections over rate: 500 connections there, 64 here.",
    ),
    Finding(
        statement="With VNSWRR requests/s do not change much with the number of servers.",
        where="Performance",
        checks=(_flat("requests_per_s", "VNSWRR"),),
        beside=(_flat("requests_per_s", "Tengine's VNSWRR"), _flat("requests_per_s", "Steelyard")),
    ),
    Finding(
        statement="With VNSWRR the response time does not change much with the number of servers.",
        where="Performance",
        checks=(_flat("p50_ms", "VNSWRR"),),
        beside=(_flat("p50_ms", "Tengine's VNSWRR"), _flat("p50_ms", "Steelyard")),
    ),
)

SOURCE = Source(
    title="Tengine's VNSWRR",
    what="Tengine, *ngx_http_upstream_vnswrr_module*: nginx's smooth weighted round robin (SWRR) against "
    "virtual nodes (VNSWRR), wrk with 500 kept connections, up to 2000 servers.",
    mirrored="`steelyard-loadtest dataplane` ([benchmarks-dataplane.md](benchmarks-dataplane.md)); VNSWRR is "
    "Steelyard's, in Lua, where Tengine's own is not installed",
    names=OURS,
    findings=FINDINGS,
)
