"""Runs one demo server: socket, CPU limit, routes, and the clean-up at the end."""

import argparse
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import uvicorn

from steelyard_loadtest.server.answered import Answered, Count, LoadReport
from steelyard_loadtest.server.app import DISK_THREADS, Server, create_app
from steelyard_loadtest.server.burn import Burners
from steelyard_loadtest.server.cpu_limit import hold
from steelyard_loadtest.server.options import parser
from steelyard_loadtest.server.pace import Pace
from steelyard_loadtest.server.trouble import Troubles
from steelyard_loadtest.server.whole_answers import WholeAnswers
from steelyard_loadtest.server.work import SlowDisk, write_sync_read

# Above nginx's 60 s and Envoy's hour for idle connections to a server. The load balancer must close first;
# otherwise a request can meet a closing connection.
KEEP_ALIVE_S = 3700
SHUTDOWN_S = 3  # for requests under way; a supervisor kills after 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; 0 after an orderly end, 1 with one line on stderr when it cannot start."""
    options = parser(__doc__).parse_args(arguments)
    host, port, name = options.host, options.port, options.name
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as undo:
        try:
            listener = undo.enter_context(socket.create_server((host, port), family=family, backlog=2048))
        except OSError as error:
            why = (error.strerror or str(error)).partition(" (while")[0]  # Python repeats the address there
            return _fail(name, f"cannot listen on {host} port {port}: {why}")
        port = listener.getsockname()[1]
        try:
            count = Count(options.count_file)
        except OSError as error:
            return _fail(name, f"the count file {options.count_file}: {error.strerror}")
        # The port is part of the group's name, so that equally named servers of two clusters share no quota.
        held = undo.enter_context(hold(options.cpu_limit, f"{name}-{port}", by=options.limit_by))
        # uvicorn shuts down in order and then raises the signal again, under the handler it found: this one.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        burners = Burners(options.cpu_limit, paced=held.paced_cores is not None)
        undo.callback(burners.stop)
        undo.enter_context(contextlib.suppress(KeyboardInterrupt))
        if options.pid_file:
            undo.callback(options.pid_file.unlink, missing_ok=True)
            fresh = options.pid_file.with_name(f".{options.pid_file.name}.{os.getpid()}")
            undo.callback(fresh.unlink, missing_ok=True)
            try:
                fresh.write_text(f"{os.getpid()}\n")
                fresh.replace(options.pid_file)  # in one step, because an agent may read it at any moment
            except OSError as error:
                return _fail(name, f"the PID file {options.pid_file}: {error.strerror}")
        print(f"{name}: http://{host}:{port} {held.text}", file=sys.stderr, flush=True)
        _serve(options, listener, burners, Pace(held.paced_cores, burners.left), count)
    return 0


def _serve(
    options: argparse.Namespace, listener: socket.socket, burners: Burners, pace: Pace, count: Count
) -> None:
    slow = SlowDisk(options.disk_ops) if options.disk_ops else None
    disk_threads = 1 if slow else DISK_THREADS  # the one is the queue for the one device
    with ThreadPoolExecutor(1, "cpu") as cpu_pool, ThreadPoolExecutor(disk_threads, "disk") as disk_pool:
        app = create_app(
            Server(
                name=options.name,
                cpu_limit_cores=options.cpu_limit,
                pace=pace,
                delay_s=options.delay_ms / 1000,
                random=Random(),
                burners=burners,
                troubles=Troubles(time.monotonic),
                disk=slow.write_sync_read if slow else lambda size, _asked_s: write_sync_read(size),
                cpu_pool=cpu_pool,
                disk_pool=disk_pool,
            )
        )
        report = LoadReport(options.orca_file, count.value) if options.orca_file else None
        config = uvicorn.Config(
            Answered(app, count, report, options.workers),
            http=WholeAnswers,
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,  # a burn must come from a loopback peer, whatever its headers
            server_header=False,
            headers=[("X-Served-By", options.name)],
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        uvicorn.Server(config).run(sockets=[listener])


def _fail(name: str, why: str) -> int:
    print(f"{name}: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
