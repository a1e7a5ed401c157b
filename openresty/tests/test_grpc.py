"""gRPC through nginx: calls and streams arrive unchanged, and their status shows failing servers."""

import queue
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_examples import started as started
from testing.daemons import free_port
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

# The codes that Envoy's outlier detection counts like 5xx.
SERVERS_FAULT = {2, 4, 12, 13, 14, 15}
CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class Server:
    """A gRPC server that answers with its name; `fails_with` is a code to end every call with.

    A message `end with N` ends its call with code N in the trailers. After `only end with N` nothing precedes
    the code. Messages of a stream are sent back one by one.
    """

    def __init__(self, name: str) -> None:
        self.name, self.fails_with = name, 0
        port = free_port()
        self._server = grpc.server(ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "test.Echo",
                    {
                        "Call": grpc.unary_unary_rpc_method_handler(self._call),
                        "Stream": grpc.stream_stream_rpc_method_handler(self._stream),
                    },
                ),
            )
        )
        assert self._server.add_insecure_port(f"127.0.0.1:{port}") == port
        self._server.start()
        self.address = f"127.0.0.1:{port}"

    def _call(self, message: bytes, context: Any) -> bytes:
        if not message.startswith(b"only"):
            context.send_initial_metadata((("x-backend", self.name),))
        code = int(message.split()[-1]) if b"end with" in message else self.fails_with
        if code:
            context.abort(CODES[code], "as asked")
        return message

    def _stream(self, messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.send_initial_metadata((("x-backend", self.name),))
        yield from messages

    def stop(self) -> None:
        """End it and its open calls."""
        self._server.stop(None).wait()


class Client:
    """Calls through nginx, over one connection."""

    def __init__(self, port: int) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)])
        self.stream = self._channel.stream_stream("/test.Echo/Stream")
        self._call = self._channel.unary_unary("/test.Echo/Call")

    def call(self, message: bytes) -> tuple[int, str, str]:
        """Return the code of a call, its message, and the server."""
        try:
            answer, call = self._call.with_call(message, timeout=PATIENCE_S)
            assert answer == message
        except grpc.RpcError as error:
            call = error
        server = dict(call.initial_metadata() or ()).get("x-backend", "")
        return call.code().value[0], call.details() or "", server

    def close(self) -> None:
        """Hang up."""
        self._channel.close()


class Cluster:
    """The example with gRPC servers behind it."""

    def __init__(self, rig: Rig, start: Callable[..., Edge], settings: str = "") -> None:
        port = free_port()
        version = subprocess.run(["nginx", "-v"], check=True, capture_output=True, text=True).stderr
        numbers = [int(part) for part in version.split("/")[1].split()[0].split(".")[:3]]
        http2 = "; http2 on;" if numbers >= [1, 25, 1] else " http2;"
        self.edge = start(
            "grpc.conf",
            workers=1,
            instead={
                "listen 9090 http2;": f"listen 127.0.0.1:{port}{http2}",
                "grpc = true }": f"grpc = true{settings} }}",
            },
        )
        self.client = Client(port)
        self._rig = rig
        self.servers: list[Server] = []

    def serve(self, *names: str, dead: bool = False) -> list[Server]:
        """Start servers of equal weight, or leave one out, and publish them."""
        self.servers = [Server(name) for name in names]
        rows = [(server.name, server.address, 1, "up") for server in self.servers]
        if dead:
            rows.append(("dead", self._rig.dead_address(), 1, "up"))
        self._rig.publish(rows, generation=1, upstream="rpc")
        self.edge.wait_for(1, upstream="rpc")
        return self.servers

    def peers(self) -> dict[str, Any]:
        """Return the rows of the status page, by id."""
        return {row["id"]: row for row in self.edge.upstream("rpc")["peers"]}

    def stop(self) -> None:
        """Hang up, and stop the servers."""
        self.client.close()
        for server in self.servers:
            server.stop()


