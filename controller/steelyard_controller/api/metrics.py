"""The controller's Prometheus metrics, made anew from the outcomes at each scrape."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from steelyard_controller.outcome import Outcome

MEDIA_TYPE = CONTENT_TYPE_LATEST


class Source(Protocol):
    """What is measured."""

    name: str
    outcome: Outcome | None
    overruns: int


def render(cycles: Mapping[str, Source]) -> bytes:
    """Return the exposition text."""
    registry = CollectorRegistry()
    registry.register(_Outcomes(cycles))
    return generate_latest(registry)


class _Outcomes(Collector):
    def __init__(self, cycles: Mapping[str, Source]) -> None:
        self._cycles = cycles

    def collect(self) -> Iterator[Metric]:
        by_peer = ["upstream", "peer"]
        weight = GaugeMetricFamily("steelyard_peer_weight", "Effective weight.", labels=by_peer)
        baseline = GaugeMetricFamily("steelyard_peer_baseline_weight", "Weight at rest.", labels=by_peer)
        age = GaugeMetricFamily("steelyard_sample_age_seconds", "Since the last new sample.", labels=by_peer)
        generation = GaugeMetricFamily("steelyard_generation", "Of the weight table.", labels=["upstream"])
        term = GaugeMetricFamily("steelyard_term", "Of the weight table.", labels=["upstream"])
        degraded = GaugeMetricFamily("steelyard_degraded", "Parts that do not work.", labels=["upstream"])
        overruns = CounterMetricFamily("steelyard_tick_overruns", "Ticks skipped.", labels=["upstream"])
        refused = CounterMetricFamily("steelyard_refused", "Values refused.", labels=["upstream", "reason"])
        for name, cycle in self._cycles.items():
            overruns.add_metric([name], cycle.overruns)
            outcome = cycle.outcome
            if outcome is None:
                continue
            generation.add_metric([name], outcome.table.generation)
            term.add_metric([name], outcome.table.term)
            degraded.add_metric([name], len(outcome.degraded))
            for reason, count in outcome.intake.refused.items():
                refused.add_metric([name, reason], count)
            for peer in outcome.table.peers:
                weight.add_metric([name, peer.id], peer.weight)
                baseline.add_metric([name, peer.id], peer.baseline)
                held = outcome.intake.samples.get(peer.id)
                if held is not None:
                    age.add_metric([name, peer.id], outcome.now_s - held.arrived_s)
        yield from (weight, baseline, age, generation, term, degraded, overruns, refused)
