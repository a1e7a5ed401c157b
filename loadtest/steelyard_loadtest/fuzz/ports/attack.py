"""The attacks: random and half-right bytes on a port, and as the answer to everything a daemon asks."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from threading import Thread

from steelyard_agent import registration
from steelyard_agent.exchange import Answer, Exchange
from steelyard_agent.register_values import Url

from steelyard_loadtest.fuzz.model import ACCEPTED, Tally, Violation
from steelyard_loadtest.fuzz.ports import hostile
from steelyard_loadtest.fuzz.ports.answering import Answering
from steelyard_loadtest.fuzz.ports.deliver import ask, deliver
from steelyard_loadtest.fuzz.ports.look import bad_lines, look, why_not_as_before
from steelyard_loadtest.fuzz.ports.rig import Daemon, Rig
from steelyard_loadtest.machine.errors import ProgramError

METHOD = "random bytes"

# As many clients at once; the agent keeps 16 at most.
CLIENTS = 4

# Before memory is looked at: what is allocated once is allocated by then.
WARM_UP = 200

# A daemon on a machine that does other things too.
RIGHT_S = 10.0

CLOSE = b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port under attack, what requests are made of, and a question whose answer must hold `answer`."""

    name: str
    about: str
    daemon: str
    port: str
    seeds: tuple[bytes, ...]
    question: bytes
    answer: bytes


PORTS = (
    Port(name="port-agent-check",
         about="the controller's agent-check port", daemon="controller", port="agent-check",
         seeds=hostile.LINES, question=b"web/server-1\n", answer=b"up ready"),
    Port(name="port-api", about="the controller's HTTP port", daemon="controller", port="api",
         seeds=hostile.http_requests(b"/v1/upstreams/web"), question=b"GET /healthz HTTP/1.1" + CLOSE,
         answer=b"200 OK"),
    Port(name="port-orca", about="the agent's endpoint", daemon="agent", port="orca",
         seeds=hostile.http_requests(b"/orca"), question=b"GET /orca HTTP/1.1" + CLOSE, answer=b"TEXT "),
    Port(name="port-status", about="nginx's /steelyard/status", daemon="nginx", port="http",
         seeds=hostile.http_requests(b"/steelyard/status"),
         question=b"GET /steelyard/status HTTP/1.1" + CLOSE,
         answer=b'"upstreams"'),
    Port(name="port-metrics", about="nginx's /steelyard/metrics", daemon="nginx", port="http",
         seeds=hostile.http_requests(b"/steelyard/metrics"),
         question=b"GET /steelyard/metrics HTTP/1.1" + CLOSE,
         answer=b"steelyard_"),
    Port(name="port-proxied", about="nginx's proxied location", daemon="nginx", port="http",
         seeds=hostile.http_requests(b"/"), question=b"GET / HTTP/1.1" + CLOSE, answer=b"ok"),
)  # fmt: skip

ANSWERED = ("answers-nginx", "answers-memcached", "answers-redis", "answers-agent")
"""Where the daemon asks, and is answered with anything."""

NAMES = (*(port.name for port in PORTS), *ANSWERED)


def run(rig: Rig, *, names: tuple[str, ...], seconds: float, seed: int) -> Iterator[Tally]:
    """Attack each port for so long; yield the tallies. Raises ProgramError where a daemon does not start."""
    starts: dict[str, Callable[[], Daemon]] = {
        "controller": rig.controller,
        "agent": rig.agent,
        "nginx": rig.nginx,
    }
    running: dict[str, Daemon] = {}
    for port in PORTS:
        if port.name in names:
            if port.daemon not in running:
                running[port.daemon] = starts[port.daemon]()
            yield _attack(running[port.daemon], port, seconds, seed)
    if "answers-nginx" in names:
        about = "to nginx: Memcached's, the controller's, health checks'"
        yield _answers("answers-nginx", about, lambda port: rig.nginx(hostile=port), PORTS[-1], seconds, seed)
    if "answers-memcached" in names:
        start = lambda port: rig.controller(memcached=port)  # noqa: E731
        yield _answers("answers-memcached", "to the controller: Memcached's", start, PORTS[1], seconds, seed)
    if "answers-redis" in names:
        start = lambda port: rig.controller("--lease-s", "0.5", "--state-url", f"redis://127.0.0.1:{port}/0")  # noqa: E731
        yield _answers("answers-redis", "to the controller: Redis's", start, PORTS[1], seconds, seed)
    if "answers-agent" in names:
        yield _registration(seconds, seed)


