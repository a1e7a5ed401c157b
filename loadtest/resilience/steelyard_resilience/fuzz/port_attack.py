"""The attacks: random and half-correct bytes on a port, or as the answers to a daemon's questions."""

import contextlib
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Self

from steelyard_agent.http_exchange import Answer
from steelyard_agent.registration import register_request
from steelyard_agent.registration.controller_client import ControllerClient
from steelyard_agent.registration.register_flags import Url
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.http_ask import exchange

from steelyard_resilience.fuzz import generated, hostile_bytes
from steelyard_resilience.fuzz.edits import an_input
from steelyard_resilience.fuzz.footprint import bad_lines, footprint, why_not_as_before
from steelyard_resilience.fuzz.port_daemons import Daemon, Rig
from steelyard_resilience.fuzz.target import ACCEPTED, Tally, Target, Violation

# The hostile server's longest wait for a question; sometimes it does not wait at all.
QUESTION_S = 0.05

# Long enough for an answer over loopback; a silent daemon waits for more bytes, which is an outcome too.
ANSWER_S = 0.05

# Time limit of a daemon on a busy machine.
PATIENCE_S = 10.0

MANNERS = ("whole", "whole", "whole", "drip", "half-close", "gone", "reset", "silent")

# SO_LINGER with no time: close sends a reset.
RESET = struct.pack("ii", 1, 0)

NOTHING = "no answer"


class Answering(ThreadingTCPServer):
    """A hostile server on a free `port` of loopback, while its block runs; `answered` counts.

    answer: the bytes of each answer; None: different ones each time.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), BaseRequestHandler)
        self.port: int = self.server_address[1]
        self.answered = 0
        self.answer: bytes | None = None
        self._random, self._lock = Random(seed), threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def finish_request(self, request: Any, client_address: object) -> None:  # noqa: ANN401, ARG002 (socketserver's)
        """Answer one connection, mostly after a question, and sometimes slowly."""
        with self._lock:
            data = an_input(self._random, hostile_bytes.ANSWERS) if self.answer is None else self.answer
            waits, slow = self._random.random() < 0.9, self._random.random() < 0.05
            self.answered += 1
        with contextlib.suppress(OSError):
            request.settimeout(QUESTION_S)
            with contextlib.suppress(TimeoutError):
                _ = waits and request.recv(4096)
            request.sendall(data[: len(data) // 2])
            time.sleep(0.3 if slow else 0)
            request.sendall(data[len(data) // 2 :])


def deliver(random: Random, port: int, data: bytes) -> str:
    """Send the bytes in a random manner; return an outcome, such as ACCEPTED, `HTTP 400` or "closed"."""
    manner = random.choice(MANNERS)
    step = len(data) // 3 + 1 if manner == "drip" else len(data) or 1
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(ANSWER_S)
            if manner == "silent":
                return NOTHING
            for begin in range(0, len(data), step):
                connection.sendall(data[begin : begin + step])
                time.sleep(0.002 if manner == "drip" else 0)
            if manner == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            if manner in ("gone", "reset"):
                return "left before the answer"
            if manner == "half-close":
                connection.shutdown(socket.SHUT_WR)
            return outcome(connection.recv(4096))
    except TimeoutError:
        return NOTHING
    except OSError:  # the daemon may close while we send
        return "closed"


def outcome(answer: bytes) -> str:
    """Return the outcome of an answer."""
    if not answer:
        return "closed"
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})", answer)
    if status is None or status[1].startswith(b"2"):
        return ACCEPTED
    return f"HTTP {status[1].decode()}"


def ask(port: int, data: bytes) -> bytes:
    """Return the whole answer to a correct question; empty if it takes too long."""
    with contextlib.suppress(ProgramError):
        return exchange("127.0.0.1", port, data, lambda stream: stream.read(), timeout_s=PATIENCE_S)
    return b""


METHOD = "random bytes"

# Clients at once; the agent keeps at most 16.
CLIENTS = 4

# Inputs before memory is measured: one-time allocations have happened by then.
WARM_UP = 200

CLOSE = b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port under attack: its daemon, the seeds of requests, and a question with `answer` in its answer."""

    about: str
    daemon: str
    port: str
    seeds: tuple[bytes, ...]
    question: bytes
    answer: bytes


def _http(about: str, daemon: str, port: str, path: bytes, answer: bytes) -> Port:
    return Port(
        about=about, daemon=daemon, port=port, seeds=hostile_bytes.http_requests(path),
        question=b"GET " + path + b" HTTP/1.1" + CLOSE, answer=answer,
    )  # fmt: skip


API = replace(
    _http("the controller's HTTP port", "controller", "api", b"/v1/upstreams/web", b"200 OK"),
    question=b"GET /healthz HTTP/1.1" + CLOSE,
)
PROXIED = _http("nginx's proxied location", "nginx", "http", b"/", b"ok")
PORTS = {
    "port-agent-check": Port(
        about="the controller's agent-check port", daemon="controller", port="agent-check",
        seeds=hostile_bytes.LINES, question=b"web/server-1\n", answer=b"up ready",
    ),
    "port-api": API,
    "port-orca": _http("the agent's endpoint", "agent", "orca", b"/orca", b"TEXT "),
    "port-status": _http("nginx's /steelyard/status", "nginx", "http", b"/steelyard/status", b'"upstreams"'),
    "port-metrics": _http(
        "nginx's /steelyard/metrics", "nginx", "http", b"/steelyard/metrics", b"steelyard_"
    ),
    "port-proxied": PROXIED,
}  # fmt: skip

