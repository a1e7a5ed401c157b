"""`steelyard-loadtest cluster up | down | status`."""

import argparse
import hashlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from steelyard_loadtest.cluster.lifecycle import down, status, up
from steelyard_loadtest.cluster.plan import Cluster, Server

# The demo's servers: 1 : 1 : 2, small enough that two cores hold them and what loads them.
CPU_LIMITS = (0.15, 0.15, 0.3)

# sockaddr_un holds 108 bytes, the last of which is 0.
LONGEST_SOCKET_PATH = 107


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `cluster` to the command line."""
    parser = subparsers.add_parser("cluster", help="a whole cluster on this machine, without Docker")
    parser.add_argument("action", choices=("up", "down", "status"), help="up twice is harmless")
    parser.add_argument("--run-dir", type=Path, default=None, help="where it keeps its files and logs (.run)")
    parser.add_argument("--law", default="steelyard", help="the live control law (%(default)s)")
    parser.add_argument(
        "--limit-by",
        choices=("auto", "cgroup", "process", "none"),
        default="auto",
        help="how the demo servers' CPU is limited (%(default)s: cgroups when root)",
    )
    for flag, default, what in (
        ("--lb-port", 8080, "nginx"),
        ("--api-port", 8081, "the controller's REST API"),
        ("--server-port", 8101, "the first of the three demo servers, which take consecutive ports"),
        ("--memcached-port", 8211, "memcached"),
        ("--redis-port", 8379, "redis"),
    ):
        variable = "STEELYARD_" + flag.removeprefix("--").replace("-", "_").upper()
        parser.add_argument(
            flag,
            type=_first_port if flag == "--server-port" else _port,
            default=os.environ.get(variable, default),
            metavar="PORT",
            help=f"{what} (%(default)s; {variable})",
        )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what the command line says; return the exit status."""
    # Debian keeps nginx and some daemons where only root's PATH looks.
    os.environ["PATH"] = os.pathsep.join(
        [os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"]
    )
    try:
        cluster = _cluster(options)
        if options.action == "up":
            return up(cluster)
        return down(cluster) if options.action == "down" else status(cluster)
    except (RuntimeError, OSError) as error:
        print(f"steelyard: {error}", file=sys.stderr)
        return 1


def _cluster(options: argparse.Namespace) -> Cluster:
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / "openresty" / "lua").is_dir():
        raise RuntimeError(
            "the cluster needs a checkout of Steelyard: openresty/lua is not beside this package"
        )
    run_dir = (options.run_dir or checkout / ".run").resolve()
    socket = run_dir / "supervisor.sock"
    if len(os.fsencode(socket)) > LONGEST_SOCKET_PATH:
        digest = hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:16]
        socket = Path(tempfile.gettempdir()) / f"steelyard-{os.getuid()}-{digest}.sock"
    return Cluster(
        checkout=checkout,
        run_dir=run_dir,
        socket=socket,
        lb_port=options.lb_port,
        api_port=options.api_port,
        memcached_port=options.memcached_port,
        redis_port=options.redis_port,
        servers=tuple(
            Server(name=f"server-{number + 1}", port=options.server_port + number, cpu_limit=limit)
            for number, limit in enumerate(CPU_LIMITS)
        ),
        law=options.law,
        limit_by=options.limit_by,
        nginx_modules=_nginx_modules(),
        user=pwd.getpwuid(0).pw_name if os.getuid() == 0 else None,
    )


def _nginx_modules() -> tuple[str, ...]:
    for daemon in ("nginx", "memcached", "redis-server"):
        if shutil.which(daemon) is None:
            raise RuntimeError(f"{daemon} is not installed; `make setup` installs it, or says how to")
    said = subprocess.run(["nginx", "-V"], capture_output=True, text=True, check=True).stderr
    if "--add-module=../ngx_lua" in said or "lua-nginx-module" in said:
        return ()
    folder = next(
        (part.split("=", 1)[1] for part in said.split() if part.startswith("--modules-path=")),
        "/usr/lib/nginx/modules",
    )
    found = tuple(str(Path(folder) / f"{name}.so") for name in ("ndk_http_module", "ngx_http_lua_module"))
    if not all(Path(path).exists() for path in found):
        raise RuntimeError("nginx has no Lua here: install libnginx-mod-http-lua (`make setup` does it)")
    return found


def _first_port(text: str) -> int:
    port = _port(text)
    if port > 65535 - len(CPU_LIMITS) + 1:
        raise argparse.ArgumentTypeError(f"{port} is too high: {len(CPU_LIMITS)} ports are needed")
    return port


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1..65535)")
    return int(text)
