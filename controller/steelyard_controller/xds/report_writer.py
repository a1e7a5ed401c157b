"""Writes Envoy's traffic reports into Memcached, as a load balancer does, for any leader. I/O only.

One thread writes the reports since its last write, and nothing waits for it. The newest one of a key counts.
"""

import asyncio

from steelyard_protocol import announced, memcached_writer, setting_values, signature, traffic_report, wire
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
        self._waiting = asyncio.Event()

    def put(self, report: TrafficReport, table: WeightTable) -> None:
        """Queue a report for writing; announce its load balancer if the table does not name it."""
        text = traffic_report.encode(report)
        key = self._keys.of_reports(report.lb)
        value = text if key is None else signature.sign(key, text)
        self._values[wire.traffic_key(report.upstream, report.lb)] = value
        if report.lb not in table.reporters:
            self._lines[announced.lines([report.upstream], report.lb).decode()] = None
        self._waiting.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            values, self._values = self._values, {}
            lines, self._lines = list(self._lines)[: announced.AT_ONCE], {}
            await asyncio.to_thread(self._write, values, "".join(lines).encode())

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()

    def _write(self, values: dict[str, bytes], lines: bytes) -> None:
        self._writer.put_many(values)
        if lines:
            self._writer.append(wire.ANNOUNCED_KEY, lines, ttl_s=announced.TTL_S)
