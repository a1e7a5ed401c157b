"""The REST API over a running controller, without a network."""

import asyncio
import json
import re
from typing import Any

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from steelyard_controller.api import models, upstream_models
from steelyard_controller.api.app import create
from steelyard_controller.api.body_limit import BodyLimit
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.messages.keyring import Keyring
from steelyard_protocol import signature, weight_table

from testing.hostile_servers import dripping
from testing.waiting import wait_until

from .serving import WEB, service_of, serving

UPSTREAM = "/v1/upstreams/web"
PEER = "/v1/upstreams/web/peers/server-1"
PROBLEM = "application/problem+json"
A = {"id": "a", "address": "10.0.0.1:80"}


@pytest.fixture(scope="module")
def api() -> Any:
    with serving() as client:
        yield client


@pytest.fixture
def own() -> Any:
    """A controller of the test's own, because the test changes it."""
    with serving() as client:
        yield client


def revision(api: TestClient) -> int:
    return int(api.get(f"{UPSTREAM}/declaration").headers["etag"].strip('"'))


def test_the_list_says_of_each_upstream_whether_it_works(api: TestClient) -> None:
    document = api.get("/v1/upstreams").json()
    (web,) = document["upstreams"]
    assert (web["name"], web["law"], web["picker"], web["peers"], web["ready"]) == (
        "web", "steelyard", "vnswrr2", 2, True
    )  # fmt: skip
    assert (web["degraded"], document["controller"]["id"]) == ([], "one")
    assert [line.partition(":")[0] for line in document["controller"]["degraded"]] == ["memcached 127.0.0.1"]


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/upstreams", upstream_models.Upstreams),
        (UPSTREAM, upstream_models.Overview),
        (f"{UPSTREAM}/declaration", Upstream),
        (f"{UPSTREAM}/weights", upstream_models.Table),
        (f"{UPSTREAM}/history", upstream_models.History),
        (f"{UPSTREAM}/peers", models.Peers),
        (PEER, models.LivePeer),
        (f"{PEER}/explain", upstream_models.Explanation),
        ("/v1/service", models.ServiceDocument),
        ("/v1/laws", models.Laws),
        ("/healthz", models.Health),
        ("/readyz", models.Readiness),
    ],
)
def test_an_answer_is_what_its_model_says(api: TestClient, path: str, model: Any) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    dumped = model.model_validate(answer.json()).model_dump(mode="json", exclude_unset=True)
    assert dumped == answer.json(), "the model leaves something out"


def test_the_overview_has_the_shadows_the_shares_and_the_revision(api: TestClient) -> None:
    document = api.get(UPSTREAM).json()
    assert [row["share"] for row in document["peers"]] == pytest.approx([1 / 3, 2 / 3], abs=0.001)
    assert (document["revision"], document["shadow_laws"], document["alert"]) == (1, ["paper"], False)
    assert document["load_balancers"] == {"edge-1": None}


def test_a_servers_row_is_that_of_the_overview(api: TestClient) -> None:
    row = next(row for row in api.get(UPSTREAM).json()["peers"] if row["id"] == PEER.rpartition("/")[2])
    live = api.get(PEER).json()["live"]
    assert {name: live[name] for name in row if not name.endswith("age_s")} == {
        name: row[name] for name in row if not name.endswith("age_s")
    }


def test_weights_are_the_published_table(api: TestClient) -> None:
    answer = api.get(f"{UPSTREAM}/weights")
    table = weight_table.decode(answer.content)
    assert isinstance(table, weight_table.WeightTable)
    assert answer.headers["etag"] == f'"{table.term}.{table.generation}"'
    assert answer.headers["cache-control"] == "no-cache"
    assert "steelyard-signature" not in answer.headers


def test_an_unchanged_declaration_is_304(api: TestClient) -> None:
    tag = api.get(f"{UPSTREAM}/declaration").headers["etag"]
    for offered in (tag, f"W/{tag}", f'"77", {tag}', "*"):
        answer = api.get(f"{UPSTREAM}/declaration", headers={"If-None-Match": offered})
        assert (answer.status_code, answer.content) == (304, b"")
    assert api.get(f"{UPSTREAM}/declaration", headers={"If-None-Match": '"77"'}).status_code == 200


def test_a_weight_table_that_has_not_changed_is_304(api: TestClient) -> None:
    def is_304() -> bool:
        # The next tick may come between the two requests.
        tag = api.get(f"{UPSTREAM}/weights").headers["etag"]
        return api.get(f"{UPSTREAM}/weights", headers={"If-None-Match": tag}).status_code == 304

    wait_until(is_304)
    assert api.get(f"{UPSTREAM}/weights", headers={"If-None-Match": '"1.1"'}).status_code == 200


