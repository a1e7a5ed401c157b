"""The controller's Prometheus metrics, made from the last outcomes at each scrape."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from steelyard_protocol.wire import REASONS

from steelyard_controller.discovery.discovery import Discovery
from steelyard_controller.instruments import Instruments
from steelyard_controller.service import Service
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import (
    ahead,
    headroom_of,
    indicators,
    measured,
    reporting,
    shares,
    utilization,
)
from steelyard_controller.tick.request_counts import RequestTotal
from steelyard_controller.tick.upstream_zones import zone_traffic

MEDIA_TYPE = CONTENT_TYPE_LATEST

ROLES = ("leader", "standby", "waiting")

# 19 lines each: at this number a scrape takes 0.3 to 0.5 s of a thread and 3.5 MB, up to 10 % of a core every
# 5 s.
MOST_SERVERS = 2000

# The figures of an upstream's headroom, if it is known.
HEADROOM = (
    (
        "could_carry_per_s",
        "steelyard_could_carry_requests_per_second",
        "Requests it could carry at a load of 1 - H.",
    ),
    ("carries_per_s", "steelyard_carries_requests_per_second", "Requests it carries, over some 10 s."),
    ("left_per_s", "steelyard_headroom_requests_per_second", "Requests it has left; below 0: it lacks."),
    ("ratio", "steelyard_headroom_ratio", "Share of its possible requests that is left, 0 to 1."),
    (
        "learnt",
        "steelyard_headroom_learnt_ratio",
        "Share of its possible requests that was seen, not assumed.",
    ),
)

ZONES = (
    ("brings_per_s", "steelyard_zone_requests_per_second", "Requests from load balancers of a zone."),
    ("crosses_per_s", "steelyard_zone_crossing_requests_per_second", "Requests that leave the zone."),
)

# A law's figures for a server, if its decision's columns have these.
LEARNT = (
    ("not_ours", "steelyard_peer_others_load", "Load from other sources, 0 to 1."),
    (
        "prior_share",
        "steelyard_peer_prior_share",
        "Share of its capacity that is assumed, not learnt, 0 to 1.",
    ),
    ("restarts", "steelyard_peer_relearnt", "Number of changes after which its capacity was learnt again."),
    ("waiting", "steelyard_peer_waiting", "Requests in flight that wait at it."),
    ("open", "steelyard_peer_open", "Requests and connections in flight that are merely open at it."),
    ("backlog", "steelyard_peer_backlog_factor", "Weight factor for its waiting requests; 1: none wait."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A service at one moment: its dict of upstreams may change while a thread reads."""

    views: Mapping[str, Cycle]
    role: str = "leader"
    term: int | None = None
    degraded: tuple[str, ...] = ()
    discovery: Discovery | None = None


def render(
    source: Source,
    *,
    now_s: float,
    most_servers: int = MOST_SERVERS,
    instruments: Instruments | None = None,
) -> bytes:
    """Return the exposition text; ages are up to `now_s`, on the clock of the ticks.

    `instruments` are the controller's own figures. With more than `most_servers` servers in all, there are no
    per-server series.
    """
    is_few = sum(cycle.size for cycle in source.views.values()) <= most_servers
    parts = [
        _service(source, is_few),
        () if instruments is None else instruments.collect(),
        () if source.discovery is None else _kubernetes(source.discovery, now_s),
        _upstreams(source, now_s),
        _senders(source, is_few),
        _peers(source, now_s) if is_few else (),
    ]
    return generate_latest(_Metrics(chain.from_iterable(parts)))


