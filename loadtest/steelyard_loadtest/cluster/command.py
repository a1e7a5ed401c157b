"""`steelyard-loadtest cluster up | down | status`."""

import argparse
import os
import pwd
import shutil
from functools import partial
from pathlib import Path

from steelyard_loadtest.cluster.lifecycle import down, status, up
from steelyard_loadtest.cluster.plan import Cluster, Server
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.find_programs import look_in_system_folders, modules
from steelyard_loadtest.machine.programs import LUA
from steelyard_loadtest.reporting.exit_status import exit_status
from steelyard_loadtest.reporting.flags import Subparsers, whole

# The demo's servers: 1 : 1 : 2, small enough for two cores together with their load.
CPU_LIMITS = (0.15, 0.15, 0.3)

WHAT = "a whole cluster on this machine, without Docker"

HIGHEST_PORT = 65535


def add_parser(subparsers: Subparsers) -> None:
    """Add `cluster` to the command line."""
    parser = subparsers.add_parser("cluster", help=WHAT, description=f"Start, stop or check {WHAT}.")
    parser.add_argument(
        "action", choices=("up", "down", "status"), help="start, stop or check it; a second `up` is harmless"
    )
    add_cluster_flags(parser)
    parser.set_defaults(run=partial(exit_status, "cluster", _run))


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `cluster_of` reads: folder, law and ports."""
    flag = parser.add_argument
    flag("--run-dir", type=Path, default=None, help="folder for files and logs (default .run)")
    flag("--law", default="steelyard", help="control law (default %(default)s)")
    port = whole(1, HIGHEST_PORT, "port")
    first_port = whole(1, HIGHEST_PORT - len(CPU_LIMITS) + 1, "port", f", as {len(CPU_LIMITS)} are needed")
    for name, kind, default, what in (
        ("lb", port, 8080, "port of nginx"),
        ("api", port, 8081, "port of the controller's REST API"),
        ("server", first_port, 8101, "first port of the three demo servers, which take consecutive ones"),
        ("memcached", port, 8211, "port of Memcached"),
        ("redis", port, 8379, "port of Redis"),
    ):
        variable = f"STEELYARD_{name.upper()}_PORT"
        text = f"{what} (default %(default)s; {variable})"
        default_port = os.environ.get(variable, default)
        flag(f"--{name}-port", type=kind, default=default_port, metavar="PORT", help=text)


def _run(options: argparse.Namespace) -> int:
    return {"up": up, "down": down, "status": status}[options.action](cluster_of(options))


def cluster_of(options: argparse.Namespace) -> Cluster:
    """Return the cluster that the flags describe, running or not. Raises SetupError."""
    look_in_system_folders()
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / "openresty" / "steelyard").is_dir():
        raise SetupError("the cluster needs a checkout of Steelyard: openresty/ is not beside this package")
    return Cluster(
        checkout=checkout,
        run_dir=(options.run_dir or checkout / ".run").resolve(),
        lb_port=options.lb_port,
        api_port=options.api_port,
        memcached_port=options.memcached_port,
        redis_port=options.redis_port,
        servers=tuple(
            Server(name=f"server-{number + 1}", port=options.server_port + number, cpu_limit=limit)
            for number, limit in enumerate(CPU_LIMITS)
        ),
        law=options.law,
        nginx_modules=_nginx_modules(),
        user=pwd.getpwuid(0).pw_name if os.getuid() == 0 else None,
    )


def _nginx_modules() -> tuple[str, ...]:
    for daemon in ("nginx", "memcached", "redis-server"):
        if shutil.which(daemon) is None:
            raise SetupError(
                f"{daemon} is not installed: run `make setup`, which installs it or explains how"
            )
    lua = modules(shutil.which("nginx") or "nginx", LUA)
    if lua is None:
        raise SetupError("nginx has no Lua: install libnginx-mod-http-lua (`make setup` does it)")
    return lua