def test_with_a_key_the_signature_of_the_bodys_bytes_is_in_a_header() -> None:
    with serving(keys=Keyring(shared=b"k" * 32)) as api:
        answer = api.get(f"{UPSTREAM}/weights")
    value = f"{answer.headers['steelyard-signature']}.".encode() + answer.content
    assert signature.open_value(b"k" * 32, value) == answer.content


def test_history_grows_and_is_oldest_first(api: TestClient) -> None:
    wait_until(lambda: len(api.get(f"{UPSTREAM}/history?step_s=0").json()["moments"]) >= 3)
    generations = [
        moment["generation"] for moment in api.get(f"{UPSTREAM}/history?step_s=0").json()["moments"]
    ]
    assert generations == sorted(generations)


def test_a_weight_is_explained(api: TestClient) -> None:
    document = api.get(f"{PEER}/explain").json()
    assert re.match(r"\d+[: ]", document["sentence"])
    assert document["shadows"]["paper"]["sentence"]


def test_put_creates_then_changes_then_changes_nothing(own: TestClient) -> None:
    path = "/v1/upstreams/shop"
    created = own.put(path, json=WEB)
    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    again = own.put(path, json=WEB)
    assert (again.status_code, again.headers["etag"], again.json()) == (200, '"1"', created.json())
    changed = own.put(path, json={**WEB, "picker": "least_conn"})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    assert own.get(path).json()["upstream"] == "shop"
    entries = own.get("/v1/audit").json()["entries"]
    reordered = own.put(path, json={**WEB, "picker": "least_conn", "peers": WEB["peers"][::-1]})
    assert (reordered.status_code, reordered.headers["etag"], reordered.json()) == (
        200,
        '"2"',
        changed.json(),
    )
    assert own.get("/v1/audit").json()["entries"] == entries
    assert [each["what"] for each in entries[:2]] == ["picker vnswrr2 -> least_conn", "declared"]


def test_a_dry_run_says_what_a_put_would_undo_and_changes_nothing(own: TestClient) -> None:
    saved = own.get(f"{UPSTREAM}/declaration").json()
    assert own.patch(PEER, json={"state": "drain"}).status_code == 200
    assert own.put(f"{UPSTREAM}/peers/server-9", json={"address": "10.0.0.19:80"}).status_code == 201
    now = own.get(f"{UPSTREAM}/declaration")
    answer = own.put(f"{UPSTREAM}/dry-run", json=saved, headers={"If-Match": now.headers["etag"]})
    assert (answer.status_code, answer.json()) == (
        200,
        {"upstream": "web", "revision": 4, "what": "server-9 removed; server-1: state drain -> up"},
    )
    after = own.get(f"{UPSTREAM}/declaration")
    assert (after.json(), after.headers["etag"]) == (now.json(), now.headers["etag"])
    assert own.put(UPSTREAM, json=saved).headers["etag"] == '"4"'
    assert own.put(f"{UPSTREAM}/dry-run", json=saved).json()["what"] == "nothing changed"


def test_a_dry_run_of_a_new_upstream_declares_none(own: TestClient) -> None:
    answer = own.put("/v1/upstreams/shop/dry-run", json=WEB)
    assert (answer.status_code, answer.json()["what"]) == (200, "declared")
    assert own.get("/v1/upstreams/shop").status_code == 404


def test_a_dry_run_is_refused_as_the_change_would_be(own: TestClient) -> None:
    path = f"{UPSTREAM}/dry-run"
    assert own.put(path, json=WEB, headers={"If-Match": '"7"'}).status_code == 412
    assert own.put(path, json={**WEB, "law": "none"}).status_code == 422
    assert own.put(path, json=WEB, headers={"Authorization": ""}).status_code == 401


def test_a_declaration_that_is_read_can_be_put_back(own: TestClient) -> None:
    document = own.get(f"{UPSTREAM}/declaration").json()
    answer = own.put(UPSTREAM, json=document)
    assert (answer.status_code, answer.json(), revision(own)) == (200, document, 1)


