"""Load statistics of Envoy (LRS) as traffic reports.

Pure. Envoy reports by endpoint its successful (`completed`) and failed requests since the last message, and
its open ones. Failures are 5xx, resets and failed connections; a try that was repeated elsewhere is one.
Idle endpoints are left out by Envoy, and have 0 in the report. Envoy measures no latency here. A report has
one if the servers' responses have ORCA's named metric `latency_ms`, and the cluster passes it on
(`lrs_report_endpoint_metrics`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard_protocol import peer_address, wire
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.weight_table import WeightTable

INTERVAL_S = 1.0

# A longer window, such as one after a break, is ignored: it says little about the present.
LONGEST_INTERVALS = 2.5

LATENCY_METRICS = ("named_metrics.latency_ms", "latency_ms")

# A report with a larger latency would be refused (traffic_report). The comparison also leaves out NaN.
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
            if metric.metric_name in LATENCY_METRICS and 0 <= metric.total_metric_value <= MOST_MS:
                self.timed += metric.num_requests_finished_with_metric
                self.spent_ms += metric.total_metric_value


class NodeReports:
    """The reports of one stream's Envoy; `boot` distinguishes streams, `names` are its upstreams."""

    def __init__(self, lb: str, boot: str) -> None:
        self.lb = lb
        self.names: set[str] = set()
        self._boot = boot
        self._seq = 0

    def reports(
        self, stats: Sequence[Any], tables: Mapping[str, WeightTable], at_ms: int
    ) -> Iterator[TrafficReport]:
        """Yield a report for each upstream with a table; `at_ms` is the time since 1970."""
        self._seq += 1
        clusters: defaultdict[str, list[Any]] = defaultdict(list)
        for each in stats:
            # A cluster's endpoints go by its service name, if it has one.
            clusters[each.cluster_service_name or each.cluster_name].append(each)
        self.names = set(clusters)
        for name in clusters.keys() & tables.keys():
            of_upstream = clusters[name]
            interval_s = max(each.load_report_interval.ToMilliseconds() for each in of_upstream) / 1000
            if 0 < interval_s <= LONGEST_INTERVALS * INTERVAL_S:
                yield self._report(of_upstream, tables[name], interval_s, at_ms)

    def _report(
        self, clusters: Sequence[Any], table: WeightTable, interval_s: float, at_ms: int
    ) -> TrafficReport:
        totals = {peer.address: _EndpointTotals() for peer in table.peers}
        respelled: dict[str, str] | None = None
        for stats in (each for cluster in clusters for each in cluster.upstream_locality_stats):
            for endpoint in stats.upstream_endpoint_stats:
                socket = endpoint.address.socket_address
                address = peer_address.join(socket.address, socket.port_value)
                if address not in totals:
                    # No server of ours, or another spelling: the table is of an earlier version's leader.
                    respelled = respelled or {peer_address.canonical_declared(each): each for each in totals}
                    address = respelled.get(_canonical(address), "")
                if address in totals:
                    totals[address].add(endpoint)
        rows = [totals[peer.address] for peer in table.peers]
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


def _canonical(address: str) -> str:
    """Return an endpoint's canonical address; the text itself if it is none, such as a socket's path."""
    try:
        return peer_address.canonical(address)
    except ValueError:
        return address


def node_name(node_id: str) -> str | None:
    """Return the load balancer's name from a node's id; None: the id has none.

    Istio's ids are `sidecar~ADDRESS~POD.NAMESPACE~DOMAIN`; the third part is the name.
    """
    parts = node_id.split("~")
    name = parts[2] if len(parts) == 4 else node_id
    return name if wire.is_name(name) else None
