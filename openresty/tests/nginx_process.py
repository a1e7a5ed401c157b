"""The nginx under test, in a folder and on a port of its own; its configuration and its answers."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testing.daemons import free_port, listens
from testing.lua_bytecode import lua_path
from testing.nginx_under_test import load_modules
from testing.waiting import PATIENCE_S, wait_until

NEVER_IN_A_LOG = ("[emerg]", "[alert]", "ngx.sleep(0)", "stack traceback", "attempt to", "runtime error")
# nginx's words for a worker that a test killed; the second if it held the lock of a shared dict.
OF_A_KILLED_WORKER = ("exited on signal 9", "was locked by")


@dataclass(frozen=True)
class Answer:
    """A client's answer."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def server(self) -> str:
        """Return the name of the server that answered."""
        return self.headers.get("X-Backend", "")

    def json(self) -> Any:
        """Return the body, which must be JSON."""
        return json.loads(self.body)


class Edge:
    """An nginx with Steelyard, in a folder of its own."""

    def __init__(self, folder: Path, config: str, workers: int) -> None:
        self.port = free_port()
        self.workers = workers
        self.log = folder / "error.log"
        self.expected: list[str] = []  # faults that the test causes
        folder.mkdir(exist_ok=True)
        self._config = path = folder / "nginx.conf"
        path.write_text(config.replace("@PORT@", str(self.port)).replace("@FOLDER@", str(folder)))
        self._command = ["nginx", "-p", str(folder), "-c", str(path), "-e", str(self.log)]
        self._process = subprocess.Popen(self._command)
        try:
            wait_until(lambda: self._process.poll() is not None or listens(self.port), "nginx listens")
        finally:
            if not listens(self.port):
                self._process.kill()
                self._process.wait()
        assert self._process.poll() is None, self.log.read_text()

    def get(self, path: str = "/", headers: dict[str, str] | None = None) -> Answer:
        """Ask over a connection of its own, so that any worker may answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()

    @contextlib.contextmanager
    def under_load(self, clients: int, path: str = "/", pause_s: float = 0.0) -> Iterator[list[int]]:
        """Run clients that send one request after the other meanwhile; the list of statuses only grows.

        Without pauses they take all of a CPU.
        """
        statuses: list[int] = []
        over = threading.Event()

        def ask() -> None:
            while not over.wait(pause_s):
                statuses.append(self.get(path).status)

        threads = [threading.Thread(target=ask) for _ in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield statuses
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def shares(self, requests: int, path: str = "/") -> dict[str, int]:
        """Send requests, which must all succeed, and return the number that each server answered."""
        counts: dict[str, int] = {}
        for _ in range(requests):
            answer = self.get(path)
            assert answer.status == 200, answer
            counts[answer.server] = counts.get(answer.server, 0) + 1
        return counts

    def status(self) -> Any:
        """Return the status document."""
        answer = self.get("/steelyard/status")
        assert answer.status == 200, answer
        return answer.json()

    def upstream(self, name: str = "web") -> Any:
        """Return an upstream's part of the status document."""
        return self.status()["upstreams"][name]

    def peer(self, peer: str) -> Any:
        """Return a peer of `web` from the status document."""
        return next(row for row in self.upstream()["peers"] if row["id"] == peer)

    def wait_for(self, generation: int, term: int = 1, upstream: str = "web") -> None:
        """Wait until every worker serves this table."""

        def all_serve_it() -> bool:
            serving = [worker["serving"].get(upstream, {}) for worker in self.status()["workers"]]
            orders = [(table.get("term"), table.get("generation")) for table in serving]
            return orders == [(term, generation)] * self.workers

        wait_until(all_serve_it, f"all {self.workers} workers serve term {term}, generation {generation}")

    def wait_refused(self, reason: str, times: int = 1) -> None:
        """Wait until values of `web` were refused for this reason, `times` times."""
        wait_until(lambda: self.upstream()["refused"][reason] >= times, f"a value refused: {reason}")

    def fetches_well(self) -> bool:
        """Tell whether half a second passes, with five fetches, and none fails.

        A fetch may fail at any time, if a busy machine keeps Memcached from answering in time.
        """
        before = self.status()["fetch_errors"]
        time.sleep(0.5)
        return bool(self.status()["fetch_errors"] == before)

    def test_config(self) -> str:
        """Return the output of `nginx -t`; empty if the configuration is right."""
        return subprocess.run([*self._command, "-t", "-q"], check=True, capture_output=True, text=True).stderr

    def master_pid(self) -> int:
        """Return the process id of the master."""
        return self._process.pid

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def rewrite(self, old: str, new: str) -> None:
        """Change a text of nginx.conf, for the next reload."""
        before = self._config.read_text()
        assert old in before
        self._config.write_text(before.replace(old, new))

    def begin_reload(self) -> None:
        """Make nginx read its configuration again; old workers stay until their last request ends."""
        self._process.send_signal(signal.SIGHUP)

    def reload(self) -> None:
        """Make nginx read its configuration again; return when the old workers are gone."""
        before = set(self.worker_pids())
        self.begin_reload()
        wait_until(lambda: before.isdisjoint(self.worker_pids()), "the old workers are gone")

    def logged(self, text: str) -> int:
        """Count the lines of the error log that contain a text."""
        return sum(text in line for line in self.log.read_text().splitlines())

    def complaints(self) -> list[str]:
        """Return the log's warnings and errors, without those about a late Memcached on a busy machine."""
        late = re.compile(r"timeout|timed out|no whole answer within")
        levels = re.compile(r"\[(warn|error|crit)\]")
        lines = self.log.read_text().splitlines()
        return [line for line in lines if levels.search(line) and not late.search(line)]

    def stop(self) -> None:
        """Stop nginx; fail if the log shows a fault in Lua or nginx itself."""
        self._process.terminate()
        self._process.wait()
        lines = (
            line
            for line in self.log.read_text().splitlines()
            if not any(mark in line for mark in (*OF_A_KILLED_WORKER, *self.expected))
        )
        broken = [line for line in lines if any(bad in line for bad in NEVER_IN_A_LOG)]
        assert not broken, broken[:5]


