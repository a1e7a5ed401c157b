"""One algorithm in front of the servers: a program, and our controller where it needs one (I/O)."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from steelyard_loadtest.cluster.parts import HOST
from steelyard_loadtest.machine import http_ask, network, picker_list
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.programs import LUA, STREAM_LUA, Programs
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.control import Control
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.proxies import PROXIES, Proxy, steelyard_blocks
from steelyard_loadtest.scenario.algorithms import Algorithm
from steelyard_loadtest.scenario.definition import Scenario

LUA_FOLDERS = (Path("/usr/local/share/lua/5.1"), Path("/usr/share/lua/5.1"))
"""Where LuaJIT itself looks for libraries, beside what is written into ngx_lua."""

BORROWED = tuple(picker.name for picker in picker_list.listed() if picker.library)
"""Our pickers that lua-resty-balancer does the work of."""


class Balancer:
    """An algorithm at work, between `with Balancer(...)` and its end. Entering raises ProgramError.

    clients: connections at a time.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        scenario: Scenario,
        addresses: Mapping[str, str],
        place: Place,
        clients: int = render.CLIENTS,
    ) -> None:
        self._algorithm, self._scenario, self._clients = algorithm, scenario, clients
        self._addresses, self._place = addresses, place
        self._stop = contextlib.ExitStack()
        self.front: Proxy | None = None
        """The proxy, while it runs; None without a balancer."""
        self._control: Control | None = None
        own = f"127.0.0.1:{place.balancer_port}"
        self.url = f"http://{next(iter(addresses.values())) if algorithm.program == 'direct' else own}"

    def __enter__(self) -> Self:
        why = why_missing(self._algorithm, self._place.programs)
        if why is not None:
            raise ProgramError(why)
        with contextlib.ExitStack() as stack:
            cpus = stack.enter_context(_cpus_aside()) if self._scenario.static else None
            if self._algorithm.program != "direct":
                self._start(stack, cpus)
            self._stop = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()
        self.front = self._control = None

    def cpu_s(self) -> float | None:
        """Return the CPU time of the processes that serve, so far; None without a balancer."""
        return self.front.process.cpu_s() if self.front else None

    def set_members(self, names: Sequence[str]) -> None:
        """Let these servers take part from now on, by the way that the program has for it.

        nginx: a reload; HAProxy: its command socket; Envoy: the file of its endpoints; with our
        controller: its REST API, and then it takes a second or two. Raises ProgramError.
        """
        if not names or not set(names) <= set(self._addresses):
            raise ValueError(f"some of {', '.join(self._addresses)} must take part, not {list(names)}")
        if self.front:
            self.front.set_members(names)

    def check(self) -> None:
        """Raise ProgramError, with its last words, when a process has ended by itself."""
        for part in (self.front, self._control):
            if part:
                part.process.check()
        if self.front and self.front.beside:
            self.front.beside.check()

    def _start(self, stack: contextlib.ExitStack, cpus: set[int] | None) -> None:
        scene = self._scene(stack)
        if scene.algorithm.law:
            self._control = Control(scene)
            stack.callback(self._control.process.stop)
        self.front = PROXIES[scene.algorithm.program](scene, self._control, cpus)
        stack.callback(self.front.stop)
        self.front.wait()
        why = partial(http_ask.why_not_ok, HOST, self._place.balancer_port, self._scenario.path)
        wait_until(why, [self.front.process])

    def _scene(self, stack: contextlib.ExitStack) -> render.Scene:
        algorithm = self._algorithm
        socket = None
        if algorithm.program == "haproxy":
            # A folder of its own, because a socket's path may have no more than about 100 characters.
            short = tempfile.TemporaryDirectory(prefix="steelyard-lab-")
            socket = Path(stack.enter_context(short)) / "haproxy.sock"
        scene = render.Scene(
            algorithm=algorithm,
            place=self._place,
            addresses=self._addresses,
            weights=render.weights(algorithm, self._scenario),
            files=network.raise_files(),
            root=os.geteuid() == 0,
            socket=socket,
            clients=self._clients,
        )
        scene.folder.mkdir(exist_ok=True)
        if not algorithm.ours:
            return scene
        checkout, nginx = self._place.checkout, self._place.programs.nginx
        servers = len(self._addresses)
        blocks = steelyard_blocks(checkout, nginx, servers=servers, clients=self._clients)
        return replace(scene, upstream=blocks)


def why_missing(algorithm: Algorithm, programs: Programs) -> str | None:
    """Say why an algorithm cannot be measured here, and which package would help; None when it can."""
    why = programs.why_missing(algorithm.program, algorithm.method)
    if why is None and algorithm.ours and algorithm.method in BORROWED and not _has_lua_balancer(programs):
        return (
            f"picker {algorithm.method} needs lua-resty-balancer, which nginx's Lua does not find "
            "(opm get openresty/lua-resty-balancer, or luarocks install lua-resty-balancer)"
        )
    is_tcp = algorithm.ours and algorithm.mode == "tcp"
    if why is None and is_tcp and programs.modules.get(STREAM_LUA) is None:
        return f"{programs.nginx} has no ngx_stream_lua, which OpenResty has (--nginx PATH)"
    return why


def _has_lua_balancer(programs: Programs) -> bool:
    # ngx_lua is a part of nginx or a module, and the folders that it was built for are written into it.
    binaries = [Path(programs.nginx), *map(Path, programs.modules[LUA] or ())]
    found_in = (re.findall(rb"(/[\w./-]+)/\?\.lua", binary.read_bytes()) for binary in binaries)
    folders = {*LUA_FOLDERS, *(Path(folder.decode()) for some in found_in for folder in some)}
    return any((folder / "resty" / "roundrobin.lua").exists() for folder in folders)


@contextlib.contextmanager
def _cpus_aside() -> Iterator[set[int]]:
    """Give the proxy a CPU of its own, and the others to this process and what it starts meanwhile."""
    before = os.sched_getaffinity(0)
    proxy, others = network.divide_cpus()
    os.sched_setaffinity(0, others)
    try:
        yield proxy
    finally:
        os.sched_setaffinity(0, before)
