"""A status that one upstream alone calls a failure counts there; a network failure counts at the address."""

from functools import partial
from typing import Any

import pytest

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_reports import Reports

pytestmark = pytest.mark.integration

EJECT = "max_fails = 0, eject = { interval_s = 0.3, requests = 4, base_s = 60 }"
RULES = {"strict": "failure_statuses = { 404 },", "calls": "grpc = true,", "plain": ""}
SERVERS = "".join(
    f"location /{name} {{ proxy_pass http://{name}; }}\n" for name in RULES
) + "}" + "".join(
    f"""
    upstream {name} {{
      server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("{name}") }} keepalive 8;
    }}"""
    for name in RULES
)  # fmt: skip


def rows(edge: Edge, upstream: str) -> dict[str, Any]:
    return {row["id"]: row for row in edge.upstream(upstream)["peers"]}


def counted(edge: Edge, upstream: str, peer: str) -> tuple[int, int]:
    row = rows(edge, upstream)[peer]
    return row["completed"], row["failed"]


def test_a_status_ejects_a_server_from_the_upstream_that_calls_it_a_failure(rig: Rig) -> None:
    servers = {name: rig.backend(name) for name in "abc"}
    bad = servers["b"]
    bad.statuses["/strict"] = 404
    bad.headers["grpc-status"] = "14"
    for name in RULES:
        table = [(server.name, server.address, 1, "up") for server in servers.values()]
        rig.publish(table, generation=1, upstream=name, picker="vnswrr2" if name == "plain" else "vnswrr")
    listed = ", ".join(f"{name} = {{ {rules} {EJECT} }}" for name, rules in RULES.items())
    edge = rig.edge(options=f"report_interval_s = 1, upstreams = {{ {listed} }},", servers=SERVERS)
    reports = {name: Reports(rig, name) for name in RULES}
    for name in RULES:
        edge.wait_for(1, upstream=name)
    rig.wait_until(lambda: all(reports[name].read()["peers"] for name in RULES), "the first reports")

    # A report is in Memcached until the next one, a second later: it must be read meanwhile.
    def reports_agree() -> bool:
        totals = {name: report.total("b", "failed") for name, report in reports.items()}
        return totals == {name: counted(edge, name, "b")[1] for name in RULES}

    def ejects(upstream: str, peer: str) -> bool:
        reports_agree()
        edge.get(f"/{upstream}")
        return bool(rows(edge, upstream)[peer]["health"] == "ejected")

    def is_well_elsewhere(upstream: str) -> bool:
        return counted(edge, "plain", "b") == (sum(counted(edge, upstream, "b")), 0)

    for name in ("strict", "calls"):
        rig.wait_until(partial(ejects, name, "b"), f"{name} ejects b")
        assert "failed, and 0 of" in rows(edge, name)["b"]["health_reason"]
        rig.wait_until(
            partial(is_well_elsewhere, name),
            "for an upstream without rules its answers are completed",
        )
    rig.wait_until(reports_agree, "each report has the failures of its own upstream")

    # Its answers are good ones elsewhere: it stays, keeps its share, and its reports have no failure.
    shares = edge.shares(90, "/plain")
    assert {name: 20 <= share <= 40 for name, share in shares.items()} == dict.fromkeys("abc", True), shares
    assert rows(edge, "plain")["b"]["health"] == "ok"
    assert edge.logged("upstream plain: b") == 0
    rig.wait_until(reports_agree, "each report has the failures of its own upstream")
    assert {name: counted(edge, name, "b")[1] >= 4 for name in RULES} == {
        "strict": True, "calls": True, "plain": False,
    }  # fmt: skip

    # A network failure counts at the address, whichever upstream had the request.
    before = {name: counted(edge, name, "c")[1] for name in RULES}
    servers["c"].stop()
    rig.wait_until(lambda: edge.get("/strict") and counted(edge, "plain", "c")[1] >= 2, "c fails")
    rig.wait_until(
        lambda: len({counted(edge, name, "c")[1] - before[name] for name in RULES}) == 1,
        "all upstreams count the same failures",
    )
    rig.wait_until(lambda: edge.get("/strict") and ejects("plain", "c"), "another upstream ejects c")
