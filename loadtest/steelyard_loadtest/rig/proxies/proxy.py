"""A balancer under test as a process: what all programs have in common (I/O)."""

import os
from collections.abc import Collection, Sequence

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import UPSTREAM, Part
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import Process
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.control import Control
from steelyard_loadtest.rig.render import BalancerConfig

REPORT = f"steelyard:1:traffic:{UPSTREAM}:edge-"
"""Memcached's key of a balancer's reports, by its number."""


class Proxy:
    """A proxy; its constructor starts it, but it need not answer yet. All methods raise ProgramError.

    A subclass is a program: it has the command, and its own way to let servers come and go.
    """

    has_socket = False
    """Whether it takes commands at a Unix socket, BalancerConfig.socket."""

    def __init__(self, conf: BalancerConfig, control: Control | None, cpus: Collection[int] | None) -> None:
        self._conf, self._control = conf, control
        self._before_start()
        self._write(tuple(conf.addresses))
        conf.log.write_text("")  # the previous one's last words are not this one's
        part = self.part(conf)
        environment = os.environ | part.environment
        self.process = Process(part.command, conf.log, cpus, environment=environment)
        self.beside: Process | None = None
        """Processes that run beside it until its end; `wait` starts them."""

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return the program as a part of a cluster; its configuration need not be there yet."""
        raise NotImplementedError

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
