"""The daemons of a cluster: each one's command, port, and signal to stop. Pure.

One description serves everything that the lab builds: a local cluster, a stage of network namespaces, the
contenders of a comparison. Each user places its parts and adds flags of its own. cluster/nginx.py has the
files for nginx and the controller.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"

UPSTREAM = "web"
"""The upstream's name for agents, controllers and balancers."""

ONE_CPU = {"GOMAXPROCS": "1"}
"""A Go program's threads that run at a time; nginx and HAProxy have as many workers or threads."""

Flag = str | int | float | Path | None
"""A flag's value; None leaves the flag out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One daemon: its command, its port, and how to stop it.

    host: its host, if there are several. port: None if it does not listen. orphan_signal: see
    machine.process. order: of its start; equal numbers start together.
    """

    name: str
    command: tuple[str, ...]
    host: str = HOST
    port: int | None = None
    stop_signal: str = "TERM"
    orphan_signal: str = "TERM"
    order: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


def flags(values: Mapping[str, Flag]) -> list[str]:
    """Return `--name value` for each value that is not None; underscores become dashes."""
    given = [(name, value) for name, value in values.items() if value is not None]
    return [word for name, value in given for word in (f"--{name.replace('_', '-')}", str(value))]


def memcached(
    port: int, *more: str, program: str = "memcached", listen: str = HOST, user: str | None = None
) -> Part:
    """Return a Memcached of 64 MB; as root it needs the name of a user to become."""
    command = (program, "-l", listen, "-p", str(port), "-U", "0", "-m", "64", *more)
    return Part(name="memcached", command=(*command, *(("-u", user) if user else ())), port=port)


def redis(
    port: int, folder: Path, *, program: str = "redis-server", listen: str = HOST, keep: bool = False
) -> Part:
    """Return a Redis; `keep`: its data outlives a restart, as in docker-compose.yml."""
    file = ("--appendonly", "yes", "--appendfsync", "everysec") if keep else ("--appendonly", "no")
    command = (
        program, "--bind", listen, "--port", str(port), "--dir", str(folder), "--daemonize", "no",
        "--save", "", *file, *(() if listen == HOST else ("--protected-mode", "no")),
    )  # fmt: skip
    return Part(name="redis", command=command, port=port)


def server(name: str, port: int, *, pid_file: Path, **more: Flag) -> Part:
    """Return a demo server; `more`: its other flags, such as cpu_limit=0.15."""
    words = flags({"name": name, "port": port, "pid_file": pid_file, **more})
    return _python("steelyard_loadtest.server", words, name=name, port=port, order=2)


def agent(
    server: str, *, memcached: str, pid_file: Path | None = None, upstream: str = UPSTREAM, **more: Flag
) -> Part:
    """Return a server's agent, which reads the process of `pid_file`, or the whole host.

    memcached: HOST:PORT. more: its other flags.
    """
    scope = "process" if pid_file else "host"
    own: dict[str, Flag] = {"upstream": upstream, "peer": server, "memcached": memcached, "scope": scope}
    words = flags({**own, "pid_file": pid_file, **more})
    return _python("steelyard_agent", words, name=agent_of(server), order=3)


def agent_of(server: str) -> str:
    """Return the name of a server's agent."""
    return server.replace("server", "agent")


def controller(
    port: int, config: Path, *, memcached: str, state_url: str, name: str = "controller", **more: Flag
) -> Part:
    """Return a controller whose API is at `port`; memcached: HOST:PORT. more: its other flags."""
    stores: dict[str, Flag] = {"memcached": memcached, "state_url": state_url}
    words = flags({"config": config, "api_port": port, **stores, **more})
    return _python("steelyard_controller", words, name=name, port=port, order=4)


def nginx(port: int, folder: Path, *, log: Path, program: str = "nginx", config: str = "nginx.conf") -> Part:
    """Return an nginx in the foreground that reads `config` of its folder."""
    command = (program, "-p", str(folder), "-c", str(folder / config), "-e", str(log))
    # With SIGQUIT it finishes the requests under way.
    return Part(name="nginx", command=command, port=port, stop_signal="QUIT", order=5)


def haproxy(port: int, config: Path, *, program: str = "haproxy", mode: str = "-db") -> Part:
    """Return a HAProxy in the foreground; mode -W: a master with workers."""
    return Part(name="haproxy", command=(program, mode, "-f", str(config)), port=port, order=5)


def reporter(socket: Path | str, *, memcached: str, **more: Flag) -> Part:
    """Return HAProxy's reporter, which sets its weights; socket: HAProxy's. more: its other flags."""
    own: dict[str, Flag] = {"socket": socket, "upstreams": UPSTREAM, "memcached": memcached, "lb": "edge-1"}
    words = ("haproxy", "--set-weights", *flags({**own, **more}))
    return _python("steelyard_reporter", words, name="reporter", order=6)


def envoy(port: int, config: Path, *, program: str = "envoy") -> Part:
    """Return an Envoy of one worker thread."""
    more = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "error")
    return Part(name="envoy", command=(program, "-c", str(config), *more), port=port, order=5)


def sglang(port: int, urls: Iterable[str], policy: str, metrics_port: int, *, program: str) -> Part:
    """Return an sglang-router before the engines at these URLs, whose load it polls each second."""
    own: dict[str, Flag] = {"policy": policy, "prometheus_port": metrics_port, "log_level": "error"}
    words = flags({"host": HOST, "port": port, **own, "worker_startup_check_interval": 1})
    command = (program, "launch", *words, "--worker-urls", *urls)
    return Part(name="sglang-router", command=command, port=port, order=5)


def vllm(port: int, urls: Iterable[str], policy: str, metrics_port: int, *, program: str) -> Part:
    """Return a vllm-router before the engines at these URLs."""
    own: dict[str, Flag] = {"policy": policy, "prometheus_port": metrics_port, "log_level": "error"}
    words = flags({"host": HOST, "port": port, **own, "worker_startup_check_interval": 1})
    command = (program, *words, "--worker-urls", *urls)
    return Part(name="vllm-router", command=command, port=port, order=5)


def traefik(port: int, config: Path, *, program: str = "traefik") -> Part:
    """Return a Traefik that runs on one CPU at a time."""
    command = (program, f"--configfile={config}")
    return Part(name="traefik", command=command, port=port, order=5, environment=ONE_CPU)


def caddy(port: int, config: Path, *, program: str = "caddy") -> Part:
    """Return a Caddy that runs on one CPU at a time."""
    command = (program, "run", "--config", str(config))
    return Part(name="caddy", command=command, port=port, order=5, environment=ONE_CPU)


def _python(module: str, words: Iterable[str], *, name: str, order: int, port: int | None = None) -> Part:
    command = (sys.executable, "-m", module, *words)
    return Part(name=name, command=command, port=port, order=order)
