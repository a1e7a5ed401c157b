"""The xDS server, with clients other than Envoy."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from pymemcache.client.base import Client
from steelyard_controller import settings
from steelyard_controller.xds.xds_messages import (
    EDS_TYPE,
    DeltaDiscoveryRequest,
    DeltaDiscoveryResponse,
    LoadStatsRequest,
    LoadStatsResponse,
)
from steelyard_protocol import derived_keys, signature, traffic_report, wire
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.traffic_report import TrafficReport

from testing import warm_start
from testing.certificates import Authority
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S, wait_until

from ..processes import LOCAL, Controller, controller, own_token

pytestmark = pytest.mark.integration

EDS = "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints"
LRS = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"
KEY = "k" * 32


class Stream:
    """A stream to the server, for messages in both directions."""

    def __init__(self, channel: grpc.Channel, method: str) -> None:
        self._sent: SimpleQueue[bytes | None] = SimpleQueue()
        self._call = channel.stream_stream(method)(iter(self._sent.get, None), timeout=PATIENCE_S)

    def send(self, message: Any) -> None:
        """Send a message, or bytes."""
        self._sent.put(message if isinstance(message, bytes) else message.SerializeToString())

    def next(self, kind: Any) -> Any:
        """Wait for the next response."""
        return kind.FromString(next(self._call))

    def error(self) -> tuple[grpc.StatusCode, str]:
        """Wait for the end, and return its reason."""
        with pytest.raises(grpc.RpcError) as error:
            next(self._call)
        return error.value.code(), error.value.details()

    def end(self) -> None:
        """End it."""
        self._sent.put(None)


@contextlib.contextmanager
def _running(
    folder: Path, memcached: Daemon, *flags: str, **environment: str
) -> Iterator[tuple[Controller, int]]:
    config, port = folder / "web.yaml", free_port()
    config.write_text("upstreams: {web: {peers: [{id: a, address: '10.0.0.1:80'}]}}")
    more = ["--config", str(config), "--state-url", "memory://", "--memcached", memcached.address]
    with controller(folder, *more, "--xds-port", str(port), *flags, environment=environment) as one:
        one.wait("leader")
        one.wait_decided("/v1/upstreams/web/weights")
        yield one, port


def _subscribed(*names: str, node: str = "edge-1") -> Any:
    request = DeltaDiscoveryRequest(type_url=EDS_TYPE, resource_names_subscribe=names)
    request.node.id = node
    return request


def _stats(completed: int, node: str = "") -> Any:
    request = LoadStatsRequest()
    request.node.id = node
    cluster = request.cluster_stats.add(cluster_name="web")
    cluster.load_report_interval.FromSeconds(1)
    row = cluster.upstream_locality_stats.add().upstream_endpoint_stats.add(
        total_successful_requests=completed
    )
    row.address.socket_address.address, row.address.socket_address.port_value = "10.0.0.1", 80
    return request


def _report(memcached: Daemon, lb: str, key: bytes | None = None) -> TrafficReport | None:
    client = Client(("127.0.0.1", memcached.port))
    try:
        value = client.get(wire.traffic_key("web", lb))
    finally:
        client.close()
    report = None if value is None else signature.read(key, value, traffic_report.decode)
    assert report is None or isinstance(report, TrafficReport), report
    return report


def test_whoever_has_no_certificate_of_the_authority_gets_nothing(memcached: Daemon, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, envoy = authority.file("controller"), authority.file("envoy")
    (tmp_path / "others").mkdir()
    others = Authority(tmp_path / "others")
    stranger, root = others.file("envoy"), authority.path.read_bytes()
    flags = ["--xds-cert-file", str(server), "--xds-cert-key-file", str(server)]
    flags += ["--xds-client-ca-file", str(authority.path), "--xds-host", "0.0.0.0"]  # noqa: S104
    with _running(tmp_path, memcached, *flags) as (_, port):

        def asked(own: Path | None) -> Stream:
            pair = [own.read_bytes()] * 2 if own else [None, None]
            credentials = grpc.ssl_channel_credentials(root, *pair)
            options = [("grpc.ssl_target_name_override", "controller"), ("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.secure_channel(f"127.0.0.1:{port}", credentials, options)
            stack.callback(channel.close)
            stream = Stream(channel, EDS)
            stream.send(_subscribed("web"))
            return stream

        with contextlib.ExitStack() as stack:
            assert asked(envoy).next(DeltaDiscoveryResponse).resources[0].name == "web"
            for other in (None, stranger):
                assert asked(other).error()[0] is grpc.StatusCode.UNAVAILABLE
            # Replaced files count from the next connection on.
            authority.path.write_bytes(others.path.read_bytes())
            assert asked(envoy).error()[0] is grpc.StatusCode.UNAVAILABLE
            assert asked(stranger).next(DeltaDiscoveryResponse).resources[0].name == "web"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--xds-host", "0.0.0.0"],  # noqa: S104
            "--xds-host is 0.0.0.0, which other machines reach: give",
        ),
        (["--xds-cert-file", "a.pem"], "go together: give all three"),
    ],
)
def test_a_port_that_strangers_reach_is_refused_without_certificates(flags: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings.load(["--xds-port", "8084", *flags], {})


def test_bad_requests_are_answered_with_the_remedy_and_disturb_nobody(
    memcached: Daemon, tmp_path: Path
) -> None:
    with _running(tmp_path, memcached) as (one, port), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        good = Stream(channel, EDS)
        good.send(_subscribed("web", "no name!"))
        first = good.next(DeltaDiscoveryResponse)
        assert ([each.name for each in first.resources], first.removed_resources) == (["web"], ["no name!"])

        garbage = Stream(channel, EDS)
        garbage.send(b"\xff\xff\xff")
        assert garbage.error()[0] is grpc.StatusCode.INVALID_ARGUMENT
        nameless = Stream(channel, LRS)
        nameless.send(_stats(1, node="edge 1"))
        code, why = nameless.error()
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "'edge 1' cannot name a load balancer: give each Envoy a --service-node" in why
        assert one.log.read_text().count("cannot name a load balancer") == 1
        for node in ("edge-1", "edge-2"):
            hello = _stats(0, node=node)
            hello.node.user_agent_name = "envoy"
            version = hello.node.user_agent_build_version.version
            version.major_number, version.minor_number = 1, 38
            stream = Stream(channel, LRS)
            stream.send(hello)
            stream.next(LoadStatsResponse)
        assert one.log.read_text().count("version 1.38.0 leaves long requests out") == 1

        headers = {"Content-Type": "application/merge-patch+json", **own_token()}
        url = f"{one.url}/v1/upstreams/web/peers/a"
        good.send(DeltaDiscoveryRequest(response_nonce=first.nonce))
        LOCAL.patch(url, json={"state": "drain"}, headers=headers).raise_for_status()
        assert [each.name for each in good.next(DeltaDiscoveryResponse).resources] == ["web"]


def test_two_envoys_of_one_name_are_a_fault_and_the_later_ones_reports_count(
    memcached: Daemon, tmp_path: Path
) -> None:
    with _running(tmp_path, memcached) as (one, port), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        streams = [Stream(channel, LRS) for _ in range(2)]
        for stream in streams:
            stream.send(_stats(0, node="edge-1"))
            response = stream.next(LoadStatsResponse)
            assert (response.send_all_clusters, response.report_endpoint_granularity) == (True, True)
            assert response.load_reporting_interval.seconds == 1

        def degraded() -> str:
            return str(LOCAL.get(f"{one.url}/readyz").json()["degraded"])

        def written() -> Any:
            # The first message of a name makes its table known.
            streams[1].send(_stats(7))
            streams[0].send(_stats(5))
            return _report(memcached, "edge-1")

        assert wait_until(written).completed == [7]
        wait_until(lambda: written() and "two programs report as edge-1" in degraded(), degraded)
        streams[1].end()

        def earlier() -> bool:
            streams[0].send(_stats(5))
            report = _report(memcached, "edge-1")
            return report is not None and report.completed == [5]

        wait_until(earlier)


def test_reports_are_signed_with_the_load_balancers_own_key(memcached: Daemon, tmp_path: Path) -> None:
    flags = ["--derived-keys", "require"]
    with (
        _running(tmp_path, memcached, *flags, STEELYARD_KEY=KEY) as (_, port),
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stream = Stream(channel, LRS)
        stream.send(_stats(0, node="edge-2"))
        stream.next(LoadStatsResponse)

        def written() -> Any:
            stream.send(_stats(7))
            return _report(memcached, "edge-2", derived_keys.derive(KEY.encode(), derived_keys.lb("edge-2")))

        assert wait_until(written).completed == [7]
        stream.end()


def _ended(*flags: str, before: str = "") -> tuple[int, str]:
    """Run a controller that cannot start; return its status and error."""
    command = [sys.executable, "-m", "steelyard_controller", "--state-url", "memory://"]
    done = warm_start.run([*command, "--api-port", str(free_port()), *flags], before=before)
    return done.returncode, done.stderr


def test_a_port_that_is_taken_ends_the_controller_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, said = _ended("--xds-port", str(taken.getsockname()[1]))
    assert status == 1
    assert "choose another --xds-port" in said


def test_without_grpc_or_with_files_that_are_not_there_one_line_says_what_to_do(tmp_path: Path) -> None:
    status, said = _ended("--xds-port", "8084", before="sys.modules['grpc'] = None")
    assert status == 2
    assert said.startswith(
        "steelyard-controller: --xds-port requires gRPC: pip install 'steelyard-controller[xds]'"
    )
    files = ("--xds-cert-file", "--xds-cert-key-file", "--xds-client-ca-file")
    away = [each for flag in files for each in (flag, str(tmp_path / "away.pem"))]
    assert _ended("--xds-port", "8084", *away) == (
        2,
        f"steelyard-controller: xds: {tmp_path / 'away.pem'} cannot be read: No such file or directory\n",
    )