class MetricsPage:
    """The page `/metrics` and its time: made in a thread, at most once a tick, however many clients ask.

    A line takes 19 us: those of 10,000 servers would keep the ticks, the lease and the API waiting for 1.7 s.
    """

    def __init__(
        self,
        service: Service,
        *,
        most_servers: int = MOST_SERVERS,
        render: Callable[..., bytes] = render,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._most_servers = most_servers
        self._render = render
        self._clock = clock
        self._making = asyncio.Lock()
        self._made: tuple[float, bytes] | None = None

    async def text(self) -> bytes:
        """Return the metrics of this tick or the previous one."""
        async with self._making:
            now_s, service = self._clock(), self._service
            if self._made is None or now_s - self._made[0] >= service.tick_s:
                seen = Source(
                    role=service.role,
                    term=service.term,
                    degraded=service.degraded,
                    views=dict(service.views),
                    discovery=service.discovery,
                )
                measured = service.instruments
                measured.lease_left_s = service.lease_left_s
                measured.event_readers = service.listeners.readers
                measured.events_missed = service.listeners.missed
                text = await asyncio.to_thread(
                    self._render, seen, now_s=now_s, most_servers=self._most_servers, instruments=measured
                )
                self._made = now_s, text
            return self._made[1]


class _Metrics(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _service(source: Source, has_servers: bool) -> Iterator[Metric]:
    role = GaugeMetricFamily("steelyard_role", "1 for this controller's present role.", labels=["role"])
    for name in ROLES:
        role.add_metric([name], source.role == name)
    yield role
    yield GaugeMetricFamily("steelyard_leader", "Whether it leads.", source.role == "leader")
    yield GaugeMetricFamily("steelyard_term", "Its term; 0: it does not lead.", source.term or 0)
    yield GaugeMetricFamily("steelyard_controller_degraded", "Number of its faults.", len(source.degraded))
    yield GaugeMetricFamily(
        "steelyard_server_series",
        "Whether there are per-server series (--metrics-servers).",
        has_servers,
    )


def _kubernetes(discovery: Discovery, now_s: float) -> Iterator[Metric]:
    by = ["resource", "namespace"]
    age = _gauge("steelyard_kubernetes_word_age_seconds", "Time since the API server's last message.", by)
    known = _gauge("steelyard_kubernetes_objects", "Services and EndpointSlices that count.", by)
    faults = _gauge("steelyard_kubernetes_fault", "Whether requests to the API server fail.", by)
    lists = CounterMetricFamily("steelyard_kubernetes_lists", "Whole lists taken.", labels=by)
    for watch in discovery.watches:
        labels = [watch.kind.plural, watch.namespace or ""]
        if watch.last_answer_s is not None:
            age.add_metric(labels, now_s - watch.last_answer_s)
        if watch.objects is not None:
            known.add_metric(labels, len(watch.objects))
        faults.add_metric(labels, watch.fault is not None)
        lists.add_metric(labels, watch.lists)
    yield from (age, known, faults, lists)


def _upstreams(source: Source, now_s: float) -> Iterator[Metric]:
    gauges: list[Metric] = []

    def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
        gauges.append(made := _gauge(name, text, [*by, *labels]))
        return made

    by = ["upstream"]
    tick_age = gauge("steelyard_tick_age_seconds", "Since the last tick, or since it is known.")
    generation = gauge("steelyard_generation", "Of the weight table.")
    term = gauge("steelyard_table_term", "Term of the weight table.")
    revision = gauge("steelyard_revision", "Of what is declared.")
    peers = gauge("steelyard_peers", "Servers by declared state.", "state")
    alert = gauge("steelyard_alert", "Whether the law is in its high-load mode.")
    entropy = gauge("steelyard_entropy_weight", "Entropy weight of an indicator; they sum to 1.", "indicator")
    degraded = gauge("steelyard_degraded", "Number of the upstream's own faults.")
    lb_age = gauge("steelyard_report_age_seconds", "Since the last traffic report.", "lb")
    rung = gauge("steelyard_rung", "1 for a load balancer's present rung.", "lb", "rung")
    clamped = gauge("steelyard_clamped_peers", "Servers at a bound of the law.", "bound")
    room = [(field, gauge(metric, text)) for field, metric, text in HEADROOM]
    zones = [(field, gauge(metric, text, "zone")) for field, metric, text in ZONES]
    overruns = CounterMetricFamily("steelyard_tick_overruns", "Ticks skipped.", labels=by)
    failures = CounterMetricFamily("steelyard_tick_failures", "Ticks that a fault ended.", labels=by)
    refused = CounterMetricFamily("steelyard_refused", "Values refused.", labels=[*by, "reason"])
    cpu = HistogramMetricFamily("steelyard_tick_cpu_seconds", "CPU time of a tick.", labels=by)
    for name, cycle in source.views.items():
        overruns.add_metric([name], cycle.overruns)
        failures.add_metric([name], cycle.failures)
        revision.add_metric([name], cycle.declaration.revision)
        cpu.add_metric([name], cycle.cpu_time.buckets(), cycle.cpu_time.sum_s)
        outcome = cycle.outcome
        # Prometheus sees no growth in a series's first value: it has to be there before the first refusal.
        for reason in REASONS:
            refused.add_metric([name, reason], outcome.inbox.refused.get(reason, 0) if outcome else 0)
        if outcome is None:
            # An alert fires for an upstream without a tick, too.
            tick_age.add_metric([name], now_s - cycle.added_s)
            continue
        tick_age.add_metric([name], now_s - outcome.now_s)
        headroom = headroom_of(outcome)
        generation.add_metric([name], outcome.table.generation)
        term.add_metric([name], outcome.table.term)
        alert.add_metric([name], outcome.decision.alert)
        for field, family in room:
            figure = getattr(headroom, field)
            if figure is not None:
                family.add_metric([name], figure)
        for zone, figures in zone_traffic(outcome).items():
            for field, family in zones:
                family.add_metric([name, zone], figures[field])
        degraded.add_metric([name], len(outcome.degraded))
        decision = outcome.decision
        for indicator, weight in zip(decision.indicators, decision.entropy_weights, strict=True):
            entropy.add_metric([name, indicator], float(weight))
        for column in decision.columns:
            if column.startswith("clamp_"):
                hits = decision.columns[column].tolist().count(1.0)
                clamped.add_metric([name, column.removeprefix("clamp_")], float(hits))
        states = [peer.state for peer in outcome.table.peers]
        for state in ("up", "drain", "down", "backup"):
            peers.add_metric([name, state], states.count(state))
        for lb, received in outcome.inbox.reports.items():
            lb_age.add_metric([name, lb], now_s - received.arrived_s)
            if received.message.rung is not None:
                rung.add_metric([name, lb, received.message.rung], 1)
    yield from (*gauges, overruns, failures, refused, cpu)


def _senders(source: Source, has_servers: bool) -> Iterator[Metric]:
    """Yield whether each expected sender is heard, also a sender never heard, so that an alert has a 0.

    While no Memcached answers, that is unknown: an alert for each sender would be about the wrong part.
    """
    by = ["upstream", "lb"]
    lbs = _gauge("steelyard_lb_reporting", "Whether its traffic reports arrive.", by)
    higher = _gauge("steelyard_lb_higher_term", "Whether it refuses tables because it has a higher term.", by)
    peers = _gauge("steelyard_peer_measured", "Whether its utilization arrives.", ["upstream", "peer"])
    missing = _gauge("steelyard_peers_unmeasured", "Servers without a utilization.", ["upstream"])
    for name, cycle in source.views.items() if source.role == "leader" else ():
        outcome = cycle.outcome
        report, come = (set(), set()) if outcome is None else (reporting(outcome), measured(outcome))
        if outcome is not None and outcome.read_since_s is None:
            continue
        for lb in cycle.load_balancers:
            lbs.add_metric([name, lb], lb in report)
        refusing = {} if outcome is None else ahead(outcome)
        for lb in () if outcome is None else outcome.load_balancers:
            higher.add_metric([name, lb], lb in refusing)
        declared = [peer.id for peer in cycle.declaration.upstream.peers]
        missing.add_metric([name], len(set(declared) - come))
        for peer in declared if has_servers else ():
            peers.add_metric([name, peer], peer in come)
    yield from (lbs, higher, peers, missing)


def _peers(source: Source, now_s: float) -> Iterator[Metric]:
    by = ["upstream", "peer"]
    weight = _gauge("steelyard_peer_weight", "Effective weight.", by)
    baseline = _gauge("steelyard_peer_baseline_weight", "Weight at rest.", by)
    share = _gauge("steelyard_peer_share", "Share of the requests by weight, 0 to 1.", by)
    score = _gauge("steelyard_peer_score", "Weighted residual, U: 1 is idle.", by)
    used = _gauge("steelyard_peer_utilization", "Utilization in its last sample.", [*by, "indicator"])
    age = _gauge("steelyard_sample_age_seconds", "Since the last new sample.", by)
    learnt = [(column, _gauge(metric, text, by)) for column, metric, text in LEARNT]
    requests = CounterMetricFamily(
        "steelyard_peer_reported_requests",
        "Requests that load balancers reported.",
        labels=[*by, "outcome"],
    )
    latency = SummaryMetricFamily(
        "steelyard_peer_reported_latency_seconds", "Latency that load balancers reported.", labels=by
    )
    in_flight = _gauge(
        "steelyard_peer_reported_in_flight", "Requests in flight that load balancers reported.", by
    )
    for name, cycle in source.views.items():
        if cycle.outcome is None:
            continue
        shown, columns = indicators(cycle.outcome), cycle.outcome.decision.columns
        snapshot, totals = cycle.outcome.snapshot, cycle.requests.by_server()
        for row, (peer, part) in enumerate(
            zip(cycle.outcome.table.peers, shares(cycle.outcome.table), strict=True)
        ):
            labels = [name, peer.id]
            for column, family in learnt:
                if column in columns:
                    _add_known(family, labels, columns[column][row])
            weight.add_metric(labels, peer.weight)
            baseline.add_metric(labels, peer.baseline)
            share.add_metric(labels, part)
            _add_known(score, labels, cycle.outcome.decision.score[row])
            total = totals.get(peer.id, RequestTotal())
            requests.add_metric([*labels, "completed"], total.completed)
            requests.add_metric([*labels, "failed"], total.failed)
            latency.add_metric(labels, int(total.timed), total.latency_s)
            if not math.isnan(snapshot.completed[row]):
                in_flight.add_metric(labels, float(snapshot.in_flight[row]))
            for indicator, value in (utilization(cycle.outcome, peer.id) or {}).items():
                if value is not None and indicator in shown:
                    used.add_metric([*labels, indicator], value)
            arrived_s = cycle.outcome.inbox.samples.arrived_s(peer.id)
            if arrived_s is not None:
                age.add_metric(labels, now_s - arrived_s)
    yield from (weight, baseline, share, score, used, age, requests, latency, in_flight)
    yield from (family for _, family in learnt)


def _add_known(family: GaugeMetricFamily, labels: list[str], figure: float) -> None:
    if figure == figure:
        family.add_metric(labels, float(figure))


def _gauge(name: str, text: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)
