"""Which programs are on this machine, in which versions, and what is missing."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard_loadtest.machine.errors import SetupError

ASK_S = 20.0

LUA = ("ndk_http_module", "ngx_http_lua_module")
FAIR = ("ngx_http_upstream_fair_module",)
VNSWRR = ("ngx_http_upstream_vnswrr_module",)


class Balancer(Protocol):
    """One way to spread requests: a program, and the method that is written into its configuration."""

    @property
    def program(self) -> str:
        """Return which of direct, nginx, steelyard, haproxy and envoy it is."""

    @property
    def method(self) -> str:
        """Return nginx's directive (`fair;`), our picker, or what another program calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Paths of programs (None: not here), what nginx has to load for each module set, and versions."""

    wrk: str | None
    siege: str | None
    nginx: str
    backend_nginx: str
    memcached: str | None
    haproxy: str | None
    envoy: str | None
    modules: Mapping[tuple[str, ...], tuple[str, ...] | None]
    versions: Mapping[str, str]

    def why_missing(self, balancer: Balancer) -> str | None:
        """Say why a balancer cannot be measured here and what would help; None when it can."""
        if balancer.program == "steelyard":
            if self.modules[LUA] is None:
                return f"{self.nginx} has no Lua (on Debian: apt-get install libnginx-mod-http-lua)"
            return None if self.memcached else "needs memcached (apt-get install memcached)"
        if balancer.program == "haproxy":
            return None if self.haproxy else "not installed (apt-get install haproxy)"
        if balancer.program == "envoy":
            needs = "pip install --require-hashes -r requirements/bench.txt"
            return None if self.envoy else f"not installed ({needs})"
        if self.needs(balancer) is None:
            if balancer.method == "fair;":
                package = "on Debian: apt-get install libnginx-mod-http-upstream-fair"
                return f"{self.nginx} has no ngx_http_upstream_fair_module ({package})"
            return f"{self.nginx} is not Tengine (--nginx PATH)"
        return None

    def needs(self, balancer: Balancer) -> tuple[str, ...] | None:
        """Return the modules that nginx must load for a balancer; None when it has not got them."""
        if balancer.program == "steelyard":
            return self.modules[LUA]
        return self.modules.get({"fair;": FAIR, "vnswrr;": VNSWRR}.get(balancer.method, ()), ())


def find(nginx: str | None) -> Found:
    """Look around. `nginx` is the one to measure, by default the one on PATH. Raises SetupError."""
    # Debian keeps nginx and HAProxy where only root's PATH looks.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"])
    wrk = shutil.which("wrk")
    siege = shutil.which("siege")
    backend = shutil.which("nginx") or (nginx and shutil.which(nginx))
    measured = shutil.which(nginx or "nginx")
    if measured is None or not backend:
        raise SetupError(f"there is no nginx at {nginx or 'PATH'} (apt-get install nginx, or --nginx PATH)")
    said = _say([measured, "-V"])
    folder = re.search(r"--modules-path=(\S+)", said)
    modules_path = Path(folder[1]) if folder else Path("/usr/lib/nginx/modules")
    haproxy = shutil.which("haproxy")
    # A package of Python's brings Envoy's binary; it lies beside this very Python.
    envoy = shutil.which("envoy") or shutil.which(Path(sys.executable).with_name("envoy"))
    versions = {}
    if wrk:
        versions["wrk"] = _first(r"(\d[\d.]*\S*) \[", _say([wrk, "-v"]))
    if siege:
        with tempfile.TemporaryDirectory() as home:  # siege leaves a template in its user's home
            versions["siege"] = _first(r"SIEGE (\S+)", _say([siege, "--version"], {"HOME": home}))
    versions["nginx"] = _first(r"version: (\S+)", said)
    if haproxy:
        versions["HAProxy"] = _first(r"version (\S+)", _say([haproxy, "-v"]))
    if envoy:
        versions["Envoy"] = _first(r"/(\d+\.\d+\.\d+)/", _say([envoy, "--version"]))
    return Found(
        wrk=wrk,
        siege=siege,
        nginx=measured,
        backend_nginx=backend,
        memcached=shutil.which("memcached"),
        haproxy=haproxy,
        envoy=envoy,
        modules={names: _load(Path(measured), modules_path, names) for names in (LUA, FAIR, VNSWRR)},
        versions=versions,
    )


def _load(binary: Path, folder: Path, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the files to load for these modules; none for those that are part of the binary."""
    inside = binary.read_bytes()
    files = [folder / f"{name}.so" for name in names if name.encode() not in inside]
    return tuple(map(str, files)) if all(file.exists() for file in files) else None


def _say(command: list[str], more: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=ASK_S, env=os.environ | (more or {})
    )
    return done.stdout + done.stderr


def _first(pattern: str, said: str) -> str:
    match = re.search(pattern, said)
    return match[1] if match else "of an unknown version"
