"""Requests of unequal cost: nginx.conf's costs steer picks, and are in the report."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Answer, Edge
from openresty.tests.rig import Rig
from openresty.tests.test_reports import Reports

pytestmark = pytest.mark.integration

DEAR, CHEAP = 100, 1
CROWD = 7


def serving(rig: Rig, settings: str, workers: int = 1, servers: str = "}") -> tuple[Edge, dict[str, Backend]]:
    behind = {name: rig.backend(name) for name in "ab"}
    rows = [(name, server.address, 1, "up") for name, server in behind.items()]
    rig.publish(rows, generation=1, picker="vnswrr2")
    options = f"report_interval_s = 2, upstreams = {{ web = {{ bootstrap = {{}}, {settings} }} }},"
    edge = rig.edge(workers=workers, options=options, servers=servers)
    edge.wait_for(1)
    return edge, behind


def status(edge: Edge) -> Any:
    return edge.status()["upstreams"]["web"]


def held(edge: Edge) -> dict[str, float]:
    return {peer["id"]: peer["in_flight"] for peer in status(edge)["peers"]}


@pytest.mark.parametrize(
    ("settings", "beside_the_dear_one"),
    [("", CROWD // 2), ('cost = "arg_tokens",', 0), ("cost = function() return ngx.var.arg_tokens end,", 0)],
    ids=["requests", "a variable", "a function"],
)
def test_cheap_requests_go_around_a_dear_one(rig: Rig, settings: str, beside_the_dear_one: int) -> None:
    edge, servers = serving(rig, settings)
    gate = threading.Event()
    for server in servers.values():
        server.holds["/held"] = gate
    waiting: list[Future[Answer]] = []

    def send(tokens: int) -> None:
        waiting.append(clients.submit(edge.get, f"/held?tokens={tokens}"))
        rig.wait_until(lambda: sum(held(edge).values()) == len(waiting), "it is at its server")

    with ThreadPoolExecutor(CROWD + 1) as clients:
        # A mean with an expensive request now and then, and equal latencies even on a busy machine.
        assert len([*clients.map(edge.get, [f"/?tokens={CHEAP}&sleep_s=0.2"] * 30)]) == 30
        try:
            send(DEAR)
            dear = next(name for name, count in held(edge).items() if count)
            for _ in range(CROWD):
                send(CHEAP)
            assert held(edge)[dear] - 1 == beside_the_dear_one
            weights = {peer["id"]: peer.get("cost_in_flight") for peer in status(edge)["peers"]}
            assert (weights[dear] is None) == (not settings)
        finally:
            gate.set()
        assert {answer.result().status for answer in waiting} == {200}
    rig.wait_until(lambda: not sum(held(edge).values()), "nothing is in flight")
    assert {peer.get("cost_in_flight", 0) for peer in status(edge)["peers"]} == {0}


@pytest.mark.parametrize("workers", [1, 2])
def test_costs_are_in_the_report_and_what_is_told_at_the_end_counts(rig: Rig, workers: int) -> None:
    at_end = 'cost = "arg_tokens", cost_at_end = "upstream_http_x_tokens",'
    edge, servers = serving(rig, at_end, workers)
    reports = Reports(rig)
    rig.wait_until(lambda: reports.read()["peers"], "a report with peers")
    servers["a"].headers["X-Tokens"] = "30"
    servers["b"].headers["X-Tokens"] = "nothing"
    for _ in range(10):
        edge.get("/?tokens=2")
        reports.read()
    edge.get("/?status=500&tokens=7")

    def costs(peer: str) -> float:
        return reports.total(peer, "cost")

    rig.wait_until(
        lambda: (
            (costs("a"), costs("b"))
            == (30 * reports.total("a", "completed"), 2 * reports.total("b", "completed"))
            and reports.total("a", "completed") + reports.total("b", "completed") == 10
        ),
        "ten requests and what they cost",
    )


def test_costs_that_are_known_at_the_end_alone_are_reported_and_steer_no_pick(rig: Rig) -> None:
    edge, servers = serving(rig, 'cost_at_end = "upstream_http_x_tokens",')
    reports = Reports(rig)
    rig.wait_until(lambda: reports.read()["peers"], "a report with peers")
    for server in servers.values():
        server.headers["X-Tokens"] = "30"
    for _ in range(10):
        edge.get()
        reports.read()
    rig.wait_until(lambda: reports.total("a", "cost") + reports.total("b", "cost") == 300, "all costs")
    servers["a"].headers.clear()
    servers["b"].headers.clear()
    edge.get()
    edge.get("/?status=500")
    rig.wait_until(lambda: reports.total("a", "cost") + reports.total("b", "cost") == 330, "a usual one")
    assert status(edge)["cost"] == {"mean": 30, "malformed": 1}
    assert not any("cost_in_flight" in peer for peer in status(edge)["peers"])


def test_an_error_page_may_lead_to_an_upstream_that_tells_no_costs(rig: Rig) -> None:
    more = """
      location /moved { proxy_pass http://web; error_page 500 = @other; proxy_intercept_errors on; }
      location @other { proxy_pass http://other; }
    }
    upstream other {
      server 0.0.0.1;
      balancer_by_lua_block { require("steelyard").balance("other") }
    }
    """
    behind = rig.backend("a")
    first, other = (
        f'bootstrap = {{ "{behind.address}" }}{settings}' for settings in (', cost = "arg_tokens"', "")
    )
    edge = rig.edge(options=f"upstreams = {{ web = {{ {first} }}, other = {{ {other} }} }},", servers=more)
    gate = behind.holds["/moved"] = threading.Event()
    gate.set()
    behind.statuses["/moved"] = 500
    for tokens in (4, 400, 40):
        assert edge.get(f"/moved?tokens={tokens}").status in (200, 500)
    rig.wait_until(
        lambda: edge.status()["upstreams"]["other"]["peers"][0]["in_flight"] == 0, "all have ended"
    )
    assert status(edge)["peers"][0]["cost_in_flight"] == 0
    assert not edge.complaints()


def test_what_is_no_cost_counts_as_a_usual_one_and_is_shown(rig: Rig) -> None:
    page = 'location = /steelyard/metrics { content_by_lua_block { require("steelyard").metrics() } } }'
    edge, _ = serving(rig, 'cost = "arg_tokens",', servers=page)
    for tokens in ("4", "", "-1", "many", "1e99"):
        assert edge.get(f"/?tokens={tokens}").status == 200
    assert status(edge)["cost"] == {"mean": 4, "malformed": 4}
    assert 'steelyard_upstream_costs_malformed_total{upstream="web"} 4' in edge.get("/steelyard/metrics").body
