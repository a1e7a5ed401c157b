"""Active checks of real servers: HTTP/1.1, TLS, gRPC, and servers that never finish."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from openresty.tests.test_health import Behaviour, repeats, says, server_that
from testing.certificates import Authority
from testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

NAME = "shop.example.org"
OK = "HTTP/1.1 200 OK\r\n"
SERVING, NOT_SERVING = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
)
UNAVAILABLE = says("HTTP/1.1 503 Service Unavailable\r\n\r\n")


def edge_that_checks(
    rig: "Rig",
    addresses: list[str],
    check: str,
    *,
    timeout_s: float = 30,
    ca: Path | None = None,
    settings: str = "",
) -> "Edge":
    """Start an nginx that checks these servers, s0, s1, ..., and serve them as generation 1."""
    rig.publish([(f"s{i}", address, 1, "up") for i, address in enumerate(addresses)], generation=1)
    timing = f"interval_s = 0.2, timeout_s = {timeout_s:g}, rise = 1, fall = 1"
    trusted = f"lua_ssl_trusted_certificate {ca};" if ca else ""
    versions = "lua_ssl_protocols TLSv1.2 TLSv1.3;"  # Debian's ngx_lua leaves out 1.3
    edge = rig.edge(
        options=f"upstreams = {{ web = {{ check = {{ {check}, {timing} }}, eject = false, {settings} }} }},",
        servers=f"}} lua_socket_log_errors off; {trusted} {versions}",
    )
    edge.wait_for(1)
    return edge


def wait_failed(rig: "Rig", edge: "Edge", why: str, peer: str = "s0") -> None:
    """Wait until a check has taken the server out for a reason with this beginning."""
    rig.wait_until(lambda: (edge.peer(peer)["health_reason"] or "").startswith(why), f"{peer}: {why}")
    assert edge.peer(peer)["health"] == "check"


class Turning:
    """Unavailable at first, so that a good check differs from no check."""

    def __init__(self, good: Behaviour) -> None:
        self.is_good = threading.Event()
        self.good = good

    def __call__(self, connection: socket.socket, request: bytes) -> None:
        (self.good if self.is_good.is_set() else UNAVAILABLE)(connection, request)


def assert_found_well(rig: "Rig", server: Turning, edge: "Edge", peer: str = "s0") -> None:
    """Assert that a check fails while the server is unavailable, and succeeds afterwards."""
    wait_failed(rig, edge, "answered 503, wants 200-399", peer)
    server.is_good.set()
    rig.wait_until(lambda: edge.peer(peer)["health"] == "ok", f"{peer}: its check succeeds")


def test_a_check_speaks_http_1_1_as_proxies_want_it(rig: "Rig") -> None:
    seen: list[bytes] = []

    def like_envoy(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        (chunked if b" HTTP/1.1\r\n" in request else upgrade)(connection, request)

    chunked = says(f"{OK}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")
    upgrade = says("HTTP/1.1 426 Upgrade Required\r\n\r\n")
    server = Turning(like_envoy)
    with server_that(server) as address:
        edge = edge_that_checks(rig, [address], 'path = "/healthz?deep=1"')
        assert_found_well(rig, server, edge)
    lines = seen[0].decode().split("\r\n")
    assert lines[0] == "GET /healthz?deep=1 HTTP/1.1"
    assert {f"Host: {address}", "Connection: close"} <= set(lines[1:])


@contextlib.contextmanager
def servers_that(behaviours: Iterable[Behaviour]) -> Iterator[list[str]]:
    """Start a server for each behaviour; yield their addresses."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(server_that(behaves)) for behaves in behaviours]


GOOD = {
    "endless chunks": repeats("1\r\nx\r\n", first=f"{OK}Transfer-Encoding: chunked\r\n\r\n"),
    "slow body": repeats("x", 0.02, first=f"{OK}Content-Length: 1000000\r\n\r\n"),
    "slow header": repeats("x", 0.02, first=f"{OK}X-Header: "),
    "nothing more": repeats("", 0.02, first="HTTP/1.1 200\r\n"),
    "interim answer": says(f"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{OK}"),
    "bad length": says(f"{OK}Content-Length: nonsense\r\n\r\n"),
}


def test_a_check_is_judged_by_its_status_line_whatever_follows(rig: "Rig") -> None:
    turning = [Turning(good) for good in GOOD.values()]
    with servers_that(turning) as addresses:
        edge = edge_that_checks(rig, addresses, 'path = "/"')
        for number, server in enumerate(turning):
            assert_found_well(rig, server, edge, f"s{number}")