def _attack(daemon: Daemon, port: Port, seconds: float, seed: int) -> Tally:
    outcomes: Counter[str] = Counter()
    number = daemon.ports[port.port]
    ask(number, port.question, patience_s=RIGHT_S)

    def client(random: Random, until_s: float, least: int) -> None:
        tried = 0
        while tried < least or time.monotonic() < until_s:
            outcomes[deliver(random, number, hostile.drawn(random, port.seeds))] += 1
            tried += 1

    def together(begin: int, until_s: float, least: int) -> None:
        threads = [
            Thread(target=client, args=(Random(seed * 1000 + begin + n), until_s, least))
            for n in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    try:
        quiet = look(daemon.pids())
        together(0, 0.0, WARM_UP // CLIENTS)
        warm = look(daemon.pids())
        before = replace(quiet, resident_bytes=warm.resident_bytes)
        together(CLIENTS, time.monotonic() + seconds, 1)
        why = why_not_as_before(before, daemon.pids())
    except ProgramError as ended:
        why = str(ended)
    tally = _judged(port.name, f"bytes on {port.about}", outcomes, daemon, why)
    return _asked_again(tally, number, port)


def _answers(
    name: str, about: str, start: Callable[[int], Daemon], port: Port, seconds: float, seed: int
) -> Tally:
    with Answering(seed) as server:
        daemon = start(server.port)
        try:
            before = daemon.pids()
            time.sleep(seconds)
            now = daemon.pids()
            why = None if now == before else f"its processes were {before} and are {now}"
        except ProgramError as ended:
            why = str(ended)
        # What became of each only the daemon knows; that it serves on is what counts.
        tally = _judged(name, about, Counter({"for the daemon to judge": server.answered}), daemon, why)
        return _asked_again(tally, daemon.ports[port.port], port)


def _registration(seconds: float, seed: int) -> Tally:
    outcomes: Counter[str] = Counter()
    violations: list[Violation] = []
    exchange, deadline = Exchange(None, timeout_s=0.2), time.monotonic() + seconds
    with Answering(seed) as server:
        url = Url("http", "127.0.0.1", server.port)
        while time.monotonic() < deadline and not violations:
            try:
                answer = exchange(url, "PUT", "/v1/upstreams/web/peers/a", lambda ip: ip.encode())
                if isinstance(answer, Answer):
                    registration.reason(answer.status, answer.body)
                    outcomes[ACCEPTED if 200 <= answer.status < 300 else f"HTTP {answer.status}"] += 1
                else:
                    outcomes["no answer"] += 1
            except Exception as error:
                violations.append(Violation(what=f"it raises {type(error).__name__}: {error}", input=b""))
    tried = outcomes.total() + len(violations)
    few = Counter({name if name == ACCEPTED or count > 9 else "other": 0 for name, count in outcomes.items()})
    for name, count in outcomes.items():
        few[name if name in few else "other"] += count
    return Tally(
        target="answers-agent", method=METHOD,
        about="to an agent that registers: the controller's", tried=tried,
        outcomes=dict(few), violations=tuple(violations),
    )  # fmt: skip


def _judged(name: str, about: str, outcomes: Counter[str], daemon: Daemon, why: str | None) -> Tally:
    found = [why] if why else []
    found += bad_lines(daemon.log)[:3]
    return Tally(
        target=name,
        method=METHOD,
        about=about,
        tried=outcomes.total(),
        outcomes=dict(outcomes),
        violations=tuple(Violation(what=what, input=daemon.log.read_bytes()) for what in found),
    )


def _asked_again(tally: Tally, number: int, port: Port) -> Tally:
    said = ask(number, port.question, patience_s=RIGHT_S)
    if port.answer in said:
        return tally
    what = f"afterwards {port.question.splitlines()[0]!r} is answered with {said[:200]!r}"
    return Tally(
        target=tally.target, method=tally.method, about=tally.about, tried=tally.tried,
        outcomes=tally.outcomes,
        violations=(*tally.violations, Violation(what=what, input=b"")),
    )  # fmt: skip
