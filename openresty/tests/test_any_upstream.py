"""Upstreams without a reload: one upstream block serves each name of the controller's list."""

import contextlib
import hashlib
import hmac
import http.client
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openresty.tests.nginx_process import Answer, Edge
from openresty.tests.rig import Rig
from testing import warm_start
from testing.daemons import free_port

pytestmark = pytest.mark.integration

LIST = "steelyard:1:upstreams"
KEY = "an example key, never a real one"

OPTIONS = 'any_upstream = { cost = "arg_tokens" },'
ALONE = "any_upstream = {}, -- and no upstreams that nginx.conf declares\n"
SERVERS = """
    location = /keys {
      content_by_lua_block { ngx.say(table.concat(ngx.shared.steelyard:get_keys(0), "\\n")) }
    }
    location /any/ {
      proxy_pass http://any; proxy_read_timeout 300s; error_page 404 502 503 504 @steelyard_failure;
    }
    location = /metrics { content_by_lua_block { require("steelyard").metrics() } }
    location = /ready { content_by_lua_block { require("steelyard").ready() } }
  }
  map $host $upstream { default $host; "~^(?<label>[a-z0-9-]+)\\.example$" $label; }
  upstream any {
    server 0.0.0.1; balancer_by_lua_block { require("steelyard").balance(ngx.var.upstream) } keepalive 64;
  }
"""


def listing(*names: str, generation: int, term: int = 1, age_s: float = 0.0) -> str:
    """Return a list of upstreams in the controller's form."""
    issued_at_ms = int((time.time() - age_s) * 1000)
    document = {"v": 1, "term": term, "generation": generation, "issued_at_ms": issued_at_ms}
    return json.dumps(document | {"names": sorted(names)})


def signed(text: str, key: str = KEY) -> str:
    return hmac.digest(key.encode(), text.encode(), hashlib.sha256).hex() + "." + text


def table_of(name: str, address: str) -> str:
    """Return a weight table of one server."""
    row = {"id": "a", "address": address, "weight": 1, "baseline": 1, "state": "up"}
    document = {"v": 1, "upstream": name, "term": 1, "generation": 1, "issued_at_ms": int(time.time() * 1000)}
    return json.dumps(
        document | {"law": "static", "picker": "vnswrr", "reporters": ["edge-1"], "peers": [row]}
    )


def ask(edge: Edge, name: str, query: str = "") -> Answer:
    return edge.get(f"/any/{query}", {"Host": f"{name}.example"})


def in_list(edge: Edge) -> Any:
    return edge.status()["upstream_list"]


def wait_served(rig: Rig, edge: Edge, name: str) -> None:
    """Wait until every worker serves an upstream."""
    rig.wait_until(
        lambda: (
            [*edge.status()["workers"]] and all(name in each["serving"] for each in edge.status()["workers"])
        ),
        f"every worker serves {name}",
    )


def wait_gone(rig: Rig, edge: Edge, name: str) -> None:
    """Wait until no worker serves it."""
    rig.wait_until(
        lambda: not any(name in each["serving"] for each in edge.status()["workers"]), f"{name} is gone"
    )


def test_what_is_served_stays_when_there_is_no_room_for_one_more(rig: Rig) -> None:
    last, first = rig.backend("last"), rig.backend("first")
    edge = rig.edge(options=OPTIONS, servers=SERVERS)
    rig.memcached.set("steelyard:1:weights:zz", table_of("zz", last.address))
    rig.memcached.set("steelyard:1:weights:aa", table_of("aa", first.address))
    names = [*(f"n{number:03}" for number in range(999)), "zz"]
    rig.memcached.set(LIST, listing(*names, generation=1))
    wait_served(rig, edge, "zz")
    rig.memcached.set(LIST, listing("aa", *names, generation=2))
    rig.wait_until(lambda: in_list(edge)["beyond"] == 1, "one is left out")
    assert ask(edge, "zz").server == "last"
    assert ask(edge, "aa").status == 404
    assert edge.logged("1 upstreams more than the 1000 that are served: those that came last are left") == 1
    edge.reload()
    wait_served(rig, edge, "zz")
    rig.memcached.set(LIST, listing("aa", *names[1:], generation=3))
    wait_served(rig, edge, "aa")
    assert ask(edge, "zz").server == "last"


