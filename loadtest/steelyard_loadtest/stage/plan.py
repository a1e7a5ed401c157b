"""What runs on a stage: every daemon's host and command. Pure."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_loadtest.stage import hosts
from steelyard_loadtest.stage.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a stage's files are, and the programs that it needs.

    clocks: the library that fakes them; None: they are true.
    """

    folder: Path
    checkout: Path
    nginx: str
    nginx_modules: tuple[str, ...]
    memcached: str
    redis: str
    clocks: Path | None = None

    @property
    def key_file(self) -> Path:
        """Return the file with the shared key."""
        return self.folder / "secrets" / "key"

    @property
    def admin_token_file(self) -> Path:
        """Return the file with the token that may do everything."""
        return self.folder / "secrets" / "admin-token"

    @property
    def read_token_file(self) -> Path:
        """Return the file with the token that may read."""
        return self.folder / "secrets" / "read-token"

    @property
    def state_dir(self) -> Path:
        """Return nginx's folder of saved tables."""
        return self.folder / "nginx-state"

    @property
    def redis_dir(self) -> Path:
        """Return the folder that Redis appends its file in."""
        return self.folder / "redis"

    def clock(self, host: str) -> Path:
        """Return the file that says how far a host's clock is off."""
        return self.folder / "clocks" / host


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One daemon: where it runs, what starts it, where it answers, and how it is told to stop.

    port: None where it does not listen. orphan_signal: see machine.process.
    """

    name: str
    host: str
    command: tuple[str, ...]
    port: int | None = None
    stop_signal: str = "TERM"
    orphan_signal: str = "KILL"
    environment: Mapping[str, str] = field(default_factory=dict)


def parts(settings: Settings, place: Place) -> tuple[Part, ...]:
    """Return the daemons in the order in which they start."""
    found = [_memcached(place), _redis(place)]
    found += [_controller(settings, place, name) for name in hosts.controllers(settings)]
    for name in hosts.servers(settings):
        found += [_server(settings, place, name), _agent(settings, place, name)]
    found.append(_nginx(place))
    return tuple(found)


def proxies() -> tuple[Part, ...]:
    """Return the proxies before the stores, which are the stage's own and no part of the cluster."""
    return tuple(
        Part(
            name=f"{store}-proxy",
            host=store,
            command=(
                sys.executable, "-m", "steelyard_loadtest.stage.proxy",
                "--port", str(port),
                "--to", f"127.0.0.1:{hosts.DAEMON_PORTS[store]}",
                "--control-port", str(hosts.CONTROL_PORT),
            ),
            port=hosts.CONTROL_PORT,
            environment={"PYTHONUNBUFFERED": "1"},
        )
        for store, port in hosts.STORE_PORTS.items()
    )  # fmt: skip