def test_a_change_of_another_revision_is_refused(own: TestClient) -> None:
    patched = own.patch(PEER, json={"state": "drain"}, headers={"If-Match": '"1"'})
    assert (patched.status_code, patched.headers["etag"]) == (200, '"2"')
    for answer in (
        own.patch(PEER, json={"state": "up"}, headers={"If-Match": '"1"'}),
        own.put(UPSTREAM, json=WEB, headers={"If-Match": 'W/"2"'}),
        own.put(UPSTREAM, json=WEB, headers={"If-None-Match": "*"}),
        own.put("/v1/upstreams/shop", json=WEB, headers={"If-Match": "*"}),
        own.delete(PEER, headers={"If-Match": '"3"'}),
        own.delete(UPSTREAM, headers={"If-Match": "2"}),
    ):
        assert (answer.status_code, answer.headers["content-type"]) == (412, PROBLEM)
    assert revision(own) == 2
    shop = "/v1/upstreams/shop"
    assert own.put(shop, json=WEB, headers={"If-None-Match": "*"}).status_code == 201
    assert own.delete(shop, headers={"If-Match": "*"}).status_code == 204


def test_a_patch_changes_what_it_names_and_null_restores_the_default(own: TestClient) -> None:
    merge = {"Content-Type": "application/merge-patch+json"}
    pinned = own.patch(PEER, content='{"pin": 25, "state": "backup"}', headers=merge)
    assert pinned.json() == {
        "id": "server-1", "address": "10.0.0.11:80", "baseline": 1.0, "state": "backup", "pin": 25.0
    }  # fmt: skip
    restored = own.patch(PEER, json={"pin": None, "state": None, "baseline": None})
    assert (restored.json()["pin"], restored.json()["state"], restored.json()["baseline"]) == (
        None,
        "up",
        None,
    )
    assert own.patch(PEER, json={}).json() == restored.json()


def test_a_zone_is_declared_and_left_out_where_there_is_none(own: TestClient) -> None:
    assert "zone" not in own.get(PEER).json()
    assert own.patch(PEER, json={"zone": "eu-1a"}).json()["zone"] == "eu-1a"
    wait_until(lambda: own.get(PEER).json()["live"].get("zone") == "eu-1a")
    assert own.patch(PEER, json={"zone": "eu 1a"}).status_code == 422
    assert "zone" not in own.patch(PEER, json={"zone": None}).json()
    put = own.put(PEER, json={"address": "10.0.0.11:80", "zone": "eu-1b"})
    assert put.json()["zone"] == "eu-1b"


def test_a_server_may_have_a_limit_of_its_own(own: TestClient) -> None:
    assert "max_conns" not in own.get(PEER).json()
    assert own.patch(PEER, json={"max_conns": 256}).json()["max_conns"] == 256
    wait_until(lambda: own.get(PEER).json()["live"].get("max_conns") == 256)
    for wrong in (0, 1_000_001, 1.5, "many"):
        assert own.patch(PEER, json={"max_conns": wrong}).status_code == 422
    assert "max_conns" not in own.patch(PEER, json={"max_conns": None}).json()
    put = own.put(PEER, json={"address": "10.0.0.11:80", "max_conns": 8})
    assert put.json()["max_conns"] == 8


def test_a_drained_server_gets_no_share(own: TestClient) -> None:
    own.patch(PEER, json={"state": "drain"})
    wait_until(lambda: own.get(PEER).json()["live"]["share"] == 0)
    assert own.get(PEER).json()["live"]["state"] == "drain"


def test_a_server_is_put_and_deleted(own: TestClient) -> None:
    path = "/v1/upstreams/web/peers/server-3"
    assert own.put(path, json={"address": "[fd00::3]:80", "baseline": 1}).status_code == 201
    assert own.put(path, json={"address": "[fd00::3]:80", "baseline": 1}).status_code == 200
    assert own.get(path).json()["address"] == "[fd00::3]:80"
    wait_until(lambda: own.get(f"{path}/explain").status_code == 200)
    assert own.delete(path).status_code == 204
    # The last decision has it until the next tick.
    assert own.get(f"{path}/explain").status_code == 404
    assert (
        own.delete(path).status_code
        == own.get(path).status_code
        == own.patch(path, json={}).status_code
        == 404
    )


def test_an_upstream_without_servers_is_served(own: TestClient) -> None:
    assert own.put("/v1/upstreams/empty", json={}).status_code == 201
    for path in ("", "/weights", "/history", "/peers", "/declaration"):
        assert own.get(f"/v1/upstreams/empty{path}").status_code == 200


