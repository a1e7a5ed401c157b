"""What is done to nginx: workers killed, stopped, ended; reloads, HAProxy's too; a full disk; no log().

A second nginx that dies, or loses Memcached, with requests open: both tell what is in flight. And an Envoy
that refuses what it is told.
"""

import contextlib
import os
import queue
import shutil
import socket
import time
from collections.abc import Callable
from functools import partial
from signal import SIGCONT, SIGHUP, Signals

import grpc
from google.protobuf.message import Message
from steelyard_controller.xds.xds_messages import EDS_TYPE, DiscoveryRequest, DiscoveryResponse
from steelyard_loadtest.cluster import parts
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.find_programs import find
from steelyard_loadtest.machine.repeating import repeating
from steelyard_protocol import signature, weight_table
from steelyard_protocol.wire import Refused

from steelyard_resilience.chaos.fault import Lasting, action
from steelyard_resilience.chaos.faults.cluster_state import change, leader, nginx_status
from steelyard_resilience.stage import hosts
from steelyard_resilience.stage.daemon import Daemon
from steelyard_resilience.stage.layout import NGINX_LB
from steelyard_resilience.stage.stage import Stage

BETWEEN_RELOADS_S = 0.5
"""Shorter than a reload takes here, so that workers of three configurations live side by side."""

WAIT_MS, OPENED_EACH_S = 2000, 0.001
"""What is open at a reload is answered so late: when all have begun, and well before proxy_read_timeout."""

UNLOGGED, EACH_S = 50, 0.1
"""Requests at a time, and again: in 8 s more than the servers may have in flight (layout.MAX_CONNS)."""

AT_REST = 40
"""Requests in flight of the load alone: one or two, but on a busy machine in bunches."""

ANSWERED_S = 10.0

FOUND_S = 10.0
"""What ends without a word is found when the garbage is collected: at the load's rate within some 5 s."""

PEER = "server-3"
"""Drained and taken back, so that there is a table to be saved; and on its host, which can be cut off from
Memcached alone, runs a second nginx."""

OPEN_MS = 2500
"""What is open at the second one is answered so late: within proxy_read_timeout."""

GHOST_S = 10.0
"""An epoch (core/in_flight_exchange.lua): what was left behind in it is forgotten then."""

CHUNK = 4096

MOST_BYTES = 16 * 1024 * 1024
"""A disk that is larger is not the stage's, but somebody's."""


@action
def signal_worker(signal: str, *, stage: Stage) -> Lasting:
    """Send a signal to one of nginx's workers; one that was stopped goes on at the end."""
    workers = stage.daemon("nginx").children()
    if not workers:
        raise ProgramError("nginx has no workers")
    os.kill(workers[0], Signals[signal])
    yield None
    if signal == "SIGSTOP":
        os.kill(workers[0], SIGCONT)


@action
def reload(part: str, signal: str, times: int = 1, *, stage: Stage) -> Lasting:
    """Tell a load balancer so many times to read its configuration again."""
    for number in range(times):
        time.sleep(BETWEEN_RELOADS_S if number else 0)
        stage.daemon(part).signal(Signals[signal])
    yield None


@action
def reload_under(requests: int, *, stage: Stage) -> Lasting:
    """Reload nginx while so many requests wait for their servers; all must be answered, and counted."""
    before, asked = _uncounted(stage), _opened(stage, requests, WAIT_MS, hosts.EDGE, _in_flight)
    stage.daemon("nginx").signal(SIGHUP)
    lost = _lost_of(asked)

    def check() -> str | None:
        if lost:
            return f"{lost} of {requests} open requests are lost"
        uncounted = _uncounted(stage) - before
        return f"the ends of {uncounted} requests are not counted" if uncounted > AT_REST else None

    yield check


@action
def end_unlogged(*, stage: Stage) -> Lasting:
    """Ask beside the load where nothing says that a request has ended; afterwards none may be in flight."""
    lost: list[int] = []
    before = nginx_status(stage)["unlogged"]

    def ask() -> None:
        lost.append(_lost_of([_begin(stage, hosts.OWN_LOG_PORT, "/", hosts.EDGE) for _ in range(UNLOGGED)]))

    def check() -> str | None:
        if any(lost):
            return f"{sum(lost)} requests of that location are lost"
        found = nginx_status(stage)["unlogged"] > before
        return None if found else "no request is found that ended without log()"

    with repeating(ask, interval_s=EACH_S):
        yield check
    wait_until(
        lambda: "requests are in flight, most of which have ended" if _in_flight(stage) > AT_REST else None,
        within_s=FOUND_S,
    )


def _opened(
    stage: Stage, requests: int, wait_ms: int, host: str, known: Callable[[Stage], int]
) -> list[socket.socket]:
    """Open requests that are answered so late, until the first nginx knows of half of them."""
    asked = []
    for _ in range(requests):
        asked.append(_begin(stage, hosts.WEB_PORT, f"/sleep?ms={wait_ms}", host))
        time.sleep(OPENED_EACH_S)
    wait_until(
        lambda: None if known(stage) >= requests / 2 else "nginx does not know of half of them",
        within_s=wait_ms / 1000,
    )
    return asked


