"""Runs one demo server: socket, CPU limit, routes, and everything undone at the end."""

import argparse
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import uvicorn

from steelyard_loadtest.server.app import DISK_THREADS, Server, create_app
from steelyard_loadtest.server.burn import Burners
from steelyard_loadtest.server.limits import LOWEST_CORES, MEANS, LimitError, hold

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # a peer's name in every Steelyard format
# Above nginx's 60 s for idle upstream connections: nginx must be the side that closes first, or a request can
# meet a closing connection.
KEEP_ALIVE_S = 75
SHUTDOWN_S = 3  # for requests under way; a supervisor kills after 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; 0 at an orderly end, 1 with one line on stderr when it cannot start."""
    options = _parser().parse_args(arguments)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=2048)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]  # Python repeats the address there
        return _fail(options.name, f"cannot listen on {options.host} port {options.port}: {why}")
    port = listener.getsockname()[1]
    try:
        # The port is part of the group's name, so that equally named servers of two clusters share no quota.
        held = hold(limit_cores=options.cpu_limit, means=options.limit_by, group=f"{options.name}-{port}")
    except LimitError as error:
        return _fail(options.name, str(error))
    # uvicorn shuts down in order and then raises the signal again, under the handler it found: this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    burners = Burners()
    try:
        with _pid_file(options.pid_file), contextlib.suppress(KeyboardInterrupt):
            print(
                f"{options.name}: http://{options.host}:{port} {held.sentence}", file=sys.stderr, flush=True
            )
            _serve(options, listener, burners)
    finally:
        burners.stop()
        held.release()
    return 0


def _serve(options: argparse.Namespace, listener: socket.socket, burners: Burners) -> None:
    limit_cores = None if options.limit_by == "none" else options.cpu_limit
    with ThreadPoolExecutor(1, "cpu") as cpu_pool, ThreadPoolExecutor(DISK_THREADS, "disk") as disk_pool:
        app = create_app(
            Server(
                name=options.name,
                cpu_limit_cores=limit_cores,
                random=Random(),
                burners=burners,
                cpu_pool=cpu_pool,
                disk_pool=disk_pool,
            )
        )
        config = uvicorn.Config(
            app,
            http="httptools",
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,  # a burn must come from a loopback peer, not from one that says so
            server_header=False,
            headers=[("X-Served-By", options.name)],
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        uvicorn.Server(config).run(sockets=[listener])


@contextlib.contextmanager
def _pid_file(file: Path | None) -> Iterator[None]:
    if file is None:
        yield
        return
    mine = f"{os.getpid()}\n"
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(mine)
    fresh.replace(file)  # in one step: an agent may read it at any moment
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if file.read_text() == mine:  # not that of a server that has taken over
                file.unlink()


def _fail(name: str, why: str) -> int:
    print(f"{name}: {why}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m steelyard_loadtest.server", description=__doc__)
    parser.add_argument("--name", required=True, type=_name, help="the peer's name, sent as X-Served-By")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", required=True, type=_port, help="port to listen on; 0 takes a free one")
    parser.add_argument("--cpu-limit", type=_cores, metavar="CORES", help="CPU limit (default: none)")
    parser.add_argument(
        "--limit-by",
        choices=MEANS,
        default="auto",
        help="cgroup: a quota, needs root; process: stop and continue signals; auto: cgroup where possible",
    )
    parser.add_argument("--pid-file", type=Path, metavar="FILE", help="write the process id there")
    return parser


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "1 to 64 letters, digits, dots, dashes or underscores, the first no mark"
        )
    return text


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 2**16):
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


def _cores(text: str) -> float:
    highest = os.cpu_count() or 1
    try:
        cores = float(text)
    except ValueError:
        cores = float("nan")
    if not LOWEST_CORES <= cores <= highest:
        raise argparse.ArgumentTypeError(
            f"a number of cores from {LOWEST_CORES} to {highest} (this machine's)"
        )
    return cores


if __name__ == "__main__":
    sys.exit(main())
