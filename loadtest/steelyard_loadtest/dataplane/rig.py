"""What all measurements share: the servers, a Memcached, ports, CPUs, and a proxy at a time."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard_loadtest.dataplane import render, wrk
from steelyard_loadtest.dataplane.contenders import Contender
from steelyard_loadtest.dataplane.peers import UPSTREAM, cycle, peers
from steelyard_loadtest.dataplane.publish import Publisher
from steelyard_loadtest.dataplane.records import Load
from steelyard_loadtest.machine import http_ask, network
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.found import Found
from steelyard_loadtest.machine.process import Process

TEMPLATES = Path(__file__).with_name("templates")
TABLE_S = 20.0
"""A worker has a published table within a second; a machine that is busy may take longer."""

WARM_CYCLES = 1.5
"""One cycle opens a connection to every server; half of one more fills the pools and the code cache."""

MOST_WARM_UPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A contender that runs and answers at `url`; ours has a publisher, and `direct` no process."""

    url: str
    scene: render.Scene
    process: Process | None
    publisher: Publisher | None


class Rig:
    """The servers and a Memcached; close it by `stop`."""

    def __init__(self, found: Found, folder: Path, *, connections: int) -> None:
        self._found, self._connections = found, connections
        self._folder = folder
        self._stop = contextlib.ExitStack()
        self._checkout = Path(__file__).resolve().parents[3]
        self._files = network.raise_files()
        self._proxy_cpus, own_cpus = network.share_out_cpus()
        self._backend_port, self._memcached_port, self._port = network.free_ports(3)
        self._backend_workers = max(1, len(own_cpus) // 2)
        self._scripts: dict[int, Path] = {}
        try:
            self._start_servers()
            if found.memcached:
                self._start_memcached(found.memcached)
        except ProgramError as error:
            self._stop.close()
            raise SetupError(str(error)) from None

    def stop(self) -> None:
        """End everything that runs."""
        self._stop.close()

    def load(self, url: str, *, seconds: int, connections: int | None = None, think_ms: int = 0) -> Load:
        """Load a URL. Raises ProgramError."""
        script = self._script(think_ms)
        many = connections or self._connections
        return wrk.run(self._found.wrk or "wrk", url, script=script, connections=many, seconds=seconds)

    def warm_up(self, proxy: Proxy) -> None:
        """Load it until the connections to all servers are open. Raises ProgramError."""
        left = WARM_CYCLES * cycle(proxy.scene.peers)
        for _ in range(MOST_WARM_UPS):
            left -= self.load(proxy.url, seconds=1).requests
            if left <= 0:
                return

    @contextlib.contextmanager
    def proxy(self, contender: Contender, count: int) -> Iterator[Proxy]:
        """Start a contender before so many servers; end it afterwards. Raises ProgramError."""
        scene = self._scene(count, contender)
        if contender.program == "direct":
            yield Proxy(url=f"http://{scene.peers[0].address}/", scene=scene, process=None, publisher=None)
            return
        with contextlib.ExitStack() as stack:
            publisher = None
            if contender.program == "steelyard":
                scene = replace(scene, upstream=self._our_upstream(count))
                publisher = Publisher(self._memcached_port, scene.peers, contender.method)
                stack.enter_context(publisher)
            process = self._start_proxy(contender, scene)
            stack.callback(process.stop)
            process.wait_listening(scene.port)
            if publisher:
                self.wait_for_table(contender, publisher.generation)
            status = self._get("/")[0]
            if status != 200:
                raise ProgramError(f"it answers {status}: {process.last_words()}")
            url = f"http://127.0.0.1:{scene.port}/"
            yield Proxy(url=url, scene=scene, process=process, publisher=publisher)

    def wait_for_table(self, contender: Contender, generation: int) -> None:
        """Wait until our proxy serves this table, or a later one. Raises ProgramError."""
        deadline = time.monotonic() + TABLE_S
        while True:
            status, body = self._get("/steelyard/status")
            if status != 200:
                raise ProgramError(f"its status page answers {status}: {body[:300]!r}")
            upstream = json.loads(body)["upstreams"][UPSTREAM]
            if (upstream["generation"] or 0) >= generation:
                break
            if time.monotonic() > deadline:
                raise ProgramError(f"no weight table within {TABLE_S:.0f} s: {upstream['last_fetch']}")
            time.sleep(0.05)
        if upstream["picker"] != contender.method:
            raise ProgramError(f"it has no picker {contender.method}; it fell back to {upstream['picker']}")

    def _write(self, contender: Contender, scene: render.Scene) -> Path:
        """Write a contender's configuration; return its path."""
        template = render.TEMPLATES[contender.program]
        path = scene.folder / template
        path.write_text(render.configuration(contender, scene, _template(template)))
        return path

    def _start_servers(self) -> None:
        scene = self._scene(1, None)
        config = scene.folder / "backend.conf"
        config.write_text(render.backend(scene, _template("backend.conf")))
        command = [self._found.backend_nginx, "-p", str(scene.folder), "-c", str(config)]
        log = scene.folder / "backend.log"
        servers = Process([*command, "-e", str(log)], log)
        self._stop.callback(servers.stop)
        servers.wait_listening(self._backend_port)

    def _start_memcached(self, memcached: str) -> None:
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        port = str(self._memcached_port)
        command = [memcached, "-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "1", *user]
        process = Process(command, self._folder / "memcached.log")
        self._stop.callback(process.stop)
        process.wait_listening(self._memcached_port)

    def _start_proxy(self, contender: Contender, scene: render.Scene) -> Process:
        path = str(self._write(contender, scene))
        log = scene.folder / "proxy.log"
        command = {
            "haproxy": [self._found.haproxy or "", "-db", "-f", path],
            "envoy": [self._found.envoy or "", "-c", path, "--concurrency", "1", "--disable-hot-restart",
                      "--log-level", "error"],
        }.get(contender.program)  # fmt: skip
        if command is None:
            log = scene.folder / "nginx.log"
            command = [self._found.nginx, "-p", str(scene.folder), "-c", path, "-e", str(log)]
        log.write_text("")  # what the last one said is not this one's
        return Process(command, log, self._proxy_cpus)

    def _our_upstream(self, count: int) -> str:
        generator = self._checkout / "openresty" / "bin" / "steelyard-upstream"
        command = [str(generator), UPSTREAM, "--servers", str(count), "--nginx", self._found.nginx]
        command += ["--concurrency", str(self._connections)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ProgramError(f"needs a checkout of Steelyard: {error}") from None
        if done.returncode != 0:
            raise ProgramError(done.stderr.strip())
        return done.stdout

    def _scene(self, count: int, contender: Contender | None) -> render.Scene:
        return render.Scene(
            folder=self._folder,
            lua_dir=self._checkout / "openresty" / "lua",
            port=self._port,
            backend_port=self._backend_port,
            memcached_port=self._memcached_port,
            peers=peers(count, self._backend_port),
            connections=self._connections,
            files=self._files,
            backend_workers=self._backend_workers,
            root=os.geteuid() == 0,
            load_modules=(self._found.needs(contender) or ()) if contender else (),
        )

    def _script(self, think_ms: int) -> Path:
        if think_ms not in self._scripts:
            figures = _template("figures.lua")
            text = render.think_script(_template("think.lua"), figures, think_ms) if think_ms else figures
            self._scripts[think_ms] = self._folder / f"wrk-{think_ms}.lua"
            self._scripts[think_ms].write_text(text)
        return self._scripts[think_ms]

    def _get(self, path: str) -> tuple[int, bytes]:
        return http_ask.ask("127.0.0.1", self._port, path, timeout_s=10)


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
