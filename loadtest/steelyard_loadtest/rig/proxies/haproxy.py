"""HAProxy, alone or with our controller (I/O)."""

import csv
import time
from collections.abc import Sequence
from pathlib import Path

from steelyard_protocol.deadline import Deadline
from steelyard_reporter.haproxy.runtime_socket import RuntimeSocket
from steelyard_reporter.haproxy.show_stat import HaproxyFault

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import UPSTREAM, Part
from steelyard_loadtest.machine.child_process import Process, wait_until
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.render import BalancerConfig

ANSWERED = "L7OK"
"""The agent_status in `show stat` after a good answer."""

SOCKET_S = 10.0
"""HAProxy is on this machine, and answers late when it is busy."""


class HAProxy(Proxy):
    """HAProxy; its servers change by its command socket, or by what a controller answers."""

    has_socket = True

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return it as a part of a cluster; its configuration need not be there yet."""
        program = conf.place.programs.path("haproxy")
        return parts.haproxy(conf.place.balancer_port, conf.config, program=program)

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