# Attacks on a daemon's own questions: the description, the daemon's start with the hostile port, and a port
# to check that the daemon still serves.
ANSWERED: dict[str, tuple[str, Callable[[Rig, int], Daemon], Port]] = {
    "answers-nginx": (
        "to nginx: Memcached's, the controller's, health checks'",
        lambda rig, port: rig.nginx(hostile=port), PROXIED,
    ),
    "answers-memcached": (
        "to the controller: Memcached's",
        lambda rig, port: rig.controller(memcached=f"127.0.0.1:{port}"), API,
    ),
    "answers-redis": (
        "to the controller: Redis's",
        lambda rig, port: rig.controller(lease_s=0.5, state_url=f"redis://127.0.0.1:{port}/0"), API,
    ),
}  # fmt: skip

REGISTRATION = "answers-agent"

NAMES = (*PORTS, *ANSWERED, REGISTRATION)


def run(rig: Rig, names: Sequence[str], *, seconds: float, seed: int) -> Iterator[Tally]:
    """Attack each port for `seconds`; yield the tallies. Raises ProgramError if a daemon does not start."""
    starts = {"controller": rig.controller, "agent": rig.agent, "nginx": rig.nginx}
    running: dict[str, Daemon] = {}
    for name in names:
        if name in PORTS:
            port = PORTS[name]
            if port.daemon not in running:
                running[port.daemon] = starts[port.daemon]()
            yield _attack(name, running[port.daemon], port, seconds, seed)
        elif name in ANSWERED:
            yield _answers(name, rig, seconds, seed)
        else:
            yield _registration(seconds, seed)


def _attack(name: str, daemon: Daemon, port: Port, seconds: float, seed: int) -> Tally:
    outcomes: Counter[str] = Counter()
    number = daemon.ports[port.port]
    ask(number, port.question)

    def together(begin: int, until_s: float, least: int) -> None:
        def client(which: int) -> None:
            random, tried = Random(seed * 1000 + begin + which), 0
            while tried < least or time.monotonic() < until_s:
                outcomes[deliver(random, number, an_input(random, port.seeds))] += 1
                tried += 1

        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(client, range(CLIENTS)))

    try:
        quiet = footprint(daemon.pids())
        together(0, 0.0, WARM_UP // CLIENTS)
        warm = footprint(daemon.pids())
        before = replace(quiet, resident_bytes=warm.resident_bytes)
        together(CLIENTS, time.monotonic() + seconds, 1)
        why = why_not_as_before(before, daemon.pids())
    except ProgramError as ended:
        why = str(ended)
    return _judged(name, f"bytes on {port.about}", outcomes, daemon, port, why)


def _answers(name: str, rig: Rig, seconds: float, seed: int) -> Tally:
    about, start, port = ANSWERED[name]
    with Answering(seed) as server:
        daemon = start(rig, server.port)
        try:
            before = daemon.pids()
            time.sleep(seconds)
            now = daemon.pids()
            why = None if now == before else f"its processes were {before} and are {now}"
        except ProgramError as ended:
            why = str(ended)
        # Only the daemon knows the outcome of each answer; the attack checks that it still serves.
        outcomes = {"for the daemon to judge": server.answered}
    # The hostile server has ended by now; nginx rightly uses it as a server while it passes its checks.
    return _judged(name, about, Counter(outcomes), daemon, port, why)


def _judged(
    name: str, about: str, outcomes: Counter[str], daemon: Daemon, port: Port, why: str | None
) -> Tally:
    broken = [*([why] if why else []), *bad_lines(daemon.log)]
    answer = ask(daemon.ports[port.port], port.question)
    if port.answer not in answer:
        broken.append(f"the later answer to {port.question.splitlines()[0]!r} is {answer[:200]!r}")
    violations = tuple(Violation(what=what, input=daemon.log.read_bytes()) for what in broken)
    return Tally(name, METHOD, about=about, outcomes=dict(outcomes), violations=violations)


def _registration(seconds: float, seed: int) -> Tally:
    client = ControllerClient(None, timeout_s=0.2)
    with Answering(seed) as server:
        url = Url("http", "127.0.0.1", server.port)

        def judge(data: bytes) -> str:
            server.answer = data
            answer = client(url, "PUT", "/v1/upstreams/web/peers/a", lambda ip: ip.encode())
            if not isinstance(answer, Answer):
                return NOTHING
            register_request.reason(answer.status, answer.body)
            return ACCEPTED if 200 <= answer.status < 300 else f"HTTP {answer.status}"

        about = "to an agent that registers: the controller's"
        target = Target(REGISTRATION, about, judge, hostile_bytes.ANSWERS)
        return generated.run(target, seconds=seconds, seed=seed, method=METHOD)