def test_a_new_upstream_reports_nothing_that_its_server_did_for_another_one(rig: Rig) -> None:
    shared = rig.backend("shared")
    for name in ("shop", "cart"):
        rig.publish([("s", shared.address, 1, "up")], generation=1, upstream=name)
    edge = rig.edge(options=OPTIONS, servers=SERVERS)
    rig.memcached.set(LIST, listing("shop", generation=1))
    wait_served(rig, edge, "shop")
    for _ in range(20):
        assert ask(edge, "shop").server == "shared"
    rig.wait_until(lambda: edge.upstream("shop")["peers"][0]["completed"] == 20, "all are counted")
    rig.memcached.set(LIST, listing("shop", "cart", generation=2))
    rig.wait_until(lambda: rig.report("cart")["peers"], "it is reported")
    assert rig.report("cart")["peers"]["s"]["completed"] == 0


def test_upstreams_come_and_go_without_a_reload(rig: Rig) -> None:
    shop, cart = rig.backend("shop"), rig.backend("cart")
    edge = rig.edge(workers=2, options=OPTIONS, servers=SERVERS)
    rig.wait_until(lambda: len(edge.worker_pids()) == 2, "both workers are there")
    workers = edge.worker_pids()
    rig.publish([("s", shop.address, 1, "up")], generation=1, upstream="shop")
    rig.publish([("c", cart.address, 1, "up")], generation=1, upstream="cart")
    assert ask(edge, "shop").status == 503
    assert "the list of upstreams is not known yet" in ask(edge, "shop").json()["detail"]
    rig.memcached.set(LIST, listing("shop", "cart", generation=1))
    for name in ("shop", "cart"):
        wait_served(rig, edge, name)
        assert {ask(edge, name).server for _ in range(20)} == {name}
    # It is reported, ejected and shown like every other upstream.
    rig.wait_until(lambda: rig.memcached.get("steelyard:1:traffic:shop:edge-1"), "it is reported")
    assert edge.upstream("shop")["rung"] in ("fresh", "hold")
    assert in_list(edge)["generation"] == 1
    rig.wait_until(lambda: "ejecting/shop" in edge.get("/keys").body.split(), "its servers are judged")

    rig.memcached.set(LIST, listing("cart", generation=2))
    wait_gone(rig, edge, "shop")
    answers = [ask(edge, "shop") for _ in range(10)]
    assert {answer.status for answer in answers} == {404}
    assert answers[0].json()["detail"] == "upstream shop: there is no upstream of this name"
    assert {ask(edge, "cart").server for _ in range(10)} == {"cart"}

    # The shared memory keeps only the number of its last report and, for an hour, its server's cell: the
    # server may return with open requests.
    def kept() -> set[str]:
        keys = edge.get("/keys").body.split()
        of_it = {key for key in keys if "shop" in key.split("/") or shop.address in key}
        return of_it - {"seq/shop", f"cell/{shop.address}"}

    rig.wait_until(lambda: not kept(), "its keys are freed")
    # Fetches do not bring back its table, which Memcached still has.
    rig.publish([("c", cart.address, 1, "up")], generation=2, upstream="cart")
    edge.wait_for(2, upstream="cart")
    assert kept() == set()

    rig.memcached.set(LIST, listing("cart", "shop", generation=3))
    wait_served(rig, edge, "shop")
    assert {ask(edge, "shop").server for _ in range(10)} == {"shop"}
    assert edge.worker_pids() == workers


