"""The cluster inside `with Stage(...)`: every part on its own host (I/O)."""

import contextlib
import functools
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Self

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError

from steelyard_resilience.stage import hosts, install, layout, wellness
from steelyard_resilience.stage.daemon import Daemon
from steelyard_resilience.stage.hosts import Settings
from steelyard_resilience.stage.namespaces import IN_MEMORY, Network, mounted

START_S = 60.0
"""All is well within some 8 s; a busy machine may take several times as long."""

STATE_BYTES = 256 * 1024
"""Size of the disk for nginx's saved tables: easy to fill, and a hundred times their size."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own place
"""libfaketime leaves files there for each killed process; our own mount keeps them."""

THREADS = 16
"""Enough for several looks at a time, each of which may wait for every daemon."""

ORDER_S = 5.0
"""Time limit of a change, which may take a while on a busy machine."""

SHOWN = 300
"""Characters shown of a refusal: its problem's title and detail."""


class Stage:
    """The whole cluster; `with` starts it and waits until all is well. Raises SetupError, ProgramError."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._settings = settings
        self._place = install.place(folder, settings)
        self.addresses = hosts.addresses(settings)
        """IP addresses by host."""
        self._parts = layout.daemons(settings, self._place)
        self._daemons: dict[str, Daemon] = {}
        self._last_leader: str | None = None
        self._network = Network(self.addresses)
        self._hosts_file = folder.resolve() / "hosts"
        self._pool = ThreadPoolExecutor(THREADS, "look")
        self._stop = contextlib.ExitStack()
        self.on, self.cut, self.mend = self._network.on, self._network.cut, self._network.mend
        """Methods of the network; `on` begins a command line on a host."""
        self.names = tuple(part.name for part in self._parts)
        """Names of all daemons."""
        port = hosts.FRONT_PORTS[settings.front]
        self.url = f"http://{self.addresses[hosts.EDGE]}:{port}"
        """URL of the load balancer under test."""
        self.state_dir = self._place.state_dir
        """nginx's folder of saved tables, on its own disk of STATE_BYTES."""
        self.read_token_file = self._place.secret("read-token")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.callback(self._pool.shutdown, wait=False, cancel_futures=True)
            stack.enter_context(self._network.made())
            install.write(self._place, self._settings)
            stack.enter_context(mounted(*IN_MEMORY, f"size={STATE_BYTES},mode=755", at=self.state_dir))
            self.hide_names(False)
            nameserver = self._place.folder / "resolv.conf"
            nameserver.write_text(f"nameserver {hosts.NAMESERVER}\n")
            stack.enter_context(mounted("--bind", str(self._hosts_file), at=Path("/etc/hosts")))
            stack.enter_context(mounted("--bind", str(nameserver), at=Path("/etc/resolv.conf")))
            if self._settings.faketime:
                stack.enter_context(mounted(*IN_MEMORY, "mode=1777", at=SHARED_MEMORY))
            self._start(stack)
            self._stop = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()

    def daemon(self, name: str) -> Daemon:
        """Return a daemon by its name; the servers' agents are agent-1, agent-2, ..."""
        return self._daemons[name]

    def leader(self) -> str | None:
        """Return the name of the controller that reports to lead; None if none or several do."""
        return wellness.leader(self._readiness_of_all())

    def status(self) -> dict[str, Any] | None:
        """Return nginx's status page; None if it does not answer in time."""
        return http_ask.look(self.addresses[hosts.EDGE], hosts.WEB_PORT, "/steelyard/status")

    def readiness(self, controller: str) -> dict[str, Any] | None:
        """Return a controller's /readyz, ready or not; None if it does not answer within a second."""
        return http_ask.look(self.addresses[controller], hosts.API_PORT, "/readyz")

    def api(self, method: str, path: str, document: object = None, controller: str | None = None) -> bytes:
        """Ask a controller, by default the leader, with the admin token; return the body.

        Raises ProgramError if it does not answer or refuses, or no controller leads.
        """
        status, body = self.ask(method, path, document, controller, token=self._admin_token)
        if not 200 <= status < 300:
            problem = body[:SHOWN].decode(errors="replace").strip()
            raise ProgramError(f"the API answers {status} to {method} {path}: {problem}")
        return body

    def ask(
        self, method: str, path: str, document: object = None, controller: str | None = None, *,
        port: int = hosts.API_PORT, token: str | None = None,
    ) -> tuple[int, bytes]:  # fmt: skip
        """Ask a controller, by default the leader; return status and body.

        Raises ProgramError if it does not answer, or no controller leads.
        """
        name = controller or self.leader()
        if name is None:
            raise ProgramError(f"no controller leads: {method} {path} was not sent")
        return http_ask.ask(
            self.addresses[name], port, path, method=method, document=document, token=token,
            timeout_s=ORDER_S,
        )  # fmt: skip

    def why_not_well(self) -> str | None:
        """Return why not all is well; None if every part runs and has the others' current state."""
        return self.look()[1]

    def look(self) -> tuple[dict[str, Any] | None, str | None]:
        """Return nginx's status document, and why not all is well: None if it is.

        Takes at most two seconds, three when another controller leads than at the last look. Safe for
        several threads at a time.
        """
        asked_status = self._pool.submit(self.status)
        # An overview costs a controller more than its readiness. So ask the previous leader meanwhile, and
        # all of them only while none is known.
        asked = hosts.CONTROLLERS if self._last_leader is None else (self._last_leader,)
        overviews = {name: self._pool.submit(self._overview, name) for name in asked}
        readiness = self._readiness_of_all()
        self._last_leader = leader = wellness.leader(readiness)
        if leader is not None and leader not in overviews:
            overviews[leader] = self._pool.submit(self._overview, leader)
        stopped = (daemon.why_not_running() for daemon in self._daemons.values())
        status = asked_status.result()
        return status, wellness.why_not_well(
            self._settings,
            stopped=[line for line in stopped if line],
            readiness=readiness,
            overview=overviews[leader].result() if leader else None,
            status=status,
            workers=len(self.daemon("nginx").children()),
        )

    def wait_well(self, patience_s: float) -> None:
        """Return when all is well. Raises ProgramError with the reason after patience_s."""
        wait_until(lambda: (why := self.why_not_well()) and f"not well: {why}", within_s=patience_s)

    def slow(self, store: str, delay_s: float | str | None) -> None:
        """Delay each chunk of memcached's or redis's answers; None holds all back; `drip`: a byte a second.

        A new delay applies to waiting chunks, too. Raises ProgramError.
        """
        order = "hang" if delay_s is None else str(delay_s)
        answer = http_ask.ask_line(self.addresses[store], hosts.CONTROL_PORT, order, timeout_s=ORDER_S)
        if answer != "ok":
            raise ProgramError(f"the proxy of {store} refuses {order!r}: {answer}")

    def hide_names(self, are_hidden: bool) -> None:
        """Make look-ups of the hosts' names hang, or answer."""
        # Written in place, because the mount over /etc/hosts is of this file.
        self._hosts_file.write_text("" if are_hidden else hosts.hosts_file(self._settings))

    def step_clock(self, host: str, seconds: float) -> None:
        """Set a host's clock `seconds` from the true time, within a second; needs a stage with faketime."""
        install.step_clock(self._place, host, seconds)

    def memcached_command(self, text: str | bytes) -> bytes:
        """Send a command, without its final newline, directly to Memcached; return the whole answer.

        Raises ProgramError.
        """
        words = text.encode() if isinstance(text, str) else text
        return ask_memcached(self.addresses[hosts.MEMCACHED], hosts.DAEMON_PORTS[hosts.MEMCACHED], words)

    def redis_command(self, *parts: str) -> Any:  # noqa: ANN401 - each command's own
        """Send a command directly to Redis; return its answer. Raises ProgramError if Redis refuses."""
        return ask_redis(self.addresses[hosts.REDIS], hosts.DAEMON_PORTS[hosts.REDIS], parts)

    @functools.cached_property
    def key(self) -> bytes:
        """The shared key."""
        return self._place.secret("key").read_bytes().strip()

    @functools.cached_property
    def _admin_token(self) -> str:
        return self._place.secret("steelyard/admin_token").read_text().strip()

    def _start(self, stack: contextlib.ExitStack) -> None:
        stores = (hosts.MEMCACHED, hosts.REDIS)
        proxies = [self._made(part, stack) for part in layout.proxies(self._settings)]
        self._daemons = {part.name: self._made(part, stack) for part in self._parts}
        first = [*proxies, *(self._daemons[name] for name in stores)]
        rest = [daemon for name, daemon in self._daemons.items() if name not in stores]
        for group in (first, rest):
            for daemon in group:
                daemon.launch()
            for daemon in group:
                daemon.wait_listening()
        self.wait_well(START_S)

    def _made(self, part: Part, stack: contextlib.ExitStack) -> Daemon:
        log = self._place.folder / "logs" / f"{part.name}.log"
        daemon = Daemon(part, self.addresses[part.host], self._network.on(part.host), log)
        stack.callback(daemon.kill)
        return daemon

    def _readiness_of_all(self) -> Mapping[str, dict[str, Any] | None]:
        return dict(zip(hosts.CONTROLLERS, self._pool.map(self.readiness, hosts.CONTROLLERS), strict=True))

    def _overview(self, controller: str) -> dict[str, Any] | None:
        path = f"/v1/upstreams/{hosts.UPSTREAM}"
        document = http_ask.look(self.addresses[controller], hosts.API_PORT, path, self._admin_token)
        return document if document and "peers" in document else None