BAD = {
    "other protocol": (repeats("H", 0.1, first=""), "an answer that is not HTTP"),
    "slow status": (repeats("x", 0.1, first="HTTP/1.1 200 "), "timeout"),
    "silence": (repeats("", 0.1, first=""), "timeout"),
    "interim answers": (
        repeats("HTTP/1.1 100 Continue\r\n\r\n", first=""),
        "more than 8192 bytes of headers",
    ),
    "upgrade": (says("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "answered 101, wants 200-399"),
    "interim only": (says("HTTP/1.1 100 Continue\r\n\r\n"), "closed without an answer"),
}


def test_a_check_without_a_status_fails_at_its_one_deadline_or_before(rig: "Rig") -> None:
    with servers_that(behaves for behaves, _ in BAD.values()) as addresses:
        edge = edge_that_checks(rig, addresses, 'path = "/"', timeout_s=1)
        for number, (_, why) in enumerate(BAD.values()):
            wait_failed(rig, edge, why, f"s{number}")


class Certificates:
    """A CA's file, and servers with a certificate for NAME: "good" (of this CA) or "self-signed"."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder)
        self.ca = self._authority.path
        self.names: set[str | None] = set()

    def server(self, shown: str) -> ssl.SSLContext:
        """Return a server's context with one of them; `names` has the names that clients ask for."""
        context = self._authority.server(NAME, signed=shown == "good")
        context.sni_callback = lambda _socket, asked, _context: self.names.add(asked)
        return context


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.mark.parametrize(
    ("shown", "check", "asked"),
    [
        ("good", f'host = "{NAME}:8443", tls = true', NAME),
        ("good", f'tls = true, tls_server_name = "{NAME}"', NAME),
        ("self-signed", 'host = "other.example.org", tls = true, tls_verify = false', "other.example.org"),
        ("self-signed", "tls = true, tls_verify = false", None),
    ],
    ids=["host's name", "name of its own", "unverified", "unverified without a name"],
)
def test_a_check_over_tls_takes_the_right_certificate(
    rig: "Rig", certificates: Certificates, shown: str, check: str, asked: str | None
) -> None:
    server = Turning(says(f"{OK}\r\n"))
    with server_that(server, certificates.server(shown)) as address:
        edge = edge_that_checks(rig, [address], f'path = "/", {check}', ca=certificates.ca)
        assert_found_well(rig, server, edge)
        assert edge.upstream()["check"]["tls"] is True
    assert certificates.names == {asked}


def test_a_check_asks_by_the_name_of_its_upstream(rig: "Rig", certificates: Certificates) -> None:
    hosts: list[bytes] = []

    def answers(connection: socket.socket, request: bytes) -> None:
        hosts.extend(line for line in request.split(b"\r\n") if line.startswith(b"Host:"))
        connection.sendall(f"{OK}\r\n".encode())

    server = Turning(answers)
    with server_that(server, certificates.server("good")) as address:
        edge = edge_that_checks(
            rig, [address], 'path = "/", tls = true', ca=certificates.ca, settings=f'host = "{NAME}"'
        )
        assert_found_well(rig, server, edge)
        assert edge.upstream()["check"]["host"] == NAME
    assert (certificates.names, set(hosts)) == ({NAME}, {f"Host: {NAME}".encode()})


@pytest.mark.parametrize(
    ("shown", "host", "ca", "why", "remedy"),
    [
        ("good", "other.example.org", True, "TLS: certificate host mismatch", "set tls_server_name"),
        ("good", f"below.{NAME}", True, "TLS: certificate host mismatch", "set tls_server_name"),
        ("self-signed", NAME, True, "TLS: 18: ", "set lua_ssl_trusted_certificate"),
        ("good", NAME, False, "TLS: 20: ", "set lua_ssl_trusted_certificate"),
    ],
    ids=["wrong name", "name below", "self-signed", "no CA"],
)
def test_a_check_over_tls_refuses_another_certificate_and_says_the_remedy_once(
    rig: "Rig", certificates: Certificates, shown: str, host: str, ca: bool, why: str, remedy: str
) -> None:
    asked: list[bytes] = []
    tls = certificates.server(shown)

    def behave(_: socket.socket, request: bytes) -> None:
        asked.append(request)

    with server_that(behave, tls) as one, server_that(behave, tls) as other:
        edge = edge_that_checks(
            rig, [one, other], f'path = "/", host = "{host}", tls = true', ca=certificates.ca if ca else None
        )
        wait_failed(rig, edge, why, "s0")
        wait_failed(rig, edge, why, "s1")
        assert edge.logged(remedy) == 1
        # ngx_lua may call the first handshake "closed"; the next check has the reason.
        assert edge.logged("falls: ") == 2
    assert not any(asked)  # a wrong server gets no request


def test_a_check_over_tls_finds_a_server_without_it(rig: "Rig") -> None:
    with server_that(says(f"{OK}\r\n")) as address:
        edge = edge_that_checks(rig, [address], 'path = "/", tls = true, tls_verify = false')
        wait_failed(rig, edge, "TLS: handshake failed")
        assert edge.logged("set lua_ssl_protocols") == 1


def test_a_check_over_tls_may_be_of_a_server_of_tls_1_3_alone(rig: "Rig", certificates: Certificates) -> None:
    tls = certificates.server("good")
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    server = Turning(says(f"{OK}\r\n"))
    with server_that(server, tls) as address:
        check = f'path = "/", host = "{NAME}", tls = true'
        assert_found_well(rig, server, edge_that_checks(rig, [address], check, ca=certificates.ca))


def test_a_check_over_tls_has_one_deadline_for_handshake_and_answer(
    rig: "Rig", certificates: Certificates
) -> None:
    record = "\x16\x03\x03\x3f\x00\x02"  # the beginning of a handshake's record of 16 kB, without the rest
    with (
        server_that(repeats("\x00", 0.1, first=record)) as handshake,
        server_that(repeats("x", 0.1, first="HTTP/1.1 200 "), certificates.server("good")) as answer,
    ):
        check = f'path = "/", host = "{NAME}", tls = true'
        edge = edge_that_checks(rig, [handshake, answer], check, timeout_s=1, ca=certificates.ca)
        wait_failed(rig, edge, "TLS: timeout", "s0")
        wait_failed(rig, edge, "timeout", "s1")


@pytest.fixture
def grpc_server() -> Iterator[tuple[str, health.HealthServicer]]:
    """Start a gRPC server with the health service; return its address and the states of its services."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    servicer = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", servicer
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("service", ["", "shop.v1.Orders"])
def test_a_check_of_grpc_goes_by_the_status_of_the_service(
    rig: "Rig", grpc_server: tuple[str, health.HealthServicer], service: str
) -> None:
    address, servicer = grpc_server
    servicer.set("another", SERVING)
    servicer.set(service, NOT_SERVING)
    edge = edge_that_checks(rig, [address], f'grpc_service = "{service}"')
    wait_failed(rig, edge, "answered NOT_SERVING, wants SERVING")
    servicer.set(service, SERVING)
    rig.wait_until(lambda: edge.peer("s0")["health"] == "ok", "its check succeeds")
    assert edge.upstream()["check"]["grpc_service"] == service


def test_a_check_of_grpc_finds_what_serves_no_health(rig: "Rig") -> None:
    bare = grpc.server(futures.ThreadPoolExecutor(1))
    port = bare.add_insecure_port("127.0.0.1:0")
    bare.start()
    try:
        with (
            server_that(says("HTTP/1.1 400 Bad Request\r\n\r\n")) as http,
            server_that(repeats("\0", 0.1, first="\0\0\0\4\0\0\0\0\0")) as slow,
        ):
            edge = edge_that_checks(rig, [f"127.0.0.1:{port}", http, slow], 'grpc_service = ""', timeout_s=1)
            wait_failed(rig, edge, "a call that failed: the server has no grpc.health.v1.Health", "s0")
            wait_failed(rig, edge, "an answer that is not HTTP/2", "s1")
            wait_failed(rig, edge, "timeout", "s2")
    finally:
        bare.stop(None).wait()


def test_a_check_may_only_connect(rig: "Rig") -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        edge = edge_that_checks(rig, [address, rig.dead_address()], "tcp = true")
        wait_failed(rig, edge, "connection refused", "s1")
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(100) == b""  # it hangs up without a request
        assert edge.peer("s0")["health"] == "ok"
        assert edge.upstream()["check"]["tcp"] is True
    wait_failed(rig, edge, "connection refused")


def test_a_check_that_only_connects_may_do_so_over_tls(rig: "Rig", certificates: Certificates) -> None:
    plain = says(f"{OK}\r\n")
    with server_that(plain, certificates.server("good")) as over_tls, server_that(plain) as not_tls:
        check = f'tcp = true, tls = true, tls_server_name = "{NAME}"'
        edge = edge_that_checks(rig, [over_tls, not_tls], check, ca=certificates.ca)
        wait_failed(rig, edge, "TLS: handshake failed", "s1")
        assert edge.peer("s0")["health"] == "ok"