def test_an_nginx_serves_the_list_of_its_own_installation_also_after_it_moves_to_another(
    rig: Rig, tmp_path: Path
) -> None:
    shop, bank = rig.backend("shop"), rig.backend("bank")
    for backend in (shop, bank):
        rig.publish([("s", backend.address, 1, "up")], generation=1, upstream=backend.name)
    rig.memcached.set(LIST, listing("other", generation=9, term=9))
    rig.memcached.set(f"{LIST}:shop", listing("shop", generation=5, term=5))
    rig.memcached.set(f"{LIST}:bank", listing("bank", generation=1, term=1))
    options = f'{ALONE} state_dir = "{tmp_path}", installation = "shop",'
    edge = rig.edge(options=options, servers=SERVERS)
    wait_served(rig, edge, "shop")
    assert ask(edge, "shop").server == "shop"
    assert {ask(edge, name).status for name in ("bank", "other")} == {404}
    assert edge.status()["installation"] == "shop"
    rig.wait_until(lambda: (tmp_path / "upstreams.shop.list").exists(), "its list is saved")

    # The list of the other installation counts, although its term is lower.
    edge.rewrite('installation = "shop"', 'installation = "bank"')
    edge.reload()
    wait_served(rig, edge, "bank")
    wait_gone(rig, edge, "shop")
    assert ask(edge, "bank").server == "bank"
    assert in_list(edge)["term"] == 1


def test_a_request_under_way_ends_when_its_upstream_goes_away(rig: Rig) -> None:
    shop = rig.backend("shop")
    rig.publish([("s", shop.address, 1, "up")], generation=1, upstream="shop")
    rig.memcached.set(LIST, listing("shop", generation=1))
    edge = rig.edge(options=ALONE, servers=SERVERS)
    wait_served(rig, edge, "shop")
    answers: list[Answer] = []
    request = threading.Thread(target=lambda: answers.append(ask(edge, "shop", "?body_s=3")))
    request.start()
    rig.wait_until(lambda: shop.received, "it is at the server")
    rig.memcached.set(LIST, listing(generation=2))
    wait_gone(rig, edge, "shop")
    request.join()
    assert (answers[0].status, len(answers[0].body)) == (200, 30)
    assert ask(edge, "shop").status == 404
    assert edge.status()["upstreams"] == {}
    rig.memcached.set(LIST, listing("shop", generation=3))
    wait_served(rig, edge, "shop")
    assert ask(edge, "shop").server == "shop"


def test_a_request_that_has_to_be_tried_again_ends_when_its_upstream_is_gone(rig: Rig) -> None:
    servers = [rig.backend(name) for name in "ab"]
    rig.publish([(each.name, each.address, 1, "up") for each in servers], generation=1, upstream="shop")
    rig.memcached.set(LIST, listing("shop", generation=1))
    edge = rig.edge(options=OPTIONS, servers=SERVERS)
    wait_served(rig, edge, "shop")
    answers: list[Answer] = []
    request = threading.Thread(target=lambda: answers.append(ask(edge, "shop", "?sleep_s=300")))
    request.start()
    rig.wait_until(lambda: any(each.received for each in servers), "it is at a server")
    rig.memcached.set(LIST, listing(generation=2))
    wait_gone(rig, edge, "shop")
    for each in servers:
        each.stop()
    request.join()
    assert answers[0].status == 502
    assert "it was removed while one of its servers was tried" in answers[0].json()["detail"]


def test_names_that_clients_make_up_are_counted_and_do_not_fill_the_log_or_the_memory(rig: Rig) -> None:
    began_s = time.monotonic()
    rig.memcached.set(LIST, listing("shop", generation=1))
    edge = rig.edge(options=OPTIONS, servers=SERVERS)
    rig.wait_until(lambda: ask(edge, "nobody").status == 404, "the list is known")
    keys = set(edge.get("/keys").body.split())
    for host in (
        "nobody",
        "!upstreams",
        "../web",
        "a" * 500,
        "x\\x",
        'quo"te',
        *(f"u{i}" for i in range(100)),
    ):
        answer = edge.get("/any/", {"Host": host})
        assert answer.status in (400, 404)  # 400: nginx itself refuses a malformed host
        if answer.status == 404:
            assert answer.headers["Content-Type"] == "application/problem+json"
    assert edge.status()["unknown_upstreams"] >= 102
    assert (
        f"steelyard_unknown_upstreams_total {edge.status()['unknown_upstreams']}" in edge.get("/metrics").body
    )
    in_ten_seconds = (time.monotonic() - began_s) / 10
    assert 1 <= edge.logged('steelyard: upstream "nobody": the') <= 2 + in_ten_seconds
    new = {key for key in set(edge.get("/keys").body.split()) - keys if "/u" in key or "nobody" in key}
    assert new == set()
    # It is in the list and has no table yet, so the answer differs.
    assert ask(edge, "shop").status == 502
    assert "no weight table yet" in ask(edge, "shop").json()["detail"]


