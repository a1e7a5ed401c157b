"""nginx with our Lua: the process, its status page, and its upstream blocks (I/O)."""

import json
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import UPSTREAM
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.proxies.nginx import Nginx


class Steelyard(Nginx):
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


def steelyard_status(port: int) -> dict[str, Any]:
    """Return the upstream's part of the status page of an nginx with Steelyard. Raises ProgramError."""
    status, body = http_ask.ask(parts.HOST, port, "/steelyard/status")
    if status != 200:
        raise ProgramError(f"its status page answers {status}: {body[:300]!r}")
    upstream: dict[str, Any] = json.loads(body)["upstreams"][UPSTREAM]
    return upstream


@cache
def steelyard_blocks(
    checkout: Path, nginx: str, *, servers: int, clients: int, kept: tuple[str, ...] = render.KEPT
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