def test_a_deleted_upstream_is_gone(own: TestClient) -> None:
    assert own.put("/v1/upstreams/shop", json=WEB).status_code == 201
    assert own.delete("/v1/upstreams/shop").status_code == 204
    answer = own.get("/v1/upstreams/shop")
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "no upstream is called shop; there are: web",
    )


def test_an_upstream_of_the_configuration_file_cannot_be_deleted(own: TestClient) -> None:
    answer = own.delete(UPSTREAM)
    assert (answer.status_code, answer.headers["content-type"]) == (409, PROBLEM)
    assert "configuration file" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/v1/upstreams/shop", 404, "no upstream is called shop; there are: web"),
        ("/v1/upstreams/shop/weights", 404, "no upstream is called shop"),
        ("/v1/upstreams/web/peers/z", 404, "web: there is no peer z; there are: server-1, server-2"),
        ("/v1/upstreams/web/peers/z/explain", 404, "web has no peer z; there are: server-1, server-2"),
        ("/v1/upstreams/a%20b", 422, 'upstream: "a b" is no name'),
        ("/v1/upstreams/web/", 404, "there is nothing at /v1/upstreams/web/"),
        ("/v1/upstreams/web/history?seconds=nan", 422, "seconds: "),
        ("/v1/upstreams/web/history?seconds=0", 422, 'seconds: "0" must be at least 1'),
        ("/v1/upstreams/web/history?step_s=x", 422, 'step_s: "x" is not a number'),
        ("/v1/events?upstream=shop", 404, "no upstream is called shop"),
        ("/nowhere", 404, "there is nothing at /nowhere"),
        ("/%ff", 404, "there is nothing at /"),
    ],
)
def test_an_error_is_a_problem_document(api: TestClient, path: str, status: int, detail: str) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    document = answer.json()
    models_problem = set(document) - {"errors"}
    assert models_problem == {"type", "title", "status", "detail"}
    assert document["status"] == status
    assert document["detail"].startswith(detail)


