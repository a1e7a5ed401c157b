"""The balancers under test as processes: nginx alone and with Steelyard, HAProxy, Envoy (I/O)."""

import csv
import json
import os
import re
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from steelyard_protocol.deadline import Deadline
from steelyard_reporter.haproxy.runtime_socket import RuntimeSocket
from steelyard_reporter.haproxy.show_stat import HaproxyFault

from steelyard_loadtest.cluster import nginx, parts
from steelyard_loadtest.cluster.parts import UPSTREAM, Part
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import Process, wait_until
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.network import raise_files
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.control import Control
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.render import BalancerConfig
from steelyard_loadtest.templates import render_file

ANSWERED = "L7OK"
"""The agent_status in `show stat` after a good answer."""

REPORT = f"steelyard:1:traffic:{UPSTREAM}:edge-"
"""Memcached's key of a balancer's reports, by its number."""

ANSWERING = "Servers that answer at once: a listener on each port for every address of 127/8."

SOCKET_S = 10.0
"""HAProxy is on this machine, and answers late when it is busy."""


class Proxy:
    """A proxy; its constructor starts it, but it need not answer yet. All methods raise ProgramError."""

    def __init__(self, conf: BalancerConfig, control: Control | None, cpus: Collection[int] | None) -> None:
        self._conf, self._control = conf, control
        self._before_start()
        self._write(tuple(conf.addresses))
        conf.log.write_text("")  # the previous one's last words are not this one's
        self.process = Process(part(conf).command, conf.log, cpus)
        self.beside: Process | None = None
        """Processes that run beside it until its end; `wait` starts them."""

    def wait(self) -> None:
        """Wait until it serves with all it needs; here, until it takes connections."""
        self.process.wait_listening(self._conf.place.balancer_port)

    def stop(self) -> None:
        """End it, after the processes beside it."""
        if self.beside:
            self.beside.stop()
        self.process.stop()

    def set_members(self, names: Sequence[str]) -> None:
        """Let these servers take part from now on: each program has its own way."""
        raise NotImplementedError

    def _before_start(self) -> None:
        self._conf.nginx.temporary.mkdir(exist_ok=True)

    def _why_no_report(self) -> str | None:
        report = f"{REPORT}{self._conf.number}"
        answer = http_ask.ask_line(parts.HOST, self._conf.place.memcached_port, f"get {report}")
        return None if answer.startswith("VALUE") else f"nobody reports its traffic as {report}"

    def _write(self, members: Sequence[str]) -> None:
        self._conf.config.write_text(render.configuration(self._conf, members))


class Nginx(Proxy):
    """nginx with a method of its own; its servers change by a reload."""

    def set_members(self, names: Sequence[str]) -> None:
        """Reload; requests under way end in the old worker."""
        old = set(self.process.workers())
        self._write(names)
        self.process.reload()
        wait_until(
            lambda: None if set(self.process.workers()) - old else "nginx did not reload", [self.process]
        )


class Steelyard(Proxy):
    """nginx with our Lua; it follows a controller, or published tables without one."""

    def wait(self) -> None:
        """Wait until it serves a table in which every server takes part."""
        super().wait()
        if self._conf.algorithm.mode == "tcp":
            return  # its port passes bytes on and has no status; it begins with the list of servers
        wait_until(self._why_not_yet, [self.process, *([self._control.process] if self._control else [])])

    def set_members(self, names: Sequence[str]) -> None:
        """Inform the controller; nginx serves its next table, about a second later."""
        if self._control is None:
            raise ValueError("Steelyard needs a controller")
        self._control.set_members(names)

    def _why_not_yet(self) -> str | None:
        upstream = steelyard_status(self._conf.place.balancer_port)
        if upstream["rung"] != "fresh":
            words = f"; {self._control.process.last_words()}" if self._control else ""
            return f"no weight table ({upstream['last_fetch']}{words})"
        if upstream["picker_error"] is not None:
            raise ProgramError(upstream["picker_error"])
        there = {peer["id"] for peer in upstream["peers"] if peer["eligible"]}
        away = [name for name in self._conf.addresses if name not in there]
        return f"{', '.join(away)} take no part" if away else None


class HAProxy(Proxy):
    """HAProxy; its servers change by its command socket, or by what a controller answers."""

    def wait(self) -> None:
        """Wait until it takes connections and, with our controller, has weights from it."""
        super().wait()
        if self._control is None:
            return
        if self._conf.algorithm.fed_by == "reporter" and self._conf.socket is not None:
            memcached = f"{parts.HOST}:{self._conf.place.memcached_port}"
            command = parts.reporter(self._conf.socket, memcached=memcached).command
            self.beside = Process(command, self._conf.folder / "reporter.log")
            wait_until(self._why_no_report, [self.process, self._control.process, self.beside])
        else:
            wait_until(self._why_not_yet, [self.process, self._control.process])

    def set_members(self, names: Sequence[str]) -> None:
        """Take servers out and in; requests under way end where they are."""
        out = [name for name in self._conf.addresses if name not in names]
        if self._control and self._conf.algorithm.fed_by == "reporter":
            self._control.set_members(names)
            return
        if self._control:
            # A state set here would only last until the agent's next answer.
            self._control.drain(out)
            return
        for name in self._conf.addresses:
            state = "maint" if name in out else "ready"
            answer = self._ask(f"set server {UPSTREAM}/{name} state {state}")
            if answer:
                raise ProgramError(f"HAProxy does not set {name} to {state}: {answer}")

    def rows(self) -> dict[str, dict[str, str]]:
        """Return its servers' lines of `show stat`, by name. Raises ProgramError."""
        answer = self._ask("show stat")
        lines = csv.DictReader(answer.removeprefix("# ").splitlines())
        rows = {line["svname"]: line for line in lines if line.get("pxname") == UPSTREAM}
        rows.pop("BACKEND", None)
        if not rows:
            raise ProgramError(f"HAProxy's `show stat` has no servers of {UPSTREAM}: {answer[:300]!r}")
        return rows

    def _before_start(self) -> None:
        if self._control:
            self._control.wait()  # otherwise HAProxy's first question fails, and the next is a second later

    def _why_not_yet(self) -> str | None:
        silent = [name for name, row in self.rows().items() if row["agent_status"] != ANSWERED]
        return f"the controller has not answered HAProxy for {', '.join(silent)}" if silent else None

    def _ask(self, words: str) -> str:
        deadline = Deadline(time.monotonic)
        deadline.start(SOCKET_S)
        try:
            return RuntimeSocket(Path(str(self._conf.socket)), deadline).ask(words).strip()
        except HaproxyFault as error:
            raise ProgramError(f"it does not take {words!r}: {error}") from None


