"""Servers come and go, drain and change their weights under load, and no request fails.

This test is short; `make churn` takes a minute.
"""

import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from steelyard_loadtest.machine import picker_list

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from testing.daemons import free_port, listens
from testing.nginx_under_test import load_modules
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

SECONDS = int(os.environ.get("CHURN_SECONDS", "5"))
STEP_S = min(1.0, SECONDS / 10)
PICKERS = picker_list.own()
# Rounds through all pickers: each is there for three changes, or fewer if time is short.
ROUNDS = max(1, SECONDS // (3 * len(PICKERS)))


class Server:
    """An nginx that answers after 0 to 20 ms; `kill` ends it like a crash."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.port = name, free_port()
        self.address = f"127.0.0.1:{self.port}"
        home = folder / name
        home.mkdir()
        temporary = " ".join(
            f"{kind}_temp_path {home}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (home / "nginx.conf").write_text(f"""
{load_modules()}
daemon off; pid {home}/pid; error_log {home}/error.log; master_process off;
events {{ worker_connections 256; }}
http {{ access_log off; {temporary} keepalive_requests 100000; server {{ listen {self.address}; location / {{
  content_by_lua_block {{ ngx.sleep(math.random() * 0.02) ngx.say("{name}") }} }} }} }}
""")
        self._process = subprocess.Popen(
            ["nginx", "-p", str(home), "-c", str(home / "nginx.conf"), "-e", str(home / "error.log")]
        )
        wait_until(lambda: listens(self.port), f"{name} listens")

    def kill(self) -> None:
        """Kill it, with its connections."""
        self._process.kill()
        self._process.wait()


class Churn:
    """A fleet that changes at each step: one server joins, one drains, one leaves, and weights change."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.edge: Edge | None = None
        self._rig, self._folder = rig, folder
        self._random = random.Random(7)
        self._names = iter(f"s{n:03d}" for n in range(10_000))
        self._generation = 0
        self.up: list[Server] = []
        self.draining: list[Server] = []
        self.gone: list[Server] = []
        self.changes = {"added": 0, "drained": 0, "removed": 0, "re-weighted": 0}

    def add(self) -> None:
        """Start a server and add it."""
        self.up.append(Server(self._folder, next(self._names)))
        self.changes["added"] += 1

    def step(self, picker: str) -> None:
        """Kill servers outside every table, remove the drained one, drain one, add one; publish."""
        self._wait_served()
        while self.gone:
            self.gone.pop().kill()
        self.gone, self.draining = self.draining, []
        self.changes["removed"] += len(self.gone)
        self.add()
        if len(self.up) > 4:
            self.draining.append(self.up.pop(self._random.randrange(len(self.up))))
            self.changes["drained"] += 1
        self.publish(picker)
        self.changes["re-weighted"] += len(self.up)

    def _wait_served(self) -> None:
        """Wait until every worker has the last table, and draining servers have answered all requests."""
        assert self.edge is not None
        edge, draining = self.edge, {server.name for server in self.draining}
        edge.wait_for(self._generation)
        wait_until(
            lambda: not any(peer["in_flight"] for peer in edge.upstream()["peers"] if peer["id"] in draining),
            "who drains has answered",
        )

    def publish(self, picker: str) -> int:
        """Publish the fleet with weights drawn anew; return the generation."""
        self._generation += 1
        rows = [(server.name, server.address, self._random.randint(1, 1000), "up") for server in self.up]
        rows += [(server.name, server.address, 100, "drain") for server in self.draining]
        self._rig.publish(rows, generation=self._generation, picker=picker)
        return self._generation

    def stop(self) -> None:
        """Kill the remaining servers."""
        for server in self.up + self.draining + self.gone:
            server.kill()


@pytest.mark.parametrize("workers", [1, 4])
def test_no_request_fails_while_servers_come_and_go(rig: Rig, tmp_path: Path, workers: int) -> None:
    if shutil.which("wrk") is None:
        pytest.fail("wrk is not installed: run `make setup-tests`")
    churn = Churn(rig, tmp_path)
    try:
        for _ in range(4):
            churn.add()
        first = churn.publish(PICKERS[0])
        edge = churn.edge = rig.edge(workers=workers)
        edge.wait_for(first)
        wrk = subprocess.Popen(
            [
                "wrk",
                "-t2",
                "-c32",
                f"-d{SECONDS}s",
                "--timeout",
                f"{PATIENCE_S:g}s",
                f"http://127.0.0.1:{edge.port}/",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        began = time.monotonic()
        while (part := (time.monotonic() - began) / SECONDS) < 1:
            churn.step(PICKERS[int(part * ROUNDS * len(PICKERS)) % len(PICKERS)])
            time.sleep(STEP_S)
        report = wrk.communicate()[0]
        print(f"{workers} workers, {SECONDS} s: {churn.changes}\n{report}")
        requests = re.search(r"(\d+) requests in", report)
        assert requests, report
        assert int(requests[1]) > 0, report
        assert "Non-2xx" not in report, report
        assert "Socket errors" not in report, report
        # There was not even a retry: a draining server finished its requests, and got none afterwards.
        # (A Memcached that is late on a busy machine concerns no client.)
        errors = [line for line in edge.log.read_text().splitlines() if "[error]" in line]
        assert [line for line in errors if "client: " in line] == []
        wait_until(
            lambda: all(peer["in_flight"] == 0 for peer in edge.upstream()["peers"]), "nothing is in flight"
        )
    finally:
        churn.stop()
