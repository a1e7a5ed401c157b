"""The gRPC server for Envoys: EDS, alone and by ADS, and LRS. I/O around pure parts.

A stream costs no thread, and endpoints are encoded once for all streams. A stream that does not read its
responses is ended after `WRITE_S`, and so is one that answers no ping. Every client is on this machine, or
has a certificate of the configured authority (`tls`).
"""

import asyncio
import logging
import secrets
import time
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio
from steelyard_protocol import balancer_runs

from steelyard_controller.log_once import LogOnce
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.service import Service
from steelyard_controller.xds import envoy_versions
from steelyard_controller.xds.followed_tables import FollowedTables
from steelyard_controller.xds.load_stats import INTERVAL_S, NodeReports, node_name
from steelyard_controller.xds.report_writer import ReportWriter
from steelyard_controller.xds.shared_node_ids import SharedNodeIds
from steelyard_controller.xds.subscriptions import (
    MOST_NAMES,
    BadRequest,
    Delta,
    StateOfTheWorld,
    Subscription,
    parsed,
)
from steelyard_controller.xds.xds_messages import LoadStatsRequest, LoadStatsResponse

log = logging.getLogger("steelyard.controller")

# An Envoy has one stream for LRS, and one for each cluster, or by ADS one for all clusters.
MOST_STREAMS = 4096

WRITE_S = 5.0

# Envoys' reports arrive at this instant, before the controller's tick, as nginx's do.
REPORT_S = 0.03
OFF_PHASE_S = 0.03

OPTIONS = (
    ("grpc.so_reuseport", 0),  # A port in use is an error.
    ("grpc.max_concurrent_streams", MOST_STREAMS),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.max_connection_idle_ms", 60_000),  # A connection without a stream.
    ("grpc.server_handshake_timeout_ms", 5_000),
)

NO_NAME = (
    "node.id {!r} cannot name a load balancer: give each Envoy a --service-node of its own, of at most 64 "
    "letters, digits, dots, dashes and underscores"
)