class Envoy(Proxy):
    """Envoy; its servers change by replacing a file, or by our controller."""

    def wait(self) -> None:
        """Wait until it takes connections and, with our controller, has reported to it."""
        super().wait()
        if self._control is not None:
            wait_until(self._why_no_report, [self.process, self._control.process])

    def set_members(self, names: Sequence[str]) -> None:
        """Replace the file that it watches, or inform the controller."""
        if self._control is not None:
            self._control.set_members(names)
        else:
            write_text(self._conf.endpoints, render.endpoints(self._conf, names))

    def _before_start(self) -> None:
        if self._control is not None:
            self._control.wait()  # otherwise it asks in vain, and again seconds later
        else:
            self.set_members(tuple(self._conf.addresses))


class Sglang(Proxy):
    """sglang-router, which gets its engines on its command line."""

    def _write(self, members: Sequence[str]) -> None:
        """Write nothing: there is no file."""


PROXIES = {"nginx": Nginx, "steelyard": Steelyard, "haproxy": HAProxy, "envoy": Envoy, "sglang": Sglang}
"""By program."""


def part(conf: BalancerConfig) -> Part:
    """Return the balancer as a part of a cluster; its configuration need not be there yet."""
    programs, port = conf.place.programs, conf.place.balancer_port
    if conf.algorithm.program == "haproxy":
        return parts.haproxy(port, conf.config, program=programs.haproxy or "haproxy")
    if conf.algorithm.program == "envoy":
        return parts.envoy(port, conf.config, program=programs.envoy or "envoy")
    if conf.algorithm.program == "sglang":
        urls = [f"http://{address}" for address in conf.addresses.values()]
        program, metrics_port = programs.sglang or "sglang-router", conf.place.follow_port
        return parts.sglang(port, urls, conf.algorithm.method, metrics_port, program=program)
    return parts.nginx(
        port,
        conf.folder,
        log=conf.log,
        program=programs.nginx_for(conf.algorithm.method),
    )


def start_answering(place: Place, cpus: Collection[int]) -> Process:
    """Start an nginx that answers at once on each port, at every address of 127/8; it need not answer yet."""
    folder = place.folder / "static-servers"
    settings = nginx.Nginx(
        folder=folder,
        log=folder / "nginx.log",
        log_level="warn",
        workers=max(1, len(cpus) // 2),
        files=raise_files(),
        # As root its workers would become a user who may not read the folder.
        user="root" if os.geteuid() == 0 else None,
        # The balancer should be the side that closes an idle connection.
        directives=("keepalive_requests 1000000000", "keepalive_timeout 3700s"),
    )
    settings.temporary.mkdir(parents=True)
    listen = [f"0.0.0.0:{port} reuseport backlog=4096" for port in place.server_ports]
    values = {"nginx": settings, "listen": listen, "title": ANSWERING}
    text = render_file(nginx.TEMPLATES / "answering.conf", values)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    command = parts.nginx(0, folder, log=settings.log, program=place.programs.backend_nginx).command
    return Process(command, settings.log, cpus)


def steelyard_status(port: int) -> dict[str, Any]:
    """Return the upstream's part of the status page of an nginx with Steelyard. Raises ProgramError."""
    status, body = http_ask.ask(parts.HOST, port, "/steelyard/status")
    if status != 200:
        raise ProgramError(f"its status page answers {status}: {body[:300]!r}")
    upstream: dict[str, Any] = json.loads(body)["upstreams"][UPSTREAM]
    return upstream


def steelyard_blocks(
    checkout: Path, nginx: str, *, servers: int, clients: int, kept: Sequence[str] = render.KEPT
) -> str:
    """Return the upstream blocks from our generator for this number of servers.

    kept: directives for the life of connections, because nginx would close each after 1000 requests. The lab
    keeps those of nginx's own methods, HAProxy and Envoy. Raises ProgramError.
    """
    generator = checkout / "openresty" / "bin" / "steelyard-upstream"
    command = [str(generator), UPSTREAM, "--servers", str(servers)]
    command += ["--nginx", nginx, "--concurrency", str(clients)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ProgramError(f"needs a checkout of Steelyard: {error}") from None
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip())
    lines = "".join(f"\n    {directive};" for directive in kept)
    return re.sub(r"^    keepalive \d+;.*$", lambda pool: pool[0] + lines, done.stdout, flags=re.MULTILINE)
