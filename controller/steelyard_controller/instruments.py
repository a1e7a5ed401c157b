"""The controller's measurements of itself for `/metrics`: its ticks, its requests and its connections."""

from collections.abc import Iterator

from prometheus_client import Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

# Bounds of histograms, seconds: for a tick of one second, and for waits within it.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

# Other methods share one label, or a client could make any number of series.
LABELLED_METHODS = {"GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"}


class Instruments(Collector):
    """The instruments of one controller; threads may call them, because prometheus_client locks."""

    def __init__(self, version: str = "") -> None:
        self._version = version
        self.lease_left_s: float | None = None
        """Seconds for which the lease is certain; None: it has none."""
        self.event_readers = 0
        self.events_missed = 0
        self.xds_streams = 0
        self.xds_refused = 0
        self._process = ProcessCollector(registry=None)
        self._tick = self._histogram("steelyard_tick_seconds", "Wall time of a tick of all upstreams.")
        self._late = self._histogram("steelyard_tick_late_seconds", "Delay of a tick's beginning.")
        self._memcached = self._histogram(
            "steelyard_memcached_seconds", "Time of a Memcached's answer to a tick's requests.", "server"
        )
        self.redis = self._histogram("steelyard_redis_seconds", "Time of Redis's answer, or of its lack.")
        self._requests = Counter(
            "steelyard_api_requests", "Requests to the API.", ["method", "status"], registry=None
        )

    def ticked(self, seconds: float, late_s: float) -> None:
        """Count a tick: its wall time, and its delay."""
        self._tick.observe(seconds)
        self._late.observe(max(0.0, late_s))

    def memcached_took(self, server: str, seconds: float) -> None:
        """Count a request to a Memcached server."""
        self._memcached.labels(server).observe(seconds)

    def answered(self, method: str, status: int) -> None:
        """Count a request to the API."""
        self._requests.labels(method if method in LABELLED_METHODS else "other", str(status)).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield InfoMetricFamily(
            "steelyard_build", "The version of this controller.", {"version": self._version}
        )
        for each in (self._tick, self._late, self._memcached, self.redis, self._requests, self._process):
            yield from each.collect()
        lease = GaugeMetricFamily("steelyard_lease_left_seconds", "Time until the lease ends unrenewed.")
        if self.lease_left_s is not None:
            lease.add_metric([], self.lease_left_s)
        yield lease
        yield GaugeMetricFamily("steelyard_event_readers", "Clients that read events.", self.event_readers)
        yield CounterMetricFamily(
            "steelyard_events_missed", "Changes reported to readers as missed.", value=self.events_missed
        )
        yield GaugeMetricFamily("steelyard_xds_streams", "Envoys' streams of endpoints.", self.xds_streams)
        yield CounterMetricFamily(
            "steelyard_xds_refused", "Responses refused by an Envoy (NACK).", value=self.xds_refused
        )

    @staticmethod
    def _histogram(name: str, text: str, *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=BOUNDS_S, registry=None)