def test_a_wrong_method_is_told_the_right_ones(api: TestClient) -> None:
    answer = api.post(UPSTREAM)
    assert (answer.status_code, answer.headers["content-type"]) == (405, PROBLEM)
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PUT"
    assert api.options(PEER).headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        ({"peers": [{"id": "a", "address": "10.0.0.1"}]}, "peers.0.address", "has no port: write it as"),
        ({"peers": [{"id": "a"}]}, "peers.0.address", "is missing"),
        ({"peers": [{"id": "a b", "address": "10.0.0.1:80"}]}, "peers.0.id", "is no name"),
        ({"peers": [{**A, "baseline": "1"}]}, "peers.0.baseline", "not a number"),
        ({"peers": [{**A, "baseline": 0}]}, "peers.0.baseline", "more than 0"),
        ({"peers": [{**A, "baseline": 10**400}]}, "peers.0.baseline", ""),
        ({"peers": [{**A, "pin": 100}]}, "peers.0.pin", "must be less than 100"),
        ({"peers": [{**A, "state": "on"}]}, "peers.0.state", "up, drain, down, backup"),
        ({"peers": {}}, "peers", "is not a list"),
        ({"peers": [[]]}, "peers.0", "is not an object"),
        ({"pears": []}, "pears", "did you mean peers?"),
        ({"law": "fair"}, "document", "there is no law 'fair'; choose one of"),
        ({"parameters": {"H": 7}}, "document", "give 0 to 0.99"),
        ({"parameters": {"H": True}}, "parameters.H", "is not a number"),
        ({"check": {"path": "healthz"}}, "check.path", "begin it with /"),
        ({"check": {}}, "check", "grpc_service"),
        ({"check": {"path": "/", "grpc_service": ""}}, "check", "leave one of them out"),
        ({"check": {"path": "/", "tls": 1}}, "check.tls", "neither true nor false"),
        ({"check": {"path": "/", "tls": True}}, "check", "tls_server_name is missing"),
        ({"check": {"path": "/", "tls": True, "host": "10.0.0.1:443"}}, "check", "host is not one"),
        ({"check": {"path": "/", "tls": True, "tls_server_name": "a:1"}}, "check.tls_server_name", "no host"),
        ({"check": {"path": "/", "tls_verify": False}}, "check", "have no effect"),
        ({"check": {"grpc_service": "", "tls": True}}, "check", "a port without TLS"),
        ({"check": {"path": "/", "tsl": True}}, "check.tsl", "did you mean tls?"),
        ({"check": {"path": "/", "rise": 1.5}}, "check.rise", "whole number"),
        ({"check": {"path": "/", "statuses": []}}, "check.statuses", "at least 1"),
        ({"hash_key": "ip"}, "hash_key", "header:NAME"),
        ({"blend": {"law": "paper", "percent": 101}}, "blend.percent", "at most 100"),
        ({"blend": {"law": "steelyard", "percent": 1}}, "document", "named twice"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_field_and_the_remedy(
    api: TestClient, document: dict[str, Any], field: str, message: str
) -> None:
    answer = api.put(
        "/v1/upstreams/shop", content=json.dumps(document), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.headers["content-type"]) == (422, PROBLEM)
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert message in error["message"]
    assert f"{field}: {error['message']}" == answer.json()["detail"]
    assert api.get("/v1/upstreams/shop").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"", 400, "the body is not JSON"),
        (b"{", 400, "the body is not JSON"),
        (b"\xff{}", 400, "the body is not UTF-8"),
        (b'{"parameters": {"H": NaN}}', 400, "the body is refused: NaN is no JSON number"),
        (b'{"parameters": {"H": -Infinity}}', 400, "the body is refused: -Infinity"),
        (b'{"law": "paper", "law": "static"}', 400, "the body is refused: 'law' occurs twice"),
        (b'{"law": "\\ud800"}', 400, "the body has half of a surrogate pair"),
        (b'{"parameters": {"H": ' + b"9" * 5000 + b"}}", 400, "the body is refused"),
        (b"[" * 100_000, 400, "the body is nested too deeply"),
        (b"[]", 422, "the body must be an object"),
        (b"null", 422, "the body must be an object"),
        (b'{"law": "' + b"x" * 500_000 + b'"}', 422, "document: there is no law 'xxx"),
    ],
)
def test_garbage_is_refused_and_said_why(api: TestClient, body: bytes, status: int, detail: str) -> None:
    answer = api.put("/v1/upstreams/shop", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert answer.json()["detail"].startswith(detail)
    assert len(answer.content) < 10_000


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"],
)
def test_another_content_type_is_415(api: TestClient, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    for answer in (
        api.put(UPSTREAM, content=b"{}", headers=headers),
        api.patch(PEER, content=b"{}", headers=headers),
    ):
        assert answer.status_code == 415
    assert answer.headers["accept-patch"] == "application/merge-patch+json, application/json"


def test_a_patch_of_an_unknown_field_is_refused(api: TestClient) -> None:
    answer = api.patch(PEER, json={"weight": 3, "state": "drian"})
    assert [error["field"] for error in answer.json()["errors"]] == ["state", "weight"]


def test_a_body_that_is_too_large_is_413_however_it_comes() -> None:
    def chunks() -> Any:
        for _ in range(20):
            yield b" " * 100

    with serving(max_body_bytes=1024) as api:
        for content in (b" " * 1025, chunks()):
            answer = api.put(UPSTREAM, content=content, headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)
            assert "--max-body-bytes" in answer.json()["detail"]
        small = json.dumps({"peers": []}).encode()
        padded = small + b" " * (1024 - len(small))
        assert (
            api.put(UPSTREAM, content=padded, headers={"Content-Type": "application/json"}).status_code == 200
        )


def test_a_body_that_never_comes_is_408() -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    request = Request({"type": "http", "headers": [(b"content-length", b"2")]}, never)
    with pytest.raises(ProblemError) as refused:
        asyncio.run(BodyLimit(1024, body_s=0.001).read(request))
    assert refused.value.status_code == 408


def test_head_is_get_without_a_body(api: TestClient) -> None:
    for path in (UPSTREAM, "/healthz", "/v1/events", "/nowhere"):
        answer = api.head(path)
        assert answer.content == b""
        if path != "/v1/events":
            assert answer.status_code == api.get(path).status_code
    assert api.head("/v1/events").headers["content-type"].startswith("text/event-stream")


def test_every_answer_has_the_security_headers(api: TestClient) -> None:
    for answer in (
        api.get("/healthz"),
        api.get("/nowhere"),
        api.put(UPSTREAM),
        api.head(UPSTREAM),
        api.get("/docs"),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert api.get(UPSTREAM).headers["cache-control"] == "no-store"


def test_a_mistake_of_ours_is_500_without_internals(
    own: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    @own.app.get("/broken")  # type: ignore[attr-defined, untyped-decorator]
    async def broken() -> None:
        raise RuntimeError("a secret of ours")

    answer = own.get("/broken", headers={"X-Other": "what-was-sent"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, PROBLEM)
    assert "secret" not in answer.text
    assert "a secret of ours" in caplog.text
    assert "what-was-sent" not in caplog.text


def test_a_controller_that_does_not_lead_is_alive_and_not_ready() -> None:
    with TestClient(create(service_of()), base_url="http://127.0.0.1") as api:
        assert api.get("/healthz").json() == {"status": "ok"}
        answer = api.get("/readyz")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["role"] == "waiting"
        away = api.get("/v1/upstreams")
        assert (away.status_code, away.headers["retry-after"]) == (503, "1")
        assert api.get("/v1/service").json()["leader"] is None
        assert api.get("/v1/laws").status_code == 200


def test_ready_says_what_is_degraded_and_that_nothing_outlives_a_restart(api: TestClient) -> None:
    wait_until(lambda: api.get("/readyz").json()["degraded"])
    document = api.get("/readyz").json()
    assert (document["status"], document["role"]) == ("degraded", "leader")
    assert document["state"] == "memory: nothing outlives a restart"
    assert [line.partition(":")[0] for line in document["degraded"]] == ["memcached 127.0.0.1"]
    assert document["upstreams"] == {}


def test_a_fault_of_the_controller_is_told_once_however_many_upstreams_there_are(
    own: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    size = len(own.get("/readyz").content)
    for number in range(30):
        own.put(f"/v1/upstreams/u{number}", json=WEB)
    wait_until(lambda: all(each["ready"] for each in own.get("/v1/upstreams").json()["upstreams"]))
    # Memcached is away, and Memcached alone.
    ready = own.get("/readyz")
    (fault,) = ready.json()["degraded"]
    assert len(ready.content) == size
    listed = own.get("/v1/upstreams").json()
    assert listed["controller"]["degraded"] == own.get("/v1/service").json()["degraded"] == [fault]
    assert listed["troubles"] == []
    assert {line for each in listed["upstreams"] for line in (*each["degraded"], *each["troubles"])} == set()
    upstream = own.get("/v1/upstreams/u7").json()
    assert (upstream["degraded"], upstream["controller"]["degraded"]) == ([], [fault])
    metrics = own.get("/metrics").text
    assert "steelyard_controller_degraded 1.0" in metrics
    # The state of the senders is unknown, so no alert names them.
    assert "steelyard_lb_reporting{" not in metrics
    assert set(re.findall(r"^steelyard_degraded{.*} (.*)$", metrics, re.MULTILINE)) == {"0.0"}
    # The log had its only line when Memcached was first asked, before there were these upstreams.
    assert [each.message for each in caplog.records if vars(each).get("event") == "fault"] == []


def test_ready_names_twenty_upstreams_with_faults_of_their_own_and_the_number_of_others() -> None:
    service = service_of()
    with serving(service=service) as api:
        for number in range(25):
            api.put(f"/v1/upstreams/u{number:02}", json=WEB)
            # In other words each, so each is its upstream's own.
            service._loop.faults_of(f"u{number:02}").note("test", f"fault {number}")
        wait_until(lambda: api.get("/readyz").json()["more"] == 5)
        upstreams = api.get("/readyz").json()["upstreams"]
        assert len(upstreams) == 20
        assert upstreams["u07"] == ["test: fault 7"]


@pytest.mark.integration
def test_where_the_only_memcached_drips_ticks_go_on_and_ready_says_so() -> None:
    with dripping() as server, serving(service=service_of(memcached=server.address)) as api:
        first = api.get(f"{UPSTREAM}/weights").json()["generation"]
        wait_until(lambda: api.get(f"{UPSTREAM}/weights").json()["generation"] >= first + 2)
        document = api.get("/readyz").json()
        assert document["status"] == "degraded"
        assert f"memcached {server.address}: timed out" in document["degraded"]
        assert server.is_dripping


def test_a_new_upstream_does_not_make_a_leader_unready(own: TestClient) -> None:
    for number in range(5):
        own.put(f"/v1/upstreams/u{number}", json=WEB)
        assert own.get("/readyz").status_code == 200


def test_metrics_are_prometheus_text(api: TestClient) -> None:
    families = {family.name: family for family in text_string_to_metric_families(api.get("/metrics").text)}
    weights = {sample.labels["peer"]: sample.value for sample in families["steelyard_peer_weight"].samples}
    assert set(weights) == {"server-1", "server-2"}
    # Without a report nothing is known to be open, and nothing waits.
    assert [each.value for each in families["steelyard_peer_waiting"].samples] == [0.0, 0.0]
    assert families["steelyard_peer_open"].samples == []
