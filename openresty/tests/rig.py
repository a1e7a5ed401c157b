"""The rig of a test of the data plane: a memcached with weight tables, nginx, and small servers behind it.

Everything listens on free ports of loopback and is stopped with the rig, so the tests run beside each other
and beside a cluster.
"""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge, config, one_upstream
from testing import warm_start
from testing.daemons import free_port, listens
from testing.waiting import PATIENCE_S, wait_until


class Memcached:
    """A memcached, with values of up to 16 MB; `get` and `set` speak its text protocol."""

    def __init__(self) -> None:
        self.port = free_port()
        command = ["memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", "-I", "16m"]
        self._process = subprocess.Popen([*command, *(["-u", "nobody"] if os.geteuid() == 0 else [])])
        wait_until(lambda: listens(self.port), "memcached listens")

    def set(self, key: str, value: bytes | str) -> None:
        """Store a value."""
        data = value if isinstance(value, bytes) else value.encode()
        answer = self._ask(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(data), data), b"\r\n")
        assert answer == b"STORED\r\n"

    def get(self, key: str) -> bytes | None:
        """Return a value."""
        answer = self._ask(b"get %s\r\n" % key.encode(), b"END\r\n")
        head, _, rest = answer.partition(b"\r\n")
        return rest[: int(head.split()[3])] if head.startswith(b"VALUE") else None

    def _ask(self, request: bytes, end: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
            connection.sendall(request)
            answer = b""
            while not answer.endswith(end):
                answer += connection.recv(65536)
            return answer

    def stop(self) -> None:
        """Kill it; harmless if it is dead."""
        self._process.kill()
        self._process.wait()


# The figures of a traffic report with a list each.
REPORTED = ("completed", "failed", "in_flight", "latency_ms", "latency_p50_ms", "cost")


class Rig:
    """Starts the parts of a test, and stops all of them afterwards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop = contextlib.ExitStack()
        self.memcached = Memcached()
        self._stop.callback(self.memcached.stop)

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """Ask again and again until it holds; fail with `what` if it does not in time."""
        wait_until(holds, what)

    def dead_address(self) -> str:
        """Return an address without a listener; none can start there while this rig exists."""
        # Bound without SO_REUSEADDR and without a listener: connections are refused, and a parallel test
        # cannot start a daemon there. The kernel chooses the port, because one from free_port may still have
        # connections in TIME_WAIT, and only SO_REUSEADDR ignores these.
        held = self._stop.enter_context(contextlib.closing(socket.socket()))
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"

    def backend(self, name: str, tls: ssl.SSLContext | None = None) -> Backend:
        """Start a server, for https with `tls`."""
        backend = Backend(name, tls)
        self._stop.callback(backend.stop)
        return backend

    def edge(
        self,
        *,
        workers: int = 1,
        bootstrap: list[str] | None = None,
        options: str = "",
        servers: str = "}",
        main: str = "",
    ) -> Edge:
        """Start an nginx; `options` go to init_worker, `servers` follow the first server's locations."""
        listed = ", ".join(f'"{address}"' for address in bootstrap or [])
        if "upstreams" not in options:
            # All clients have one address. Most tests send no key, so that every picker goes by the weights.
            web = f'bootstrap = {{{listed}}}, hash_key = "header:X-Key"'
            options += f"upstreams = {{ web = {{ {web} }} }},"
        return self.edge_of(one_upstream(self.memcached.port, options, servers), workers=workers, main=main)

    def edge_of(self, http: str, *, workers: int = 1, main: str = "", folder: str = "nginx") -> Edge:
        """Start an nginx with this content of http {}, and `main` before it; give each its own folder."""
        edge = Edge(self._folder / folder, config(http, workers, main), workers)
        self._stop.callback(edge.stop)
        return edge

    def publish(
        self,
        peers: list[tuple[str, str, int, str]],
        *,
        generation: int,
        term: int = 1,
        upstream: str = "web",
        picker: str = "vnswrr",
        by_size: bool = False,
        of_peers: dict[str, dict[str, Any]] | None = None,
        **members: Any,
    ) -> None:
        """Write a weight table as the controller does; a peer is (id, address, weight, state).

        Baselines are 1, or with `by_size` the weights. `of_peers` has further members of rows, by id.
        """
        rows = [
            {"id": peer, "address": address, "weight": weight, "baseline": weight if by_size else 1,
             "state": state, **(of_peers or {}).get(peer, {})}
            for peer, address, weight, state in peers
        ]  # fmt: skip
        document = {
            "v": 1, "upstream": upstream, "term": term, "generation": generation,
            "issued_at_ms": int(time.time() * 1000), "law": "steelyard", "picker": picker,
            "reporters": ["edge-1"], **members, "peers": rows,
        }  # fmt: skip
        self.memcached.set(f"steelyard:1:weights:{upstream}", json.dumps(document))

    def report(self, upstream: str = "web", lb: str = "edge-1") -> Any:
        """Return the newest traffic report with its figures by server in `peers`, or an empty one."""
        value = self.memcached.get(f"steelyard:1:traffic:{upstream}:{lb}")
        report: Any = json.loads(value) if value else {"seq": 0, "ids": []}
        columns = {name: column for name, column in report.items() if name in REPORTED}
        loads = report.get("loads", {})
        report["peers"] = {
            peer: {name: column[place] for name, column in columns.items()}
            | ({"load": loads[peer]} if peer in loads else {})
            for place, peer in enumerate(report["ids"])
        }
        return report

    @contextlib.contextmanager
    def controller(self, servers: list[Backend]) -> Iterator[str]:
        """Run a controller of the default law on the memcached, for the upstream `web`; yield its URL."""
        row = '      - {{ id: {0.name}, address: "{0.address}", baseline: 1 }}\n'
        config = self._folder / "controller.yaml"
        config.write_text("upstreams:\n  web:\n    peers:\n" + "".join(map(row.format, servers)))
        port = free_port()
        command = [
            sys.executable, "-m", "steelyard_controller", "--config", str(config),
            "--api-port", str(port), "--memcached", f"127.0.0.1:{self.memcached.port}",
            "--state-url", "memory://",
        ]  # fmt: skip
        with (self._folder / "controller.log").open("wb") as log:
            daemon = warm_start.Popen(command, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            daemon.kill()
            daemon.wait()

    def stop(self) -> None:
        """Stop everything, the last started first."""
        self._stop.close()