def _begin(stage: Stage, port: int, path: str, host: str) -> socket.socket:
    asked = socket.create_connection((stage.addresses[host], port), ANSWERED_S)
    asked.sendall(f"GET {path} HTTP/1.1\r\nHost: {hosts.UPSTREAM}\r\nConnection: close\r\n\r\n".encode())
    return asked


def _lost_of(asked: list[socket.socket]) -> int:
    """Wait for all the answers; return how many are not as wanted."""
    lost = 0
    for each in asked:
        with each, each.makefile("rb") as stream:
            lost += not stream.read().startswith(b"HTTP/1.1 200 ")
    return lost


def _in_flight(stage: Stage) -> int:
    return sum(peer["in_flight"] for peer in nginx_status(stage)["peers"])


def _uncounted(stage: Stage) -> int:
    """Return how many have been sent to servers, are not in flight, and are counted as nothing else."""
    peers = nginx_status(stage)["peers"]
    return sum(peer["picks"] - peer["completed"] - peer["failed"] - peer["in_flight"] for peer in peers)


@action
def fill_disk(*, stage: Stage) -> Lasting:
    """Fill up the disk of nginx's saved tables, when there is another table to be saved."""
    if shutil.disk_usage(stage.state_dir).total > MOST_BYTES:
        raise ProgramError(f"{stage.state_dir} is no small disk of its own, and is not filled up")
    filler = stage.state_dir / "filler"
    try:
        # That there is no room at last is what it is for.
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"f" * CHUNK)
        change(stage, "PATCH", f"/peers/{PEER}", {"state": "drain"})
        yield partial(_old_one_is_whole, stage)
        change(stage, "PATCH", f"/peers/{PEER}", {"state": "up"})
    finally:
        filler.unlink(missing_ok=True)


def _old_one_is_whole(stage: Stage) -> str | None:
    status = stage.status()
    if status is None or not status["saved_error"]:
        return "nginx does not say that it cannot save: was the disk full?"
    path = stage.state_dir / f"{hosts.UPSTREAM}.weights"
    table = signature.read(stage.key, path.read_bytes(), weight_table.decode)
    return f"the table that was saved before is damaged: {table}" if isinstance(table, Refused) else None


def _second(stage: Stage) -> Daemon:
    """Start another nginx, as the first one is but for its name and files."""
    folder = stage.state_dir.parent
    text = (folder / "nginx.conf").read_text()
    for first, second in (
        (NGINX_LB, hosts.SECOND_LB),
        ("nginx.pid", "2.pid"),
        ("logs/nginx", "logs/nginx-2"),
    ):
        text = text.replace(first, second)
    (folder / "nginx-2.conf").write_text(text.replace(str(stage.state_dir), str(folder)))
    log = folder / "logs" / "nginx-2.log"
    part = parts.nginx(hosts.WEB_PORT, folder, log=log, program=find(None).nginx, config="nginx-2.conf")
    daemon = Daemon(part, stage.addresses[PEER], stage.on(PEER), log)
    daemon.start()
    return daemon


def _of_others(stage: Stage) -> int:
    """Return how many requests others have in flight, as the first one knows it."""
    return sum(peer["others_in_flight"] or 0 for peer in nginx_status(stage)["peers"])


@action
def lose_balancer(requests: int, *, cut: bool, stage: Stage) -> Lasting:
    """Kill the second one with so many requests open, or cut it off from Memcached; they are forgotten."""
    second, lost = _second(stage), 0
    try:
        silent = partial(http_ask.why_not_ok, stage.addresses[PEER], hosts.WEB_PORT, "/steelyard/status")
        wait_until(silent, within_s=GHOST_S)
        asked = _opened(stage, requests, OPEN_MS, PEER, _of_others)
        if cut:
            stage.cut(PEER, hosts.MEMCACHED)
            lost = _lost_of(asked)
        else:
            second.kill()
        wait_until(lambda: f"{left} still count" if (left := _of_others(stage)) else None, within_s=GHOST_S)
        yield lambda: f"{lost} of {requests} requests are lost" if lost else None
    finally:
        second.kill()
        stage.mend(PEER, hosts.MEMCACHED)


STREAM = "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints"

REFUSAL = "of a fault: no such endpoints"


@action
def refuse_endpoints(*, stage: Stage) -> Lasting:
    """Be one more Envoy, which refuses (NACK) whatever endpoints the leader has."""
    leading = leader(stage)
    said: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    said.put(DiscoveryRequest(node={"id": "refusing"}, resource_names=[hosts.UPSTREAM], type_url=EDS_TYPE))
    with grpc.insecure_channel(f"{stage.addresses[leading]}:{hosts.XDS_PORT}") as channel:
        stream = channel.stream_stream(
            STREAM, DiscoveryRequest.SerializeToString, DiscoveryResponse.FromString
        )(iter(said.get, None), wait_for_ready=True)
        nonce = next(stream).nonce
        said.put(DiscoveryRequest(type_url=EDS_TYPE, response_nonce=nonce, error_detail={"message": REFUSAL}))

        def check() -> str | None:
            causes = str((stage.readiness(leading) or {}).get("degraded"))
            return None if REFUSAL in causes else f"{leading} does not say what Envoy refuses: {causes}"

        yield check
        stream.cancel()
        said.put(None)
