"""The whole cluster, as `make up` starts it: weights follow the load."""

import contextlib
import http.client
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.processes import holder, wait_ended

from testing.daemons import Daemon, free_port
from testing.visitors import Visitors
from testing.waiting import PATIENCE_S, wait_until

from .e2e_cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def request(port: int, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def web(cluster: Cluster) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(request(cluster.api, "/v1/upstreams/web")[2])
    return document


def load_on(cluster: Cluster) -> Visitors:
    """Return half as many requests as the servers can answer (0.6 cores, a millisecond or so a request)."""
    return Visitors(cluster.lb, requests_per_s=220, connections=24)


def test_a_request_is_answered_and_says_by_whom(cluster: Cluster) -> None:
    status, headers, body = request(cluster.lb, "/")
    assert status == 200
    assert headers["x-served-by"] == headers["x-steelyard-server"] == json.loads(body)["server"]


def test_up_twice_is_harmless(cluster: Cluster) -> None:
    before = _pids(cluster)
    again = cluster.command("up")
    assert (again.returncode, _pids(cluster)) == (0, before)
    assert f"http://127.0.0.1:{cluster.lb}/" in again.stdout


def test_nginx_says_what_it_does(cluster: Cluster) -> None:
    document = json.loads(request(cluster.lb, "/steelyard/status")[2])
    shown = document["upstreams"]["web"]
    assert shown["rung"] == "fresh"
    assert [peer["id"] for peer in shown["peers"]] == ["server-1", "server-2", "server-3"]
    assert shown["generation"] > 0


def test_share_falls_while_a_server_burns_and_returns(cluster: Cluster) -> None:
    with load_on(cluster) as load:
        # Weights begin alike, so a share of that time is no reference.
        wait_until(lambda: _has_learnt_the_sizes(cluster))
        calm = load.share("server-1", 1000)
        assert request(cluster.first_server, "/burn?seconds=60&workers=3", "POST")[0] < 300
        start = web(cluster)["generation"]
        ticks = _ticks_until(cluster, start, lambda: load.share("server-1", 200) < 0.6 * calm, at_most=40)
        assert ticks <= 6, f"{ticks} ticks of 1 s until the share had fallen"
        assert request(cluster.first_server, "/burn", "DELETE")[0] < 300
        start = web(cluster)["generation"]
        _ticks_until(cluster, start, lambda: load.share("server-1", 400) > 0.8 * calm, at_most=90)
    assert load.failures == []


@contextlib.contextmanager
def haproxy(cluster: Cluster, folder: Path) -> Iterator[int]:
    """Run an HAProxy with its reporter as the undeclared edge-2; yield its port."""
    folder.mkdir()
    port = free_port()
    servers = "\n".join(
        f"    server server-{n} 127.0.0.1:{cluster.first_server + n - 1} weight 100" for n in (1, 2, 3)
    )
    (folder / "haproxy.cfg").write_text(f"""global
    stats socket {folder}/admin.sock mode 600 level admin
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 30s
frontend www
    bind 127.0.0.1:{port}
    default_backend web
backend web
    balance roundrobin
{servers}
""")
    daemon = Daemon(list(parts.haproxy(port, folder / "haproxy.cfg").command), port, folder / "haproxy.log")
    daemon.start()
    reports = parts.reporter(
        folder / "admin.sock", memcached=f"127.0.0.1:{cluster.memcached}", lb="edge-2"
    ).command
    with (
        (folder / "reporter.log").open("ab") as log,
        ended(daemon.process),
        ended(subprocess.Popen(reports, stdout=log, stderr=log)),
    ):
        yield port


@contextlib.contextmanager
def nginx(cluster: Cluster, folder: Path) -> Iterator[int]:
    """Run a second nginx as the undeclared edge-3; yield its port."""
    folder.mkdir()
    port, text = free_port(), (cluster.run_dir / "nginx.conf").read_text()
    own = {f":{cluster.lb};": f":{port};", str(cluster.run_dir): str(folder), "edge-1": "edge-3"}
    for old, new in own.items():
        assert old in text
        text = text.replace(old, new)
    for name in ("logs", "nginx-state", "nginx-temp"):
        (folder / name).mkdir()
    (folder / "nginx.conf").write_text(text)
    daemon = Daemon(list(parts.nginx(port, folder, log=folder / "nginx.log").command), port, folder / "log")
    daemon.start()
    with ended(daemon.process):
        yield port


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """Tell a process to end, and wait for it."""
    assert process is not None
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def test_a_servers_weight_falls_though_nobody_declared_the_load_balancers_that_report_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    def weight() -> float:
        weights = {peer["id"]: peer["weight"] for peer in web(cluster)["peers"]}
        return float(weights["server-1"] / sum(weights.values()))

    with (
        haproxy(cluster, tmp_path / "haproxy") as one,
        nginx(cluster, tmp_path / "nginx") as other,
        Visitors(one, requests_per_s=110, connections=12) as behind_haproxy,
        Visitors(other, requests_per_s=110, connections=12) as behind_nginx,
    ):
        loads = (behind_haproxy, behind_nginx)
        start = web(cluster)["generation"]
        # The server that burnt in the previous test needs to regain trust.
        _ticks_until(cluster, start, lambda: _has_learnt_the_sizes(cluster) and weight() > 0.2, at_most=150)
        # From one load balancer alone, the controller would know of half of the requests.
        wait_until(lambda: _known_part(cluster, loads) > 0.7)
        calm, shares = weight(), [load.share("server-1", 250) for load in loads]
        assert request(cluster.first_server, "/burn?seconds=60&workers=3", "POST")[0] < 300

        def both_follow() -> bool:
            return all(
                load.share("server-1", 100) < 0.6 * share for load, share in zip(loads, shares, strict=True)
            )

        try:
            start = web(cluster)["generation"]
            _ticks_until(cluster, start, lambda: weight() < 0.6 * calm, at_most=40)
            _ticks_until(cluster, start, both_follow, at_most=60)
            balancers = web(cluster)["load_balancers"]
            assert {name: one["declared"] for name, one in balancers.items()} == {
                "edge-1": True, "edge-2": False, "edge-3": False
            }  # fmt: skip
        finally:
            assert request(cluster.first_server, "/burn", "DELETE")[0] < 300
    assert behind_haproxy.failures == behind_nginx.failures == []


def test_a_server_that_dies_fails_no_request_and_is_named(cluster: Cluster) -> None:
    with load_on(cluster) as load:
        load.next(200)
        victim = _pids(cluster)["server-2"]
        for process in [*psutil.Process(victim).children(recursive=True), psutil.Process(victim)]:
            process.kill()
        load.next(600)
    assert load.failures == []
    status = cluster.command("status")
    assert status.returncode == 1
    assert re.search(r"server-2 +not running: .*\n.*server-2\.log", status.stdout, re.DOTALL)
    again = cluster.command("up")
    assert again.returncode == 0, again.stderr
    assert cluster.command("status").returncode == 0


def test_no_server_up_is_a_502_that_says_why(cluster: Cluster) -> None:
    pids = _pids(cluster)
    servers = [psutil.Process(pids[f"server-{n}"]) for n in (1, 2, 3)]
    for server in servers:
        for process in [*server.children(recursive=True), server]:
            process.kill()
    assert wait_ended(servers, PATIENCE_S) == set()
    status, headers, body = request(cluster.lb, "/")
    problem = json.loads(body)
    assert (status, headers["content-type"]) == (502, "application/problem+json")
    assert "web" in problem["detail"]
    assert str(cluster.first_server) in problem["detail"] or "server-" in problem["detail"]
    assert cluster.command("up").returncode == 0


def test_a_taken_port_is_named_with_its_holder(tmp_path: Path, cluster: Cluster) -> None:
    other = Cluster(tmp_path)
    other.lb = cluster.lb
    up = other.command("up")
    assert up.returncode == 1
    assert up.stderr.count("\n") == 1
    assert f"port {cluster.lb} (nginx) is taken by nginx (pid " in up.stderr
    assert not [port for port in other.ports if port != cluster.lb and holder(port)]


def _has_learnt_the_sizes(cluster: Cluster) -> bool:
    weights = [peer["weight"] for peer in web(cluster)["peers"]]
    return bool(weights[2] > 0.44 * sum(weights))  # the CPUs are 1 : 1 : 2


def _known_part(cluster: Cluster, loads: Iterable[Visitors]) -> float:
    """Return the part of the requests of some ticks that the controller knows."""
    before = sum(load.served().total() for load in loads)
    known: dict[int, float] = {}
    while len(known) < 6:
        document = web(cluster)
        known[document["generation"]] = document["totals"]["completed_per_tick"]
        time.sleep(0.2)
    return sum(known.values()) / (sum(load.served().total() for load in loads) - before)


def _ticks_until(cluster: Cluster, start: int, holds: Callable[[], bool], *, at_most: int) -> int:
    """Return after how many ticks of the controller something held; fail after too many."""
    while True:
        held = holds()
        ticks = int(web(cluster)["generation"]) - start
        if held:
            return ticks
        if ticks > at_most:
            pytest.fail(f"not within {at_most} ticks: {[peer['why'] for peer in web(cluster)['peers']]}")


def _pids(cluster: Cluster) -> dict[str, int]:
    return {noted.stem: int(noted.read_text()) for noted in cluster.run_dir.glob("*.process")}