class XdsServer:
    """The server; `start` it, `run` beside it, `stop` it, within one event loop."""

    def __init__(
        self, service: Service, *, memcached: str, keys: Keyring, credentials: grpc.ServerCredentials | None
    ) -> None:
        self._service = service
        self._subscriptions: set[Subscription] = set()
        self._reporting: dict[str, NodeReports] = {}
        self._faults: dict[Subscription, str] = {}
        self._tables = FollowedTables(service, memcached=memcached, keys=keys, wanted=self._wanted)
        self._writer = ReportWriter(memcached, keys)
        self._node_ids = SharedNodeIds(service, memcached=memcached, own=lambda: self._reporting)
        self._credentials = credentials
        self._log_once = LogOnce()
        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=MOST_STREAMS)
        whole, delta = partial(self._endpoints, StateOfTheWorld), partial(self._endpoints, Delta)
        for service_name, method, handler in (
            ("envoy.service.endpoint.v3.EndpointDiscoveryService", "StreamEndpoints", whole),
            ("envoy.service.endpoint.v3.EndpointDiscoveryService", "DeltaEndpoints", delta),
            ("envoy.service.discovery.v3.AggregatedDiscoveryService", "StreamAggregatedResources", whole),
            ("envoy.service.discovery.v3.AggregatedDiscoveryService", "DeltaAggregatedResources", delta),
            ("envoy.service.load_stats.v3.LoadReportingService", "StreamLoadStats", self._load_stats),
        ):
            methods = {method: grpc.stream_stream_rpc_method_handler(handler)}
            known = grpc.method_handlers_generic_handler(service_name, methods)
            self._server.add_generic_rpc_handlers((known,))

    async def start(self, address: str) -> None:
        """Listen; raise OSError if that is not possible."""
        try:
            if self._credentials is None:
                self._server.add_insecure_port(address)
            else:
                self._server.add_secure_port(address, self._credentials)
            await self._server.start()
        except RuntimeError as error:
            raise OSError(str(error)) from None

    async def run(self) -> None:
        """Follow the tables, write the reports and look for shared node ids until cancelled."""
        await asyncio.gather(self._tables.run(), self._writer.run(), self._node_ids.run())

    async def stop(self) -> None:
        """End every stream and stop listening. Envoy keeps its endpoints."""
        await self._server.stop(None)
        self._writer.close()
        self._tables.close()
        self._node_ids.close()

    def _wanted(self) -> set[str]:
        subscribed = [each.names for each in self._subscriptions]
        return set().union(*subscribed, *(each.names for each in self._reporting.values()))

    async def _endpoints(
        self, kind: type[Subscription], _: object, context: grpc.aio.ServicerContext
    ) -> None:
        subscription, node = kind(), "?"
        self._subscriptions.add(subscription)
        reading = asyncio.ensure_future(context.read())
        try:
            while True:
                # Watch before the answer is made, or news in between would be missed.
                news = asyncio.ensure_future(self._tables.changed.wait())
                answer = subscription.answer(self._tables.assignments, self._tables.absent)
                if answer is not None:
                    # Not wait_for: before Python 3.12 it loses a cancellation that comes as the write ends.
                    async with asyncio.timeout(WRITE_S):
                        await context.write(answer)
                await asyncio.wait({reading, news}, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if not reading.done():
                    continue
                value = reading.result()
                if value is grpc.aio.EOF:
                    return
                refusals = subscription.refusals
                own = subscription.take(value).node
                node = own.id or node
                self._remark(own)
                self._service.instruments.xds_refused += subscription.refusals - refusals
                self._faults.pop(subscription, None)
                if subscription.refused is not None:
                    self._faults[subscription] = f"{node[:64]} refuses endpoints: {subscription.refused}"
                self._note()
                self._tables.refresh_soon()
                reading = asyncio.ensure_future(context.read())
        except BadRequest as error:
            await self._abort(context, node, str(error))
        except TimeoutError:
            context.cancel()
        finally:
            reading.cancel()
            self._subscriptions.discard(subscription)
            self._faults.pop(subscription, None)
            self._note()

    async def _load_stats(self, _: object, context: grpc.aio.ServicerContext) -> None:
        reports: NodeReports | None = None
        try:
            while (value := await context.read()) is not grpc.aio.EOF:
                request = parsed(LoadStatsRequest, value)
                if reports is None:
                    name = node_name(request.node.id)
                    if name is None:
                        raise BadRequest(NO_NAME.format(request.node.id[:70]))
                    self._remark(request.node)
                    reports = self._reporting[name] = NodeReports(name, secrets.token_hex(8))
                    await self._ask(context)
                    continue
                self._take_stats(reports, request.cluster_stats)
                if OFF_PHASE_S < _until_phase_s() < INTERVAL_S - OFF_PHASE_S:
                    # A new request restarts Envoy's interval.
                    await self._ask(context)
        except BadRequest as error:
            await self._abort(context, reports.lb if reports else "?", str(error))
        except TimeoutError:
            context.cancel()
        finally:
            if reports is not None and self._reporting.get(reports.lb) is reports:
                del self._reporting[reports.lb]

    async def _ask(self, context: grpc.aio.ServicerContext) -> None:
        await asyncio.sleep(_until_phase_s())
        response = LoadStatsResponse(send_all_clusters=True, report_endpoint_granularity=True)
        response.load_reporting_interval.FromMilliseconds(round(1000 * INTERVAL_S))
        async with asyncio.timeout(WRITE_S):
            await context.write(response.SerializeToString())

    def _take_stats(self, reports: NodeReports, stats: Any) -> None:  # noqa: ANN401
        tables = self._tables.tables
        # Among Envoys of one name here, the reports of the latest are written. The others' go on once it has
        # gone. Their runs show the fault, wherever their controllers are.
        counts = self._reporting.setdefault(reports.lb, reports) is reports
        for report in reports.reports(stats[:MOST_NAMES], tables, round(time.time() * 1000)):
            if counts:
                self._writer.put(report, tables[report.upstream])
            else:
                self._writer.note_run(balancer_runs.run_of(report))

    def _note(self) -> None:
        lines = [*self._faults.values()]
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        self._service.faults.note("Envoy", f"{lines[0]}{more}" if lines else None)
        self._service.instruments.xds_streams = len(self._subscriptions)

    def _remark(self, node: Any) -> None:  # noqa: ANN401
        remark = envoy_versions.remark(node)
        if remark is not None:
            self._complain(node.id, remark)

    def _complain(self, node: str, why: str) -> None:
        if self._log_once.is_first(why):
            log.warning("Envoy %s: %s", node[:64], why, extra={"event": "xds"})

    async def _abort(self, context: grpc.aio.ServicerContext, node: str, why: str) -> None:
        self._complain(node, why)
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)


def _until_phase_s() -> float:
    """Return the seconds until the instant of the reports, by the wall clock."""
    return (REPORT_S - time.time()) % INTERVAL_S


def tls(certificate: Path, key: Path, client_ca: Path) -> grpc.ServerCredentials:
    """Return credentials that ask for a client's certificate; replaced files are read again."""

    def read() -> grpc.ServerCertificateConfiguration:
        pair = (key.read_bytes(), certificate.read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=client_ca.read_bytes())

    return grpc.dynamic_ssl_server_credentials(read(), read, require_client_authentication=True)