def test_without_the_option_a_name_that_is_not_declared_is_an_error_of_nginx_conf(rig: Rig) -> None:
    rig.memcached.set(LIST, listing("shop", generation=1))
    edge = rig.edge(servers=SERVERS)
    answers = [ask(edge, "shop") for _ in range(20)]
    assert {answer.status for answer in answers} == {502}
    assert "not among `upstreams` in init_worker" in answers[0].json()["detail"]
    assert edge.status()["upstream_list"] is None
    assert edge.status()["unknown_upstreams"] == 20


def test_what_is_known_stays_while_the_list_is_away_and_over_a_reload(rig: Rig, tmp_path: Path) -> None:
    a = rig.backend("a")
    options = OPTIONS + f'state_dir = "{tmp_path}", hold_s = 600,'
    rig.publish([("a", a.address, 1, "up")], generation=1, upstream="shop")
    rig.memcached.set(LIST, listing("shop", generation=1))
    edge = rig.edge(workers=2, options=options, servers=SERVERS)
    wait_served(rig, edge, "shop")
    rig.wait_until(lambda: (tmp_path / "shop.weights").exists(), "the table is saved")
    rig.memcached.set(LIST, "")
    rig.wait_until(lambda: in_list(edge)["last_fetch"] == "not_json", "no list is refused")
    rig.memcached.stop()
    rig.wait_until(lambda: edge.status()["fetch_errors"] > 0, "Memcached is away")
    edge.reload()
    assert {ask(edge, "shop").server for _ in range(20)} == {"a"}
    edge.stop()
    # nginx starts anew, with the disk alone.
    again = rig.edge(workers=2, options=options, servers=SERVERS)
    assert {ask(again, "shop").server for _ in range(20)} == {"a"}
    assert again.logged("begins with the saved list of upstreams") == 1
    assert again.upstream("shop")["rung"] == "saved"


def test_ready_from_the_first_list_on_and_whoever_is_away_then(rig: Rig) -> None:
    edge = rig.edge(options=ALONE, servers=SERVERS)
    answer = edge.get("/ready")
    assert (answer.status, answer.json()["detail"]) == (
        503,
        "the controller's list of upstreams has not come yet",
    )
    rig.memcached.set(LIST, listing(generation=1))
    rig.wait_until(lambda: edge.get("/ready").status == 200, "an empty list is one")
    rig.publish([("a", rig.backend("a").address, 1, "up")], generation=1, upstream="shop")
    rig.memcached.set(LIST, listing("shop", generation=2))
    wait_served(rig, edge, "shop")
    rig.memcached.stop()
    rig.wait_until(lambda: edge.status()["fetch_errors"] > 0, "Memcached is away")
    assert edge.get("/ready").json() == {"status": "ok"}


def test_not_ready_while_an_upstream_of_nginx_conf_has_no_servers(rig: Rig) -> None:
    edge = rig.edge(servers=SERVERS)
    assert "upstream web has no weight table yet" in edge.get("/ready").json()["detail"]
    rig.publish([("a", rig.backend("a").address, 1, "up")], generation=1)
    rig.wait_until(lambda: edge.get("/ready").status == 200, "the table is served")


