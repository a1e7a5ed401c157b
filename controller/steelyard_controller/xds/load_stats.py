"""Load statistics of Envoy (LRS) as traffic reports.

Pure. Envoy tells by endpoint what it has had since its last message: successful (`completed`) and failed
requests (5xx, reset, no connection; a try that was repeated elsewhere is one), and how many it has open.
Endpoints without any are left out, and stand in the report with 0. Envoy measures no latency here: there is
one where the servers' answers tell it as ORCA's named metric `latency_ms` and the cluster passes that on
(`lrs_report_endpoint_metrics`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard_protocol import peer_address, wire
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.weight_table import WeightTable

INTERVAL_S = 1.0

# What was done half a minute ago is not what is done now: a window after a break is left out.
LONGEST = 2.5

LATENCY = ("named_metrics.latency_ms", "latency_ms")

# A report that says more is refused (traffic_report); also what is no number is left out by it.
MOST_MS = 1e9


class _EndpointTotals:
    """An endpoint's counts, summed over all clusters with an upstream's endpoints."""

    def __init__(self) -> None:
        self.completed = 0
        self.failed = 0
        self.in_flight = 0
        self.timed = 0
        self.spent_ms = 0.0

    def add(self, stats: Any) -> None:  # noqa: ANN401 (protobuf has no types here)
        self.completed += stats.total_successful_requests
        self.failed += stats.total_error_requests
        self.in_flight += stats.total_requests_in_progress
        for metric in stats.load_metric_stats:
            if metric.metric_name in LATENCY and 0 <= metric.total_metric_value <= MOST_MS:
                self.timed += metric.num_requests_finished_with_metric
                self.spent_ms += metric.total_metric_value


class NodeReports:
    """The reports of one stream's Envoy; `boot` tells streams apart, `names` are the upstreams it is of."""

    def __init__(self, lb: str, boot: str) -> None:
        self.lb = lb
        self.names: set[str] = set()
        self._boot = boot
        self._seq = 0

    def reports(
        self, stats: Sequence[Any], tables: Mapping[str, WeightTable], at_ms: int
    ) -> Iterator[TrafficReport]:
        """Yield a report for each upstream that has a table; `at_ms` is the time since 1970."""
        self._seq += 1
        clusters: defaultdict[str, list[Any]] = defaultdict(list)
        for each in stats:
            # By the name that a cluster has its endpoints by.
            clusters[each.cluster_service_name or each.cluster_name].append(each)
        self.names = set(clusters)
        for name in clusters.keys() & tables.keys():
            some = clusters[name]
            interval_s = max(each.load_report_interval.ToMilliseconds() for each in some) / 1000
            if 0 < interval_s <= LONGEST * INTERVAL_S:
                yield self._made(some, tables[name], interval_s, at_ms)

    def _made(
        self, clusters: Sequence[Any], table: WeightTable, interval_s: float, at_ms: int
    ) -> TrafficReport:
        seen: defaultdict[str, _EndpointTotals] = defaultdict(_EndpointTotals)
        for stats in (each for cluster in clusters for each in cluster.upstream_locality_stats):
            for endpoint in stats.upstream_endpoint_stats:
                where = endpoint.address.socket_address
                seen[peer_address.join(where.address, where.port_value)].add(endpoint)
        rows = [seen[peer.address] for peer in table.peers]
        return TrafficReport(
            upstream=table.upstream,
            lb=self.lb,
            boot=self._boot,
            seq=self._seq,
            interval_s=interval_s,
            ids=[peer.id for peer in table.peers],
            completed=[min(row.completed, wire.MAX_INTEGER) for row in rows],
            failed=[min(row.failed, wire.MAX_INTEGER) for row in rows],
            in_flight=[min(row.in_flight, wire.MAX_INTEGER) for row in rows],
            latency_ms=[round(row.spent_ms / row.timed, 3) if row.timed else None for row in rows],
            latency_p50_ms=[None] * len(rows),
            sent_at_ms=at_ms,
        )


def node_name(node_id: str) -> str | None:
    """Return the load balancer's name in a node's id, None where there is none.

    Istio's ids are `sidecar~ADDRESS~POD.NAMESPACE~DOMAIN`, of which the third part is a name.
    """
    parts = node_id.split("~")
    name = parts[2] if len(parts) == 4 else node_id
    return name if wire.is_name(name) else None
