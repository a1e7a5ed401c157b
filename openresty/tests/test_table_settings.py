"""A weight table's check and hash key, which override nginx.conf's."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from openresty.tests.test_health import edge_with, wait_health

if TYPE_CHECKING:
    from openresty.tests.backend import Backend
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

SECRET = "the key of the tests, 32 bytes.."  # noqa: S105


def check(path: str = "/healthz", **changes: object) -> dict[str, object]:
    """Return a check in the controller's form, with its defaults filled in."""
    defaults = {
        "statuses": None, "interval_s": 0.2, "timeout_s": 30.0, "rise": 2, "fall": 2, "host": None,
        "tls": False, "tls_server_name": None, "tls_verify": True, "grpc_service": None,
    }  # fmt: skip
    return {"path": path, **defaults, **changes}


def rows(*servers: "Backend") -> list[tuple[str, str, int, str]]:
    return [(server.name, server.address, 1, "up") for server in servers]


def publish_signed(rig: "Rig", servers: "list[Backend]", generation: int, **members: Any) -> None:
    """Publish a table as the controller does with a key."""
    rig.publish(rows(*servers), generation=generation, **members)
    text = rig.memcached.get("steelyard:1:weights:web") or b""
    digest = hmac.new(SECRET.encode(), text, hashlib.sha256).hexdigest()
    rig.memcached.set("steelyard:1:weights:web", digest.encode() + b"." + text)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_check_is_switched_on_and_off_by_the_table_while_requests_go_on(rig: "Rig", workers: int) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    b.statuses["/healthz"] = 503
    rig.publish(rows(a, b), generation=1)
    edge = edge_with(rig, "eject = false", workers=workers)
    edge.wait_for(1)
    assert edge.upstream()["check"] is None
    assert edge.shares(20 * workers).keys() == {"a", "b"}
    pids = edge.worker_pids()

    rig.publish(rows(a, b), generation=2, check=check())
    edge.wait_for(2)
    wait_health(rig, edge, "b", "check", eligible=False)
    assert edge.shares(20) == {"a": 20}
    assert edge.peer("b")["health_reason"] == "answered 503, wants 200-399"
    served = edge.upstream()
    assert served["check_from"] == "table"
    assert served["check"] == {**check(), "statuses": "200-399"}
    assert edge.logged("servers are checked by GET /healthz, every 0.2 s") == 1

    rig.publish(rows(a, b), generation=3)
    edge.wait_for(3)
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert edge.shares(20 * workers).keys() == {"a", "b"}
    assert (edge.upstream()["check"], edge.upstream()["check_from"]) == (None, None)
    assert edge.logged("servers are no longer checked") == 1

    rig.publish(rows(a, b), generation=4, check=check())
    edge.wait_for(4)
    wait_health(rig, edge, "b", "check", eligible=False)
    assert edge.worker_pids() == pids


