"""Faults of nginx: killed, stopped or ended workers; reloads, HAProxy's too, and with a shared dict of
another size; a full disk; no log().

A second nginx dies, or loses Memcached, with requests in flight, which both report. An Envoy refuses its
endpoints.
"""

import contextlib
import os
import queue
import re
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
"""Shorter than a reload takes here, so that workers of three configurations run at once."""

SIZES_MB = (11, 12, 8, 16, 9, 20, 10, 18)
"""Sizes of nginx's shared dict, one after the other; the stage's own is 10."""

RESIZED_S = 5.0
"""For a reload and a fetch: the new workers have to be there before the next size."""

WAIT_MS, OPENED_EACH_S = 2000, 0.001
"""Delay of answers to requests open at a reload: all have begun by then, and proxy_read_timeout is far."""

UNLOGGED, EACH_S = 50, 0.1
"""Requests at a time, and their interval: within 8 s, more than the servers' limit (layout.MAX_CONNS)."""

AT_REST = 40
"""Requests in flight from the load alone: one or two, but more in the bunches of a busy machine."""

ANSWERED_S = 10.0

FOUND_S = 10.0
"""Lua's garbage collection finds requests without log(), at the load's rate within some 5 s."""

PEER = "server-3"
"""A fault drains it and takes it back, so that there is a table to save. The second nginx runs on its host,
because that host alone can be cut off from Memcached."""

OPEN_MS = 2500
"""Delay of the answers to requests open at the second nginx: within proxy_read_timeout."""

GHOST_S = 10.0
"""An epoch (core/in_flight_messages.lua): counts of a dead nginx end with it."""

CHUNK = 4096

MOST_BYTES = 16 * 1024 * 1024
"""A larger disk is not the stage's own."""


@action
def signal_worker(signal: str, *, stage: Stage) -> Lasting:
    """Send a signal to one of nginx's workers; a stopped worker continues at the end."""
    workers = stage.daemon("nginx").children()
    if not workers:
        raise ProgramError("nginx has no workers")
    os.kill(workers[0], Signals[signal])
    yield None
    if signal == "SIGSTOP":
        os.kill(workers[0], SIGCONT)


@action
def reload(part: str, signal: str, times: int = 1, *, stage: Stage) -> Lasting:
    """Reload a load balancer `times` times, by a signal."""
    for number in range(times):
        time.sleep(BETWEEN_RELOADS_S if number else 0)
        stage.daemon(part).signal(Signals[signal])
    yield None


@action
def reload_under(requests: int, *, stage: Stage) -> Lasting:
    """Reload nginx while `requests` wait for their servers; all must be answered, and counted."""
    before, connections = _uncounted(stage), _opened(stage, requests, WAIT_MS, hosts.EDGE, _in_flight)
    stage.daemon("nginx").signal(SIGHUP)
    lost = _lost_of(connections)

    def check() -> str | None:
        if lost:
            return f"{lost} of {requests} open requests are lost"
        uncounted = _uncounted(stage) - before
        return f"the ends of {uncounted} requests are not counted" if uncounted > AT_REST else None

    yield check


@action
def resize_dict(*, stage: Stage) -> Lasting:
    """Reload nginx with one size of its shared dict after the other; no table is on disk or in nginx.conf."""
    path = stage.state_dir.parent / "nginx.conf"
    before = path.read_text()
    bare = re.sub(r"\bstate_dir = [^\n]*,\n|\bbootstrap = \{[^{}]*\},? ?", "", before)
    parts_left = re.findall(r"\bstate_dir\b|\bbootstrap\b", bare)
    if parts_left or "lua_shared_dict steelyard 10m;" not in bare:
        raise ProgramError(f"the stage's nginx.conf is written otherwise than expected: {parts_left}")

    def reload_with(text: str, size_mb: int) -> None:
        generation = nginx_status(stage)["generation"] or 0
        path.write_text(text)
        stage.daemon("nginx").signal(SIGHUP)

        def has_size() -> str | None:
            status = stage.status()
            if status is None or status["dict_bytes"] != size_mb * 1024 * 1024:
                return f"nginx has no shared dict of {size_mb} MB"
            is_later = (status["upstreams"][hosts.UPSTREAM]["generation"] or 0) > generation
            return None if is_later else "the new workers have fetched no table"

        wait_until(has_size, within_s=RESIZED_S)

    try:
        for size_mb in SIZES_MB:
            reload_with(bare.replace("steelyard 10m;", f"steelyard {size_mb}m;"), size_mb)
        yield None
    finally:
        reload_with(before, 10)


@action
def end_unlogged(*, stage: Stage) -> Lasting:
    """Ask a location without log() beside the load; later none of its requests may count as in flight."""
    lost: list[int] = []
    before = nginx_status(stage)["unlogged"]

    def ask() -> None:
        lost.append(_lost_of([_begin(stage, hosts.OWN_LOG_PORT, "/", hosts.EDGE) for _ in range(UNLOGGED)]))

    def check() -> str | None:
        if any(lost):
            return f"{sum(lost)} requests of that location are lost"
        detected = nginx_status(stage)["unlogged"] > before
        return None if detected else "nginx detected no request without log()"

    with repeating(ask, interval_s=EACH_S):
        yield check
    wait_until(
        lambda: "ended requests still count as in flight" if _in_flight(stage) > AT_REST else None,
        within_s=FOUND_S,
    )


