"""A broken or missing control plane does not affect requests."""

import json
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

KEY = "steelyard:1:weights:web"

BROKEN = {
    "not_json": b"garbage \xff\x00",
    "too_large": b"0" * 9_000_000,
    "not_object": b"[1,2,3]",
    "version": b'{"v":2}',
    "missing": b'{"v":1}',
    "name": b'{"v":1,"upstream":"we b","peers":[]}',
    "type": b'{"v":1,"upstream":"web","peers":[7]}',
}


def test_an_older_table_is_refused_by_term_and_generation(rig: "Rig") -> None:
    new, old = rig.backend("new"), rig.backend("old")
    rig.publish([("s", new.address, 1, "up")], term=3, generation=5)
    edge = rig.edge()
    edge.wait_for(5, term=3)
    for term, generation in ((3, 4), (2, 900)):
        rig.publish([("s", old.address, 1, "up")], term=term, generation=generation)
        wanted = edge.upstream()["refused"]["older"] + 2
        edge.wait_refused("older", wanted)
        assert edge.shares(3) == {"new": 3}
    rig.publish([("s", old.address, 1, "up")], term=4, generation=1)
    edge.wait_for(1, term=4)
    assert edge.shares(3) == {"old": 3}


def test_the_same_generation_again_changes_nothing(rig: "Rig") -> None:
    first, second = rig.backend("first"), rig.backend("second")
    rig.publish([("s", first.address, 1, "up")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    rig.publish([("s", second.address, 1, "up")], generation=1)
    time.sleep(0.4)
    assert edge.shares(3) == {"first": 3}


def test_broken_values_hold_the_last_table_and_are_counted_and_logged_once(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(workers=2)
    edge.wait_for(1)
    for reason, value in BROKEN.items():
        rig.memcached.set(KEY, value)
        edge.wait_refused(reason)
        assert edge.shares(4) == {"a": 4}
        served = edge.upstream()
        assert served["generation"] == 1
        assert served["last_fetch"] == reason
        assert served["last_refused"].startswith(reason)
    rig.wait_until(lambda: edge.upstream()["refused"]["type"] >= 5, "the last one is met again and again")
    for reason in BROKEN:
        assert edge.logged(f"is refused ({reason})") == 1


def test_nan_as_a_weight_is_refused(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    value = (rig.memcached.get(KEY) or b"").replace(b'"generation": 1', b'"generation": 2')
    rig.memcached.set(KEY, value.replace(b'"weight": 1', b'"weight": NaN'))
    edge.wait_refused("not_json")
    assert edge.shares(3) == {"a": 3}


def test_a_table_of_another_upstream_is_refused(rig: "Rig") -> None:
    a = rig.backend("a")
    edge = rig.edge(bootstrap=[a.address])
    rig.publish([("a", a.address, 1, "up")], generation=1, upstream="api")
    rig.memcached.set(KEY, rig.memcached.get("steelyard:1:weights:api") or b"")
    edge.wait_refused("upstream")
    assert edge.shares(2) == {"a": 2}


def test_memcached_dies_under_load_and_no_request_fails(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 1, "up"), ("b", b.address, 1, "up")], generation=1)
    edge = rig.edge(workers=4)
    edge.wait_for(1)
    with edge.under_load(3, pause_s=0.003) as statuses:
        rig.wait_until(lambda: len(statuses) > 10, "requests are answered")
        rig.memcached.stop()
        rig.wait_until(lambda: edge.status()["fetch_errors"] >= 5, "fetches fail")
        answered = len(statuses)
        rig.wait_until(lambda: len(statuses) > answered + 50, "requests go on")
    assert set(statuses) == {200}
    assert edge.logged("no weight tables fetched") == 1


def test_the_second_memcached_is_asked_when_the_first_is_away(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    servers = f'{{"{rig.dead_address()}", "127.0.0.1:{rig.memcached.port}"}}'
    edge = rig.edge(options=f"memcached = {servers}, upstreams = {{ web = {{}} }},")
    edge.wait_for(1)
    assert edge.shares(2) == {"a": 2}
    rig.wait_until(edge.fetches_well, "fetches go well")


def test_the_bootstrap_list_serves_until_the_first_table(rig: "Rig") -> None:
    a, b, c = (rig.backend(name) for name in "abc")
    edge = rig.edge(bootstrap=[a.address, b.address])
    assert set(edge.shares(20)) == {"a", "b"}
    served = edge.upstream()
    assert (served["rung"], served["law"]) == ("bootstrap", "bootstrap")
    rig.publish([("c", c.address, 1, "up")], generation=1)
    edge.wait_for(1)
    assert edge.shares(3) == {"c": 3}
    assert edge.upstream()["rung"] in ("fresh", "hold")


@pytest.mark.parametrize("away", ["memcached", "controller"])
def test_the_rungs_go_from_fresh_over_hold_to_the_baselines(rig: "Rig", away: str) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 9, "up"), ("b", b.address, 1, "up")], generation=1)
    options = f'hold_s = 2, drift_s = 1, upstreams = {{ web = {{ bootstrap = {{"{a.address}"}} }} }},'
    edge = rig.edge(options=options)
    edge.wait_for(1)
    if away == "memcached":
        rig.memcached.stop()
    rungs = [edge.upstream()["rung"]]

    def at_the_baselines() -> bool:
        rungs.append(edge.upstream()["rung"])
        return bool(edge.upstream()["drift"] == 1)

    rig.wait_until(at_the_baselines, "the drift is over")
    seen = list(dict.fromkeys(rungs))
    assert seen == ["fresh", "hold", "drift"][-len(seen) :]
    assert "hold" in seen
    assert edge.shares(10) == {"a": 5, "b": 5}


def test_a_bad_option_is_named_in_the_log_and_in_the_answer(rig: "Rig") -> None:
    edge = rig.edge(options="hold = 5, upstreams = { web = {} },")
    answer = edge.get()
    assert answer.status == 502
    assert "option `hold` is unknown" in answer.json()["detail"]
    assert edge.logged("option `hold` is unknown") >= 1
    assert edge.get("/steelyard/status").status == 503


def test_values_in_docs_contract_are_judged_alike_by_a_running_nginx(rig: "Rig") -> None:
    a = rig.backend("a")
    edge = rig.edge(bootstrap=[a.address])
    rig.memcached.set(KEY, json.dumps({"v": 1, "upstream": "web", "peers": [{"address": "server-1:80"}]}))
    edge.wait_refused("range")
    assert "names are not resolved here" in edge.upstream()["last_refused"]