def test_another_check_begins_anew_and_every_server_is_checked_at_once(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    b.statuses["/old"] = 503
    rig.publish(rows(a, b), generation=1, check=check("/old"))
    edge = edge_with(rig, "eject = false", workers=2)
    edge.wait_for(1)
    wait_health(rig, edge, "b", "check", eligible=False)
    rig.publish(rows(a, b), generation=2, check=check("/new", interval_s=3600))
    edge.wait_for(2)
    wait_health(rig, edge, "b", "ok", eligible=True)
    a.statuses["/late"] = 500
    rig.publish(rows(a, b), generation=3, check=check("/late", interval_s=3600))
    edge.wait_for(3)
    wait_health(rig, edge, "a", "check", eligible=False)  # at once, not after an hour


def test_a_check_that_is_only_made_more_rarely_forgets_nothing(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    b.statuses["/healthz"] = 503
    rig.publish(rows(a, b), generation=1, check=check())
    edge = edge_with(rig, "eject = false", workers=2)
    edge.wait_for(1)
    wait_health(rig, edge, "b", "check", eligible=False)
    rig.publish(rows(a, b), generation=2, check=check(interval_s=0.3))
    edge.wait_for(2)
    assert edge.shares(20) == {"a": 20}
    b.statuses.clear()
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert (edge.logged(") falls:"), edge.logged(") rises:")) == (1, 1)


def test_the_table_s_check_is_stronger_than_nginx_conf_s_which_stands_without_one(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    a.statuses["/ours"] = b.statuses["/theirs"] = 503
    rig.publish(rows(a, b), generation=1)
    ours = 'check = { path = "/ours", interval_s = 0.2, statuses = {200, 204} }'
    edge = edge_with(rig, f"{ours}, eject = false", workers=2)
    edge.wait_for(1)
    wait_health(rig, edge, "a", "check", eligible=False)
    assert (edge.upstream()["check_from"], edge.upstream()["check"]["statuses"]) == ("nginx.conf", "200, 204")
    rig.publish(rows(a, b), generation=2, check=check("/theirs"))
    edge.wait_for(2)
    wait_health(rig, edge, "b", "check", eligible=False)
    wait_health(rig, edge, "a", "ok", eligible=True)
    assert edge.upstream()["check_from"] == "table"
    rig.publish(rows(a, b), generation=3)
    edge.wait_for(3)
    wait_health(rig, edge, "a", "check", eligible=False)
    wait_health(rig, edge, "b", "ok", eligible=True)


def test_a_malformed_check_refuses_the_table_and_the_last_one_holds(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish(rows(a), generation=1, check=check())
    edge = edge_with(rig, "eject = false")
    edge.wait_for(1)
    rig.publish(rows(b), generation=2, check=check("/ HTTP/1.0\r\nX: y"))
    edge.wait_refused("range")
    assert '"path" of the check is no path' in edge.upstream()["last_refused"]
    assert edge.shares(3) == {"a": 3}
    assert edge.upstream()["check"]["path"] == "/healthz"


def test_the_hash_key_is_the_table_s_or_nginx_conf_s(rig: "Rig") -> None:
    a, b, c = (rig.backend(name) for name in "abc")
    rig.publish(rows(a, b, c), generation=1, picker="bounded_hash")
    settings = 'hash_key = "argument:user", hash_balance_factor = 1000'
    edge = edge_with(rig, settings, workers=2)
    edge.wait_for(1)
    served = edge.upstream()
    assert (served["hash_key"], served["hash_key_from"]) == ("argument:user", "nginx.conf")
    rig.publish(rows(a, b, c), generation=2, picker="bounded_hash", hash_key="header:X-User")
    edge.wait_for(2)
    served = edge.upstream()
    assert (served["hash_key"], served["hash_key_from"]) == ("header:X-User", "table")

    def servers_of(path: str) -> list[str]:
        return [edge.get(path, {"X-User": f"user-{n}"}).server for n in range(20)]

    assert servers_of("/?user=one") == servers_of("/?user=other")
    assert len(set(servers_of("/"))) > 1
    rig.publish(rows(a, b, c), generation=3, picker="bounded_hash")
    edge.wait_for(3)
    assert len(set(servers_of("/?user=one"))) == 1


def test_a_signed_table_s_check_is_believed_and_a_forged_one_is_not(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    b.statuses["/healthz"] = 503
    publish_signed(rig, [a, b], 1)
    edge = rig.edge(options=f'key = "{SECRET}", upstreams = {{ web = {{ eject = false }} }},')
    edge.wait_for(1)
    rig.publish(rows(a, b), generation=2, check=check())
    edge.wait_refused("unsigned")
    assert edge.upstream()["check"] is None
    publish_signed(rig, [a, b], 2, check=check())
    edge.wait_for(2)
    wait_health(rig, edge, "b", "check", eligible=False)


def test_a_change_of_only_the_check_is_saved_and_in_force_after_a_start_while_all_else_is_dead(
    rig: "Rig", tmp_path: Path
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    b.statuses["/healthz"] = 503
    given = f'state_dir = "{tmp_path}", upstreams = {{ web = {{ eject = false }} }},'
    path = tmp_path / "web.weights"
    rig.publish(rows(a, b), generation=1)
    first = rig.edge(options=given)
    first.wait_for(1)
    rig.wait_until(path.exists, "the first table is saved")
    rig.publish(rows(a, b), generation=2, check=check(), hash_key="uri")
    first.wait_for(2)
    rig.wait_until(lambda: json.loads(path.read_text()).get("check") == check(), "the check is saved")
    first.stop()
    rig.memcached.stop()
    edge = rig.edge(workers=2, options=given)
    edge.wait_for(2)
    assert edge.upstream()["rung"] == "saved"
    wait_health(rig, edge, "b", "check", eligible=False)
    served = edge.upstream()
    assert (served["check_from"], served["hash_key"], served["hash_key_from"]) == ("table", "uri", "table")


def test_a_reload_keeps_the_table_s_check_and_what_it_found(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    b.statuses["/healthz"] = 503
    rig.publish(rows(a, b), generation=1, check=check())
    edge = edge_with(rig, "eject = false", workers=2)
    edge.wait_for(1)
    wait_health(rig, edge, "b", "check", eligible=False)
    edge.reload()
    assert edge.shares(20) == {"a": 20}
    wait_health(rig, edge, "b", "check", eligible=False)
    assert edge.logged("servers are checked by GET /healthz") == 1