def _opened(
    stage: Stage, requests: int, wait_ms: int, host: str, count: Callable[[Stage], int]
) -> list[socket.socket]:
    """Open requests with answers after wait_ms; return once the first nginx counts half of them."""
    connections = []
    for _ in range(requests):
        connections.append(_begin(stage, hosts.WEB_PORT, f"/sleep?ms={wait_ms}", host))
        time.sleep(OPENED_EACH_S)
    wait_until(
        lambda: None if count(stage) >= requests / 2 else "nginx counts less than half of the open requests",
        within_s=wait_ms / 1000,
    )
    return connections


def _begin(stage: Stage, port: int, path: str, host: str) -> socket.socket:
    connection = socket.create_connection((stage.addresses[host], port), ANSWERED_S)
    head = f"GET {path} HTTP/1.1\r\nHost: {hosts.UPSTREAM}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def _lost_of(connections: list[socket.socket]) -> int:
    """Wait for all the answers; return the number of failed ones."""
    lost = 0
    for connection in connections:
        with connection, connection.makefile("rb") as stream:
            lost += not stream.read().startswith(b"HTTP/1.1 200 ")
    return lost


def _in_flight(stage: Stage) -> int:
    return sum(peer["in_flight"] for peer in nginx_status(stage)["peers"])


def _uncounted(stage: Stage) -> int:
    """Return the number of picks that are neither in flight nor counted as ended."""
    peers = nginx_status(stage)["peers"]
    return sum(peer["picks"] - peer["completed"] - peer["failed"] - peer["in_flight"] for peer in peers)


@action
def fill_disk(*, stage: Stage) -> Lasting:
    """Fill up the disk of nginx's saved tables, then change the table to be saved."""
    if shutil.disk_usage(stage.state_dir).total > MOST_BYTES:
        raise ProgramError(f"{stage.state_dir} is not on a small disk of its own, so it was not filled up")
    filler = stage.state_dir / "filler"
    try:
        # The last write is meant to fail: there is no room.
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"f" * CHUNK)
        change(stage, "PATCH", f"/peers/{PEER}", {"state": "drain"})
        yield partial(_saved_table_is_intact, stage)
        change(stage, "PATCH", f"/peers/{PEER}", {"state": "up"})
    finally:
        filler.unlink(missing_ok=True)


def _saved_table_is_intact(stage: Stage) -> str | None:
    status = stage.status()
    if status is None or not status["saved_error"]:
        return "nginx reports no error of saving: was the disk full?"
    path = stage.state_dir / f"{hosts.UPSTREAM}.weights"
    table = signature.read(stage.key, path.read_bytes(), weight_table.decode)
    return f"the previously saved table is damaged: {table}" if isinstance(table, Refused) else None


def _second(stage: Stage) -> Daemon:
    """Start another nginx, like the first one except for its name and files."""
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
    """Return the number of requests in flight at other load balancers, by the first nginx's count."""
    return sum(peer["others_in_flight"] or 0 for peer in nginx_status(stage)["peers"])


@action
def lose_balancer(requests: int, *, cut: bool, stage: Stage) -> Lasting:
    """Kill the second nginx with open requests, or cut it off from Memcached; their counts must expire."""
    second, lost = _second(stage), 0
    try:
        silent = partial(http_ask.why_not_ok, stage.addresses[PEER], hosts.WEB_PORT, "/steelyard/status")
        wait_until(silent, within_s=GHOST_S)
        connections = _opened(stage, requests, OPEN_MS, PEER, _of_others)
        if cut:
            stage.cut(PEER, hosts.MEMCACHED)
            lost = _lost_of(connections)
        else:
            second.kill()
        wait_until(
            lambda: f"{left} requests still count" if (left := _of_others(stage)) else None, within_s=GHOST_S
        )
        yield lambda: f"{lost} of {requests} requests are lost" if lost else None
    finally:
        second.kill()
        stage.mend(PEER, hosts.MEMCACHED)


STREAM = "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints"

REFUSAL = "refused by a fault: no such endpoints"


@action
def refuse_endpoints(*, stage: Stage) -> Lasting:
    """Act as one more Envoy, which refuses (NACK) the leader's endpoints."""
    leading = leader(stage)
    requests: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    requests.put(
        DiscoveryRequest(node={"id": "refusing"}, resource_names=[hosts.UPSTREAM], type_url=EDS_TYPE)
    )
    with grpc.insecure_channel(f"{stage.addresses[leading]}:{hosts.XDS_PORT}") as channel:
        stream = channel.stream_stream(
            STREAM, DiscoveryRequest.SerializeToString, DiscoveryResponse.FromString
        )(iter(requests.get, None), wait_for_ready=True)
        nonce = next(stream).nonce
        refusal = {"message": REFUSAL}
        requests.put(DiscoveryRequest(type_url=EDS_TYPE, response_nonce=nonce, error_detail=refusal))

        def check() -> str | None:
            causes = str((stage.readiness(leading) or {}).get("degraded"))
            return None if REFUSAL in causes else f"{leading} does not report Envoy's refusal: {causes}"

        yield check
        stream.cancel()
        requests.put(None)
