"""ORCA out-of-band, asked by grpcio's own client."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from steelyard_agent import settings
from steelyard_agent.outputs import orca_grpc_server, orca_messages
from steelyard_agent.outputs.metrics import Status
from steelyard_agent.outputs.orca_grpc_server import OrcaGrpcServer
from steelyard_agent.running_agent import RunningAgent
from steelyard_agent.wiring import LoadedSettings
from steelyard_protocol.sample_record import SampleRecord

from testing.daemons import free_port
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

RECORD = SampleRecord(
    upstream="web",
    peer="server-1",
    boot="b1",
    seq=7,
    taken_at_ms=0,
    interval_s=1.0,
    utilization=(0.42, 0.02, None, 0.31),
    capacity=(2.0, 125e6, None, 2147483648.0),
    scope="cgroup",
    further=(("workers", 1.5), ("queue", None)),
)
STATUS = Status(
    at_s=0.0,
    stale_s=1e12,
    record=RECORD,
    delivered=1,
    dropped=0,
    reachable={},
    application={"rps_fractional": 118.5, "eps": 0.5, "application_utilization": 0.7},
)
PATH = f"/{orca_messages.SERVICE}/{orca_messages.METHOD}"


@pytest.fixture
def server() -> Iterator[OrcaGrpcServer]:
    made = OrcaGrpcServer(("127.0.0.1", 0), interval_s=0.1)
    yield made
    made.close()


@contextmanager
def stream(server: OrcaGrpcServer) -> Iterator[Any]:
    """Ask for reports; cancel the call at the end."""
    request = orca_messages.OrcaLoadReportRequest()
    address, options = f"127.0.0.1:{server.port}", [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(address, options=options) as channel:
        call = channel.unary_stream(
            PATH,
            request_serializer=orca_messages.OrcaLoadReportRequest.SerializeToString,
            response_deserializer=orca_messages.OrcaLoadReport.FromString,
        )(request, timeout=PATIENCE_S, wait_for_ready=True)
        try:
            yield call
        finally:
            call.cancel()


def test_a_stream_that_is_cancelled_as_its_write_ends_is_over(server: OrcaGrpcServer) -> None:
    class Context:
        def __init__(self) -> None:
            self.written = asyncio.get_running_loop().create_future()

        async def write(self, _: object) -> None:
            await self.written

    async def steps() -> None:
        context: Any = Context()
        stream = asyncio.create_task(server._stream(b"", context))
        for _ in range(3):  # it waits in its first write now
            await asyncio.sleep(0)
        context.written.set_result(None)
        stream.cancel()
        done, _ = await asyncio.wait({stream}, timeout=PATIENCE_S)
        assert done
        assert stream.cancelled()

    server.show(STATUS)
    server.interval_s = 1000.0
    asyncio.run(steps())


def test_a_report_has_what_is_measured_and_what_the_application_says(server: OrcaGrpcServer) -> None:
    server.show(STATUS)
    with stream(server) as reports:
        report = next(reports)
    assert (report.cpu_utilization, report.mem_utilization) == (0.42, 0.31)
    assert (report.rps_fractional, report.eps, report.application_utilization) == (118.5, 0.5, 0.7)
    assert dict(report.named_metrics) == {"net": 0.02, "workers": 1.5}
    assert dict(report.utilization) == {"net": 0.02, "workers": 1.0}


def test_reports_go_on_and_are_the_newest(server: OrcaGrpcServer) -> None:
    server.show(STATUS)
    with stream(server) as reports:
        assert next(reports).cpu_utilization == 0.42
        server.show(replace(STATUS, record=RECORD._replace(utilization=(0.9, None, None, None))))
        assert any(report.cpu_utilization == 0.9 for report in reports)


def test_without_a_sample_a_stream_ends_and_is_there_again_with_one(server: OrcaGrpcServer) -> None:
    for shown in (None, replace(STATUS, record=None, application={}), replace(STATUS, stale_s=-1.0)):
        if shown is not None:
            server.show(shown)
        with stream(server) as reports:
            with pytest.raises(grpc.RpcError) as ended:
                next(reports)
            assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    server.show(STATUS)
    with stream(server) as reports:
        next(reports)


def test_one_stream_too_many_is_refused_and_those_that_end_make_room(server: OrcaGrpcServer) -> None:
    server.show(STATUS)
    address = f"127.0.0.1:{server.port}"
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(address, options=options) for _ in range(2)]
    try:
        calls = [
            channels[0].unary_stream(PATH)(b"", timeout=PATIENCE_S)
            for _ in range(orca_grpc_server.MOST_STREAMS)
        ]
        for call in calls:
            next(call)
        with pytest.raises(grpc.RpcError) as refused:
            next(channels[1].unary_stream(PATH)(b"", timeout=PATIENCE_S))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for call in calls:
            call.cancel()
        until_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                next(channels[1].unary_stream(PATH)(b"", timeout=PATIENCE_S))
                break
            except grpc.RpcError:
                assert time.monotonic() < until_s
                time.sleep(0.05)
    finally:
        for channel in channels:
            channel.close()


def test_an_unknown_method_is_unimplemented_and_a_long_request_is_refused(server: OrcaGrpcServer) -> None:
    address = f"127.0.0.1:{server.port}"
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        for path, request, code in (
            ("/other.Service/Method", b"", grpc.StatusCode.UNIMPLEMENTED),
            (PATH, b"\x12\x88\x27" + b"x" * 5000, grpc.StatusCode.RESOURCE_EXHAUSTED),
            (PATH, b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ):
            with pytest.raises(grpc.RpcError) as ended:
                next(channel.unary_stream(path)(request, timeout=PATIENCE_S, wait_for_ready=True))
            assert ended.value.code() is code


def test_closing_ends_streams_and_frees_the_port(server: OrcaGrpcServer) -> None:
    server.show(STATUS)
    made = OrcaGrpcServer(("127.0.0.1", 0), interval_s=60.0)
    made.show(STATUS)
    port = made.port
    with stream(made) as reports:
        next(reports)
        made.close()
        with pytest.raises(grpc.RpcError):
            next(reports)
    OrcaGrpcServer(("127.0.0.1", port), interval_s=1.0).close()


def test_a_port_that_is_taken_is_an_error(server: OrcaGrpcServer) -> None:
    with pytest.raises(OSError, match=str(server.port)):
        OrcaGrpcServer(("127.0.0.1", server.port), interval_s=1.0)


def test_settings_that_are_refused_at_a_reload_leave_no_port_behind(
    server: OrcaGrpcServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)  # A reload sets it for the whole process; caplog takes that back.
    http = f"--orca=127.0.0.1:{free_port()}"
    now: list[str] = []

    def loaded() -> LoadedSettings:
        fixed = ["--upstream=web", "--peer=server-1", "--scope=host", "--memcached=127.0.0.1:9"]
        read = settings.load([*fixed, *now], {}, hostname="server-1", read=Path.read_bytes)
        return LoadedSettings(settings=read, key=None)

    running = RunningAgent(loaded)
    agent = running.start(loaded())
    try:
        now = [http, f"--orca-grpc=127.0.0.1:{server.port}"]
        assert running.reload(agent) is agent
        now = [http]
        assert running.reload(agent) is not agent
    finally:
        running.close()
