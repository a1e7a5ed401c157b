"""ORCA out-of-band: gRPC's OpenRcaService, which streams the newest load report to each client. I/O only.

A load report is sent at once and then at the client's interval (`report_interval`), but at
most once a sample; without an interval, once a sample. Without a
sample a stream ends with UNAVAILABLE, and clients come back after a pause.
(gRFC A51; xds.service.orca.v3 of github.com/cncf/xds.)

One thread with an event loop has all streams, at most MOST_STREAMS at a time; a further one is
refused with RESOURCE_EXHAUSTED. A client that does not read its reports is dropped
when gRPC's window is full and a report waits for WRITE_S. A client on a lost machine is dropped
when it answers no ping. Like the HTTP server, it has no secrets, accepts no changes,
and speaks without TLS: it is for loopback and trusted networks.
"""

import asyncio
import contextlib
import logging
import threading
import time

import grpc.aio
from google.protobuf.message import Message
from steelyard_protocol import listening
from steelyard_protocol.setting_values import Address

from steelyard_agent.outputs import metrics, orca_messages, orca_report
from steelyard_agent.outputs.metrics import Status

log = logging.getLogger(__name__)

MOST_STREAMS = 64
WRITE_S = 5.0
CLOSE_S = 2.0

OPTIONS = (
    ("grpc.so_reuseport", 0),  # a port in use is an error
    ("grpc.max_receive_message_length", 4096),
    ("grpc.max_concurrent_streams", MOST_STREAMS),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_connection_idle_ms", 60_000),
    ("grpc.server_handshake_timeout_ms", 5_000),
)


class OrcaGrpcServer:
    """Serves streams until it is closed; raises OSError if it cannot listen."""

    def __init__(self, address: Address, interval_s: float) -> None:
        self.address = address
        self.interval_s = interval_s
        self.port = 0
        self._status: Status | None = None
        self._started = threading.Event()
        self._error: str | None = None
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="orca-grpc", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join(CLOSE_S)
            raise OSError(self._error)

    def show(self, status: Status) -> None:
        """Send this from now on."""
        self._status = status

    def close(self) -> None:
        """End every stream and stop listening."""
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(CLOSE_S + 1)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            # The agent must outlive a mistake of ours here.
            if not self._started.is_set():
                self._error = f"{type(error).__name__}: {error}"
            else:
                log.exception("ORCA over gRPC has ended; sampling goes on")
        finally:
            self._loop.close()
            self._started.set()

    async def _serve(self) -> None:
        server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=MOST_STREAMS)
        stream = grpc.unary_stream_rpc_method_handler(
            self._stream,
            response_serializer=orca_messages.OrcaLoadReport.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(orca_messages.SERVICE, {orca_messages.METHOD: stream}),)
        )
        try:
            self.port = server.add_insecure_port(listening.grpc_target(*self.address))
            await server.start()
        except RuntimeError as error:
            self._error = str(error)
            await server.stop(None)
            return
        self._started.set()
        await self._end.wait()
        await server.stop(0)
        # grpcio leaves the tasks of cancelled streams behind.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CLOSE_S)

    async def _stream(self, request: bytes, context: grpc.aio.ServicerContext) -> None:
        try:
            period_s = orca_messages.period_s(request, self.interval_s)
        except ValueError as error:  # grpcio would log a traceback for each
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        while True:
            message = self._message()
            if message is None:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "There is no sample now.")
            try:
                # Not wait_for: before Python 3.12 it loses a cancellation that comes as the write ends.
                async with asyncio.timeout(WRITE_S):
                    await context.write(message)
            except TimeoutError:
                context.cancel()
                return
            await asyncio.sleep(period_s)

    def _message(self) -> Message | None:
        shown = self._status
        record = metrics.fresh(shown, time.monotonic())
        if shown is None or record is None:
            return None
        report = orca_report.joined(record, shown.application)
        return orca_messages.load_report(report, orca_report.utilizations(record)) if report else None