def test_a_forged_or_recorded_list_is_refused(rig: Rig) -> None:
    a = rig.backend("a")
    edge = rig.edge(workers=2, options=OPTIONS + f'key = "{KEY}",', servers=SERVERS)

    def refused(value: str, reason: str) -> None:
        before = in_list(edge)["refused"][reason]
        rig.memcached.set(LIST, value)
        rig.wait_until(lambda: in_list(edge)["refused"][reason] > before, f"refused: {reason}")

    refused(signed(listing("evil", generation=9, age_s=30 * 3600)), "replayed")
    rig.memcached.set(LIST, signed(listing("shop", generation=5)))
    rig.wait_until(lambda: in_list(edge)["generation"] == 5, "the list is taken")
    refused(listing("evil", generation=9), "unsigned")
    refused(signed(listing("evil", generation=9), "the key of somebody else"), "signature")
    refused(signed(listing("evil", generation=4)), "older")
    refused(signed(listing("evil", generation=9).replace('"evil"', '"evil/.."')), "name")
    assert in_list(edge)["generation"] == 5
    assert ask(edge, "evil").status == 404
    assert 'steelyard_upstream_list_refused_total{reason="older"} ' in edge.get("/metrics").body
    assert edge.logged("list of upstreams of memcached") >= 4
    rig.memcached.set("steelyard:1:weights:shop", signed(table_of("shop", a.address)))
    wait_served(rig, edge, "shop")
    assert ask(edge, "shop").server == "a"


def test_a_thousand_are_served_and_those_beyond_are_said(rig: Rig) -> None:
    a = rig.backend("a")
    names = [f"u{number:04}" for number in range(1003)]
    for name in (names[0], names[999], names[1002], "web"):
        rig.publish([("a", a.address, 1, "up")], generation=1, upstream=name)
    rig.memcached.set(LIST, listing("web", *names, generation=1))
    edge = rig.edge(options=OPTIONS, servers=SERVERS)
    wait_served(rig, edge, names[999])
    assert {ask(edge, name).server for name in (names[0], names[999])} == {"a"}
    assert ask(edge, names[1002]).status == 404
    assert in_list(edge)["beyond"] == 3
    assert "steelyard_upstream_list_beyond 3" in edge.get("/metrics").body
    assert edge.logged("the list has 3 upstreams more than the 1000 that are served") == 1
    # nginx.conf's own upstreams stay.
    edge.wait_for(1)
    rig.memcached.set(LIST, listing(generation=2))
    wait_gone(rig, edge, names[999])
    assert edge.get("/").server == "a"
    assert [*edge.status()["upstreams"]] == ["web"]


@contextlib.contextmanager
def controller(rig: Rig, folder: Path) -> Iterator[Callable[..., None]]:
    """Run a controller; yield a function that changes an upstream over REST."""
    port, token = free_port(), folder / "token"
    token.write_text("a-token-of-a-test-s-own")
    flags = {
        "--api-port": str(port), "--tick-s": "0.1", "--memcached": f"127.0.0.1:{rig.memcached.port}",
        "--state-url": "memory://", "--admin-token-file": str(token),
    }  # fmt: skip
    words = [word for pair in flags.items() for word in pair]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    process = warm_start.Popen([sys.executable, "-m", "steelyard_controller", *words], env=kept)

    def change(method: str, name: str, body: object = None) -> None:
        headers = {"Authorization": f"Bearer {token.read_text()}", "Content-Type": "application/json"}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request(method, f"/v1/upstreams/{name}", json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            assert answer.status < 300, answer.read()

    def leads() -> bool:
        with (
            contextlib.suppress(OSError),
            contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection,
        ):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False

    try:
        rig.wait_until(leads, "the controller leads")
        yield change
    finally:
        process.kill()
        process.wait()


def test_declared_over_rest_served_by_nginx_and_removed_again(rig: Rig, tmp_path: Path) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    edge = rig.edge(workers=2, options=OPTIONS, servers=SERVERS)
    rig.wait_until(lambda: len(edge.worker_pids()) == 2, "both workers are there")
    workers = edge.worker_pids()
    with controller(rig, tmp_path) as change:
        for backend in (a, b):
            change("PUT", backend.name, {"peers": [{"id": "s", "address": backend.address, "baseline": 1}]})
        for name in "ab":
            wait_served(rig, edge, name)
            assert {ask(edge, name).server for _ in range(10)} == {name}
        change("DELETE", "a")
        wait_gone(rig, edge, "a")
        assert ask(edge, "a").status == 404
        assert ask(edge, "b").server == "b"
        change("PUT", "a", {"peers": [{"id": "s", "address": b.address, "baseline": 1}]})
        wait_served(rig, edge, "a")
        rig.wait_until(lambda: ask(edge, "a").server == "b", "it is back, with another server")
    assert edge.worker_pids() == workers
