"""What the ns-3 study found: rroblak, Peak EWMA for Envoy, in simulation. Pure.

Ten clients send 10 requests/s each; nine servers answer after 5 ms and one after 50.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType

from steelyard_loadtest.lab.algorithms import DEFAULT
from steelyard_loadtest.lab.findings.checks import Alike, Named, Ratio, Within
from steelyard_loadtest.lab.findings.evidence import Spot
from steelyard_loadtest.lab.findings.finding import Check, Finding, Source

RATE_PER_S = 100

OURS = {
    "WRR": "nginx-rr",
    "LR": "envoy-least_request",
    "RingHash": "nginx-hash",
    "PeakEWMA": "steelyard-static-peak_ewma",
    "Steelyard": DEFAULT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One algorithm of the table `Latency Results (ms)`, 1000 requests."""

    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    sd_ms: float

    @property
    def p99_over_p50(self) -> float:
        """Return how far the tail lies from the middle."""
        return self.p99_ms / self.p50_ms


TABLE = MappingProxyType({
    name: Line(mean_ms=mean, p50_ms=5.0, p90_ms=p90, p99_ms=p99, max_ms=most, sd_ms=sd)
    for name, mean, p90, p99, most, sd in (
        ("WRR", 9.592, 24.0, 50.0, 59.0, 13.5393),
        ("LR", 8.924, 5.0, 50.0, 63.0, 12.6056),
        ("Random", 9.614, 23.0, 50.0, 55.0, 13.5226),
        ("RingHash", 9.370, 13.0, 50.0, 63.0, 13.2148),
        ("Maglev", 8.713, 5.0, 50.0, 60.0, 12.2602),
        ("PeakEWMA", 5.145, 5.0, 7.0, 63.0, 2.0591),
    )
})  # fmt: skip
"""Every median is 5 ms. Random and Maglev have no counterpart among what is compared."""

MEASURED_OTHERS = ("WRR", "LR", "RingHash")


def _named(name: str) -> Named:
    return Named(name=name, spot=Spot(scenario="slow-one", algorithm=OURS[name], level=RATE_PER_S))


def _ratio(metric: str, over: str, under: str) -> Ratio:
    published = getattr(TABLE[over], metric) / getattr(TABLE[under], metric)
    return Ratio(metric=metric, over=_named(over), under=_named(under), published=published)


def _steelyard(metric: str, under: str) -> Ratio:
    """Ours, next to what Peak EWMA gained there."""
    published = getattr(TABLE["PeakEWMA"], metric) / getattr(TABLE[under], metric)
    ours = replace(_named("Steelyard"), name="Steelyard (there: PeakEWMA)")
    return Ratio(metric=metric, over=ours, under=_named(under), published=published)


def _slow_share(name: str, published: str, at_most: float) -> Within:
    return Within(metric="slow_share", named=(_named(name),), published=published, at_most=at_most)


def _ratios(metric: str) -> tuple[Check, ...]:
    return tuple(_ratio(metric, "PeakEWMA", other) for other in MEASURED_OTHERS)


def _besides(metric: str) -> tuple[Check, ...]:
    return tuple(_steelyard(metric, other) for other in MEASURED_OTHERS)


FINDINGS = (
    Finding(
        statement="PeakEWMA has the lowest mean latency of all.",
        where="latency results",
        checks=_ratios("mean_ms"),
        beside=_besides("mean_ms"),
    ),
    Finding(
        statement="PeakEWMA's P99 stays near the quick servers' latency, all others' is the slow server's.",
        where="latency results",
        checks=_ratios("p99_ms"),
        beside=_besides("p99_ms"),
    ),
    Finding(
        statement="P90 already shows the slow server with round robin and ring hash, not with PeakEWMA.",
        where="latency results",
        checks=(_ratio("p90_ms", "PeakEWMA", "WRR"), _ratio("p90_ms", "PeakEWMA", "RingHash")),
        beside=(_steelyard("p90_ms", "WRR"), _steelyard("p90_ms", "RingHash")),
        note="with one request in ten at the slow server P90 stands on the edge.",
    ),
    Finding(
        statement="The median is the same with all.",
        where="latency results",
        checks=(
            Alike(metric="p50_ms", named=tuple(map(_named, (*MEASURED_OTHERS, "PeakEWMA"))), published=1.0),
        ),
    ),
    Finding(
        statement="PeakEWMA's latencies scatter least (standard deviation 2.1 ms, others 12.3 to 13.5).",
        where="latency results",
        checks=_ratios("p99_over_p50"),
        beside=_besides("p99_over_p50"),
        note="the lab keeps percentiles and no deviation: the P99 over the median is judged, theirs as well.",
    ),
    Finding(
        statement="PeakEWMA routes traffic away from the slow server.",
        where="key findings",
        checks=(
            # Its P99 is 7 ms, which the slow server never does: it got less than 1 in 100.
            _slow_share("PeakEWMA", "< 0.01, by its P99", 0.01),
            Within(
                metric="slow_share", named=(_named("WRR"),), published="0.1, by its weights", at_least=0.08,
                at_most=0.12,
            ),
        ),
        beside=(_slow_share("Steelyard", "–", 0.01),),
    ),
    Finding(
        statement="Fewest requests in flight, with two choices, lowers the mean by hardly a tenth.",
        where="latency results, LR",
        checks=(_ratio("mean_ms", "LR", "WRR"), Alike(
            metric="mean_ms", named=(_named("LR"), _named("WRR")),
            published=TABLE["WRR"].mean_ms / TABLE["LR"].mean_ms,
        )),
        note="at 100 requests/s and 5 ms hardly ever is a request in flight when the next one comes.",
    ),
    Finding(
        statement="Consistent hashing is no better than round robin.",
        where="latency results, RingHash",
        checks=(
            Alike(
                metric="mean_ms", named=(_named("RingHash"), _named("WRR")),
                published=TABLE["WRR"].mean_ms / TABLE["RingHash"].mean_ms,
            ),
        ),
        note="the key is random for each request, as there.",
    ),
    Finding(
        statement="The maximum is as high with PeakEWMA: it must meet the slow server to know it.",
        where="latency results",
        why="Peak EWMA meets the slow server in the warm-up here, which is not counted; the study counts "
        "from the first request",
        checks=(
            Alike(
                metric="max_ms", named=tuple(map(_named, (*MEASURED_OTHERS, "PeakEWMA"))),
                published=TABLE["PeakEWMA"].max_ms / TABLE["WRR"].max_ms,
            ),
        ),
    ),
    Finding(
        statement="Maglev and random are no better than the others either (mean 8.7 and 9.6 ms).",
        where="latency results",
        cannot="neither has a counterpart among what is compared",
    ),
)  # fmt: skip

SOURCE = Source(
    title="The ns-3 study",
    what="rroblak, *envoy-peak-ewma*: a simulated proxy with Envoy's methods and Peak EWMA in front of ten "
    "servers, nine that answer after 5 ms and one after 50; 1000 requests at 100 requests/s.",
    mirrored="scenario `slow-one`, by real daemons",
    names=OURS,
    findings=FINDINGS,
)
