"""Writes Envoy's traffic reports into Memcached, as a load balancer does, for any leader. I/O only.

One thread writes the reports since its last write, and nothing waits for it. The newest one of a key counts.
"""

import asyncio
from collections import defaultdict

from steelyard_protocol import (
    announced,
    balancer_runs,
    memcached_writer,
    setting_values,
    signature,
    traffic_report,
    wire,
)
from steelyard_protocol.balancer_runs import Run
from steelyard_protocol.memcached_client import MemcachedClient
from steelyard_protocol.memcached_writer import MemcachedServer, MemcachedWriter
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.weight_table import WeightTable

from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.xds.load_stats import INTERVAL_S

# Ten of the controller's ticks. The controller judges freshness itself; the key need only live longer.
TTL_S = 10


class ReportWriter:
    """Writes to these servers (host:port, separated by commas); `keys` sign."""

    def __init__(self, servers: str, keys: Keyring) -> None:
        addresses = setting_values.servers(servers)
        put_s = memcached_writer.put_s(INTERVAL_S, len(addresses))
        self._writer = MemcachedWriter(
            [MemcachedServer(MemcachedClient(each, timeout_s=put_s), ttl_s=TTL_S) for each in addresses],
            what="traffic reports of Envoy",
        )
        self._keys = keys
        self._values: dict[str, bytes] = {}
        self._lines: dict[str, None] = {}
        self._runs: defaultdict[str, set[Run]] = defaultdict(set)
        self._waiting = asyncio.Event()

    def put(self, report: TrafficReport, table: WeightTable) -> None:
        """Queue a report for writing; announce its load balancer if the table does not name it."""
        text = traffic_report.encode(report)
        key = self._keys.of_reports(report.lb)
        value = text if key is None else signature.sign(key, text)
        self._values[wire.traffic_key(report.upstream, report.lb)] = value
        self.note_run(balancer_runs.run_of(report))
        if report.lb not in table.reporters:
            self._lines[announced.lines([report.upstream], report.lb).decode()] = None
        self._waiting.set()

    def note_run(self, run: Run) -> None:
        """Queue a run's line, also of an Envoy whose reports are not written."""
        self._runs[run.boot].add(run)
        self._waiting.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            values, self._values = self._values, {}
            lines, self._lines = list(self._lines)[: announced.AT_ONCE], {}
            runs, self._runs = self._runs.values(), defaultdict(set)
            run_lines = b"".join(map(balancer_runs.lines, runs))
            await asyncio.to_thread(self._write, values, "".join(lines).encode(), run_lines)

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()

    def _write(self, values: dict[str, bytes], lines: bytes, runs: bytes) -> None:
        if values:
            self._writer.put_many(values)
        self._writer.append(wire.RUNS_KEY, runs, ttl_s=balancer_runs.TTL_S)
        if lines:
            self._writer.append(wire.ANNOUNCED_KEY, lines, ttl_s=announced.TTL_S)