@pytest.fixture
def cluster(rig: Rig, started: Callable[..., Edge], request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Cluster(rig, started, getattr(request, "param", ""))
    try:
        yield made
    finally:
        made.stop()


def test_calls_are_spread_and_a_stream_passes_message_by_message(rig: Rig, cluster: Cluster) -> None:
    cluster.serve("x", "y")
    calls = Counter(cluster.client.call(b"message %d" % number) for number in range(20))
    assert calls == {(0, "", "x"): 10, (0, "", "y"): 10}

    sent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    stream = cluster.client.stream(iter(sent.get, None), timeout=PATIENCE_S)
    for number in range(10):
        sent.put(b"message %d" % number)
        assert next(stream) == b"message %d" % number  # before the next message is sent
    assert sum(row["in_flight"] for row in cluster.peers().values()) == 1
    sent.put(None)
    assert list(stream) == []
    assert stream.code() is grpc.StatusCode.OK
    rig.wait_until(
        lambda: sum(row["completed"] for row in cluster.peers().values()) == 21, "all calls are counted"
    )
    assert sum(row["in_flight"] + row["failed"] for row in cluster.peers().values()) == 0


@pytest.mark.parametrize("message", [b"end with %d", b"only end with %d"])
def test_a_call_fails_by_its_status(rig: Rig, cluster: Cluster, message: bytes) -> None:
    cluster.serve("x")
    for code in CODES:
        asked = cluster.client.call(message % code)
        assert asked[0] == code
        assert asked[1] == ("as asked" if code else "")

    def counts() -> tuple[int, int]:
        row = cluster.peers()["x"]
        return row["failed"], row["completed"]

    rig.wait_until(lambda: sum(counts()) == len(CODES), "all calls are counted")
    assert counts() == (len(SERVERS_FAULT), len(CODES) - len(SERVERS_FAULT))


def test_a_server_that_is_unavailable_is_ejected_and_one_that_refuses_is_not(
    rig: Rig, cluster: Cluster
) -> None:
    failing, refusing, _ = cluster.serve("failing", "refusing", "well")
    failing.fails_with, refusing.fails_with = 14, 8  # UNAVAILABLE, RESOURCE_EXHAUSTED

    def ejected() -> bool:
        for _ in range(12):
            cluster.client.call(b"")
        return bool(cluster.peers()["failing"]["health"] == "ejected")

    rig.wait_until(ejected, "the failing one is ejected")
    assert cluster.peers()["refusing"]["health"] == "ok"


def test_a_server_that_nobody_reaches_fails_no_call(rig: Rig, cluster: Cluster) -> None:
    cluster.serve("x", dead=True)
    assert Counter(cluster.client.call(b"message") for _ in range(20)) == {(0, "", "x"): 20}
    rig.wait_until(lambda: cluster.peers()["dead"]["failed"] > 0, "its failures are counted")


def test_where_nobody_answers_the_client_is_told_in_the_words_of_grpc(cluster: Cluster) -> None:
    cluster.serve(dead=True)
    assert cluster.client.call(b"message") == (14, "no server answers", "")


@pytest.mark.parametrize("cluster", [", session_grace_s = 1, session_spread_s = 0"], indirect=True)
def test_a_drained_server_s_stream_is_closed_and_not_the_connection_that_it_shares(
    rig: Rig, cluster: Cluster
) -> None:
    cluster.serve("x", "y")
    queues: dict[str, queue.SimpleQueue[bytes | None]] = {}
    streams: dict[str, Any] = {}
    for _ in range(2):
        sent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        sent.put(b"first")
        stream = cluster.client.stream(iter(sent.get, None), timeout=PATIENCE_S)
        assert next(stream) == b"first"
        server = dict(stream.initial_metadata())["x-backend"]
        queues[server], streams[server] = sent, stream
    assert set(streams) == {"x", "y"}
    rows = [(one.name, one.address, 1, "drain" if one.name == "x" else "up") for one in cluster.servers]
    rig.publish(rows, generation=2, upstream="rpc")
    rig.wait_until(lambda: cluster.peers()["x"]["in_flight"] == 0, "nginx has ended it")
    for number in range(3):  # nginx sends the other stream's end along with these
        queues["y"].put(b"message %d" % number)
        assert next(streams["y"]) == b"message %d" % number
    with pytest.raises(grpc.RpcError):
        next(streams["x"])
    assert streams["x"].code() is not grpc.StatusCode.DEADLINE_EXCEEDED
    queues["x"].put(None)
    queues["y"].put(None)
    assert list(streams["y"]) == []
    assert streams["y"].code() is grpc.StatusCode.OK
    assert cluster.edge.upstream("rpc")["sessions_closed"] >= 1