def environment(place: Place, host: str) -> dict[str, str]:
    """Return what tells the library how late it is on a host; nothing where clocks are true."""
    if place.clocks is None:
        return {}
    return {
        "LD_PRELOAD": str(place.clocks),
        "FAKETIME_TIMESTAMP_FILE": str(place.clock(host)),
        # Seconds between two looks at the file; by default 10.
        "FAKETIME_CACHE_DURATION": "1",
        # What counts seconds goes on as ever: it is the time of day that is stepped.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _memcached(place: Place) -> Part:
    return Part(
        name=hosts.MEMCACHED,
        host=hosts.MEMCACHED,
        command=(
            place.memcached, "-l", "0.0.0.0", "-p", str(hosts.DAEMON_PORTS[hosts.MEMCACHED]),  # noqa: S104
            # As root it wants to be told who to be; becoming somebody else would also take away from it
            # that it ends with this program (prctl(2), PR_SET_PDEATHSIG).
            "-u", "root", "-U", "0", "-m", "64", "-c", "4096",
        ),
        port=hosts.DAEMON_PORTS[hosts.MEMCACHED],
        environment=environment(place, hosts.MEMCACHED),
    )  # fmt: skip


def _redis(place: Place) -> Part:
    return Part(
        name=hosts.REDIS,
        host=hosts.REDIS,
        command=(
            place.redis, "--bind", "0.0.0.0", "--port", str(hosts.DAEMON_PORTS[hosts.REDIS]),  # noqa: S104
            "--protected-mode", "no", "--daemonize", "no", "--dir", str(place.redis_dir),
            # What was declared outlives a restart, as docker-compose.yml has it.
            "--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
        ),
        port=hosts.DAEMON_PORTS[hosts.REDIS],
        environment=_without_jemalloc(environment(place, hosts.REDIS)),
    )  # fmt: skip


def _without_jemalloc(environment: Mapping[str, str]) -> Mapping[str, str]:
    # Debian's Redis takes its memory from jemalloc. That asks for the time while it is made, and libfaketime
    # asks for memory while it is made: neither gets any further. So libc's malloc stands before it.
    more = {name: f"{value}:libc.so.6" for name, value in environment.items() if name == "LD_PRELOAD"}
    return dict(environment) | more


def _controller(settings: Settings, place: Place, name: str) -> Part:
    addresses = hosts.addresses(settings)
    command = [
        sys.executable, "-m", "steelyard_controller", "--config", str(place.folder / "controller.yaml"),
        "--id", name, "--api-host", "0.0.0.0", "--api-port", str(hosts.API_PORT),  # noqa: S104
        "--advertise-url", f"http://{addresses[name]}:{hosts.API_PORT}",
        "--memcached", _store(settings, hosts.MEMCACHED),
        "--state-url", f"redis://{_store(settings, hosts.REDIS)}/0",
        "--tick-s", str(settings.tick_s), "--lease-s", str(settings.lease_s),
        "--admin-token-file", str(place.admin_token_file),
    ]  # fmt: skip
    if settings.signed:
        command += ["--key-file", str(place.key_file), "--read-token-file", str(place.read_token_file)]
    return Part(
        name=name,
        host=name,
        command=tuple(command),
        port=hosts.API_PORT,
        environment=_python(place, name),
    )


def _server(settings: Settings, place: Place, name: str) -> Part:
    command = [
        sys.executable, "-m", "steelyard_loadtest.server", "--name", name, "--host", "0.0.0.0",  # noqa: S104
        "--port", str(hosts.SERVER_PORT), "--limit-by", "none", "--pid-file", str(_pid_file(place, name)),
    ]  # fmt: skip
    if settings.server_delay_ms:
        command += ["--delay-ms", str(settings.server_delay_ms)]
    return Part(
        name=name,
        host=name,
        command=tuple(command),
        port=hosts.SERVER_PORT,
        environment=_python(place, name),
    )


def _agent(settings: Settings, place: Place, server: str) -> Part:
    command = [
        sys.executable, "-m", "steelyard_agent", "--upstream", settings.upstream, "--peer", server,
        "--memcached", _store(settings, hosts.MEMCACHED),
        # One core is what a demo server can use.
        "--scope", "process", "--pid-file", str(_pid_file(place, server)), "--cpu-limit", "1",
    ]  # fmt: skip
    if settings.signed:
        command += ["--key-file", str(place.key_file)]
    return Part(
        name=hosts.agent_of(server), host=server, command=tuple(command), environment=_python(place, server)
    )


def _nginx(place: Place) -> Part:
    folder = place.folder
    return Part(
        name="nginx",
        host=hosts.EDGE,
        command=(
            place.nginx, "-p", str(folder), "-c", str(folder / "nginx.conf"),
            "-e", str(folder / "logs" / "nginx.log"),
        ),
        port=hosts.WEB_PORT,
        stop_signal="QUIT",
        # Its workers end with it only when it may tell them.
        orphan_signal="TERM",
        environment=environment(place, hosts.EDGE),
    )  # fmt: skip


def _store(settings: Settings, name: str) -> str:
    return f"{hosts.addresses(settings)[name]}:{hosts.STORE_PORTS[name]}"


def _pid_file(place: Place, server: str) -> Path:
    return place.folder / f"{server}.pid"


def _python(place: Place, host: str) -> dict[str, str]:
    return environment(place, host) | {"PYTHONUNBUFFERED": "1"}