def config(http: str, workers: int, main: str = "") -> str:
    """Return a whole nginx.conf with this content of http {}, and `main` before it."""
    return f"""{main}
{load_modules()}
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid @FOLDER@/nginx.pid; error_log @FOLDER@/error.log notice; worker_processes {workers};
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path @FOLDER@/b; proxy_temp_path @FOLDER@/p; fastcgi_temp_path @FOLDER@/f;
  uwsgi_temp_path @FOLDER@/u; scgi_temp_path @FOLDER@/s;
  lua_package_path "{lua_path()};;";
  {http}
}}
"""


def one_upstream(memcached_port: int, options: str, servers: str) -> str:
    """Return the content of http {} for an upstream `web`."""
    return f"""
  lua_shared_dict steelyard 10m;
  init_by_lua_block {{ require "steelyard" }}
  init_worker_by_lua_block {{
    require("steelyard").init_worker{{
      memcached = {{"127.0.0.1:{memcached_port}"}}, lb = "edge-1",
      fetch_interval_s = 0.1, report_interval_s = 0.3, {options}
    }}
  }}
  log_by_lua_block {{ require("steelyard").log() }}
  upstream web {{
    server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("web") }} keepalive 64;
  }}
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_connect_timeout 1s;
  proxy_read_timeout {PATIENCE_S:g}s;
  set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;
  server {{
    listen 127.0.0.1:@PORT@;
    error_page 429 502 503 504 @steelyard_failure;
    location / {{
      proxy_pass http://web; header_filter_by_lua_block {{ require("steelyard").header() }}
    }}
    location = /steelyard/status {{ content_by_lua_block {{ require("steelyard").status() }} }}
    location @steelyard_failure {{ content_by_lua_block {{ require("steelyard").failure() }} }}
    {servers}
"""