def overview(stage: Stage, part: str = "") -> dict[str, Any]:
    """Return the leader's document of the upstream, or of a part of it. Raises ProgramError."""
    document: dict[str, Any] = json.loads(stage.api("GET", f"/v1/upstreams/{hosts.UPSTREAM}{part}"))
    return document


def ask_memcached(address: str, port: int, words: bytes) -> bytes:
    """Send a command to Memcached; return the whole answer. Raises ProgramError."""
    # The length of an answer depends on the command. So another command with a known answer marks the end:
    # `mn` only answers MN (Memcached's doc/protocol.txt, meta no-op).
    return http_ask.exchange(address, port, words + b"\r\nmn\r\n", _read_to_mn, timeout_s=ORDER_S)


def ask_redis(address: str, port: int, parts: Sequence[str]) -> Any:  # noqa: ANN401 - each command's own
    """Send a command to Redis; return its answer. Raises ProgramError if there is none, or an error."""
    once = Retry(NoBackoff(), 0)
    try:
        with Redis(address, port, socket_timeout=ORDER_S, retry=once) as client:
            return client.execute_command(*parts)
    except RedisError as error:
        raise ProgramError(f"{address}:{port} does not answer {' '.join(parts)}: {error}") from None


def _read_to_mn(stream: BinaryIO) -> bytes:
    answer = b""
    while (part := http_ask.read_line(stream)) != b"MN\r\n":
        answer += part
    return answer
