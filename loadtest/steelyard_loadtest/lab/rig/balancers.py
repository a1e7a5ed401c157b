"""One algorithm in front of the servers: a program, and our controller where it needs one (I/O)."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from steelyard_loadtest.lab.algorithms import Algorithm
from steelyard_loadtest.lab.rig import ask, render
from steelyard_loadtest.lab.rig.control import Control
from steelyard_loadtest.lab.rig.envoy import Envoy
from steelyard_loadtest.lab.rig.front import Front
from steelyard_loadtest.lab.rig.haproxy import HAProxy
from steelyard_loadtest.lab.rig.nginx import Nginx, Steelyard, our_upstream
from steelyard_loadtest.lab.rig.patience import wait_until
from steelyard_loadtest.lab.rig.place import Place
from steelyard_loadtest.lab.scenario.model import Scenario
from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.found import LUA, Found

LUA_FOLDERS = (Path("/usr/local/share/lua/5.1"), Path("/usr/share/lua/5.1"))
"""Where LuaJIT itself looks for libraries, beside what is written into ngx_lua."""

BORROWED = ("roundrobin", "swrr", "chash")
"""Our pickers that lua-resty-balancer does the work of."""


class Balancer:
    """An algorithm at work, between `with Balancer(...)` and its end. Entering raises ProgramError."""

    def __init__(
        self, algorithm: Algorithm, scenario: Scenario, addresses: Mapping[str, str], place: Place
    ) -> None:
        self._algorithm, self._scenario = algorithm, scenario
        self._addresses, self._place = addresses, place
        self._stop = contextlib.ExitStack()
        self.front: Front | None = None
        """The proxy, while it runs; None without a balancer."""
        self._control: Control | None = None
        own = f"127.0.0.1:{place.balancer_port}"
        self.url = f"http://{next(iter(addresses.values())) if algorithm.program == 'direct' else own}"

    def __enter__(self) -> Self:
        why = why_missing(self._algorithm, self._place.found)
        if why is not None:
            raise ProgramError(why)
        with contextlib.ExitStack() as stack:
            cpus = stack.enter_context(_cpus_aside()) if self._scenario.static else None
            if self._algorithm.program != "direct":
                self._start(stack, cpus)
            self._stop = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.front = self._control = None
        self._stop.close()

    def cpu_s(self) -> float | None:
        """Return the CPU time of the processes that serve, so far; None without a balancer."""
        return self.front.process.cpu_s() if self.front else None

    def controller_cpu_s(self) -> float | None:
        """Return our controller's CPU time so far, which is not the balancer's; None without one."""
        return self._control.process.cpu_s() if self._control else None

    def set_members(self, names: Sequence[str]) -> None:
        """Let these servers take part from now on, by the way that the program has for it.

        nginx: a reload; HAProxy: its command socket; Envoy: the file of its endpoints; with our
        controller: its REST API, and then it takes a second or two. Raises ProgramError.
        """
        if not names or not set(names) <= set(self._addresses):
            raise ValueError(f"some of {', '.join(self._addresses)} must take part, not {list(names)}")
        if self.front:
            self.front.set_members(names)

    def shares(self) -> dict[str, float] | None:
        """Return the shares that our controller publishes; None without one. Raises ProgramError."""
        return self._control.shares() if self._control else None

    def check(self) -> None:
        """Raise ProgramError, with its last words, when a process has ended by itself."""
        for part in (self.front, self._control):
            if part:
                part.process.check()

    def _start(self, stack: contextlib.ExitStack, cpus: set[int] | None) -> None:
        scene = self._scene(stack)
        if scene.algorithm.law:
            self._control = Control(self._place, scene)
            stack.callback(self._control.process.stop)
        self.front = self._made(scene, cpus)
        stack.callback(self.front.process.stop)
        self.front.wait()
        wait_until(self._why_no_answer, [self.front.process])

    def _made(self, scene: render.Scene, cpus: set[int] | None) -> Front:
        if scene.algorithm.program == "haproxy":
            return HAProxy(self._place, scene, self._control, cpus)
        if scene.algorithm.program == "envoy":
            return Envoy(self._place, scene, cpus)
        if self._control:
            return Steelyard(self._place, scene, self._control, cpus)
        return Nginx(self._place, scene, cpus)

    def _why_no_answer(self) -> str | None:
        status, body = ask.http_ask(self._place.balancer_port, self._scenario.path)
        return None if status == 200 else f"it answers {status}: {body[:300]!r}"

    def _scene(self, stack: contextlib.ExitStack) -> render.Scene:
        algorithm, place = self._algorithm, self._place
        folder = place.folder / "balancer"
        folder.mkdir(exist_ok=True)
        socket = modules = None
        if algorithm.program == "haproxy":
            # A folder of its own, because a socket's path may have no more than about 100 characters.
            short = tempfile.TemporaryDirectory(prefix="steelyard-lab-")
            socket = Path(stack.enter_context(short)) / "haproxy.sock"
        elif algorithm.program != "envoy":
            modules = place.found.needs(algorithm)
        return render.Scene(
            algorithm=algorithm,
            folder=folder,
            lua_dir=place.checkout / "openresty" / "lua",
            port=place.balancer_port,
            memcached_port=place.memcached_port,
            api_port=place.api_port,
            agent_check_port=place.agent_check_port,
            addresses=self._addresses,
            weights=render.weights(algorithm, self._scenario),
            files=network.raise_files(),
            root=os.geteuid() == 0,
            load_modules=modules or (),
            socket=socket,
            upstream=our_upstream(place, len(self._addresses)) if algorithm.ours else "",
        )


def why_missing(algorithm: Algorithm, found: Found) -> str | None:
    """Say why an algorithm cannot be measured here, and which package would help; None when it can."""
    why = found.why_missing(algorithm)
    if why is None and algorithm.ours and algorithm.method in BORROWED and not _has_lua_balancer(found):
        return (
            f"picker {algorithm.method} needs lua-resty-balancer, which nginx's Lua does not find "
            "(opm get openresty/lua-resty-balancer, or luarocks install lua-resty-balancer)"
        )
    return why


def _has_lua_balancer(found: Found) -> bool:
    # ngx_lua is a part of nginx or a module, and the folders that it was built for are written into it.
    binaries = [Path(found.nginx), *map(Path, found.modules[LUA] or ())]
    found_in = (re.findall(rb"(/[\w./-]+)/\?\.lua", binary.read_bytes()) for binary in binaries)
    folders = {*LUA_FOLDERS, *(Path(folder.decode()) for some in found_in for folder in some)}
    return any((folder / "resty" / "roundrobin.lua").exists() for folder in folders)


@contextlib.contextmanager
def _cpus_aside() -> Iterator[set[int]]:
    """Give the proxy a CPU of its own, and the others to this process and what it starts meanwhile."""
    before = os.sched_getaffinity(0)
    proxy, _ = network.share_out_cpus()
    try:
        yield proxy
    finally:
        os.sched_setaffinity(0, before)
