"""The REST API over a real outcome, without a network."""

import re
from dataclasses import dataclass

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from steelyard_agent import signature
from steelyard_controller import laws, weight_table
from steelyard_controller.api.app import create
from steelyard_controller.assemble import assemble
from steelyard_controller.intake import Intake, take
from steelyard_controller.outcome import Outcome
from steelyard_controller.tabulate import tabulate
from steelyard_controller.upstream import Peer, Upstream

from .examples import report, sample

WEB = Upstream(
    law="steelyard",
    peers=[Peer(id="a", address="10.0.0.1:80", baseline=1), Peer(id="b", address="10.0.0.2:80", baseline=1)],
)


@dataclass
class Source:
    name: str
    upstream: Upstream
    outcome: Outcome | None
    overruns: int = 0


def _outcome() -> Outcome:
    intake = take(
        Intake(),
        1.0,
        upstream="web",
        samples={"a": sample("a", cpu=0.9), "b": b"garbage"},
        reports={"edge-1": report(a=(50, 0, 2, 10.0), b=(50, 0, 1, 4.0))},
    )
    snapshot = assemble(intake, WEB.peers, now_s=1.0, tick_s=1.0)
    law = laws.create("steelyard")
    _, decision = law.step(law.start(), snapshot)
    paper = laws.create("paper")
    _, shadow = paper.step(paper.start(), snapshot)
    table = tabulate(decision, WEB, name="web", term=3, generation=118, issued_at_ms=1)
    return Outcome(
        table=table, decision=decision, shadows={"paper": shadow}, snapshot=snapshot, intake=intake, now_s=1.5
    )


@pytest.fixture
def api() -> TestClient:
    return TestClient(create({"web": Source("web", WEB, _outcome()), "young": Source("young", WEB, None)}))


def test_weights_are_the_published_table(api: TestClient) -> None:
    answer = api.get("/v1/upstreams/web/weights")
    assert answer.headers["etag"] == '"3.118"'
    document = answer.json()
    assert (document["v"], document["term"], document["generation"], document["law"]) == (
        1,
        3,
        118,
        "steelyard",
    )
    assert [peer["id"] for peer in document["peers"]] == ["a", "b"]


def test_with_a_key_the_signature_of_the_bodys_bytes_is_in_a_header() -> None:
    api = TestClient(create({"web": Source("web", WEB, _outcome())}, key=b"k" * 32))
    answer = api.get("/v1/upstreams/web/weights")
    value = f"{answer.headers['steelyard-signature']}.".encode() + answer.content
    assert signature.open_value(b"k" * 32, value) == answer.content
    assert isinstance(weight_table.decode(answer.content), weight_table.WeightTable)
    assert answer.headers["content-type"] == "application/json"


def test_without_a_key_there_is_no_signature(api: TestClient) -> None:
    assert "steelyard-signature" not in api.get("/v1/upstreams/web/weights").headers


@pytest.mark.parametrize("tag", ['"3.118"', 'W/"3.118"', '"1.1", "3.118"', "*"])
def test_an_unchanged_table_is_304(api: TestClient, tag: str) -> None:
    answer = api.get("/v1/upstreams/web/weights", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")


def test_a_changed_table_is_sent(api: TestClient) -> None:
    assert api.get("/v1/upstreams/web/weights", headers={"If-None-Match": '"3.117"'}).status_code == 200


def test_the_overview_shows_inputs_ages_and_refusals(api: TestClient) -> None:
    document = api.get("/v1/upstreams/web").json()
    a, b = document["peers"]
    assert (a["utilization"]["cpu"], a["sample_age_s"], b["utilization"]) == (0.9, 0.5, None)
    assert sum(peer["share"] for peer in document["peers"]) == pytest.approx(1)
    assert "not_json" in document["refused"]["now"]["sample of b"]
    assert document["load_balancers"] == {"edge-1": {"report_age_s": 0.5}}
    assert a["why"]
    assert set(a["shadows"]) == {"paper"}


def test_a_weight_is_explained(api: TestClient) -> None:
    document = api.get("/v1/upstreams/web/peers/a/explain").json()
    assert document["sentence"].startswith(f"{document['weight']:.0f} because")
    assert document["shadows"]["paper"]["sentence"]


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/v1/upstreams/shop", 404, "no upstream is called shop; there are: web, young"),
        ("/v1/upstreams/shop/weights", 404, "no upstream is called shop"),
        ("/v1/upstreams/web/peers/z/explain", 404, "web has no peer z; there are: a, b"),
        ("/v1/upstreams/young/weights", 503, "young has not had its first tick"),
        ("/readyz", 503, "waiting for the first tick of young"),
        ("/nowhere", 404, ""),
    ],
)
def test_an_error_is_a_problem_document(api: TestClient, path: str, status: int, detail: str) -> None:
    answer = api.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert re.match(re.escape(detail), answer.json()["detail"])


def test_a_wrong_method_is_a_problem_document(api: TestClient) -> None:
    answer = api.post("/v1/upstreams/web/weights")
    assert (answer.status_code, answer.headers["content-type"]) == (405, "application/problem+json")


def test_alive_is_not_ready(api: TestClient) -> None:
    assert api.get("/healthz").json() == {"status": "ok"}


def test_metrics_are_prometheus_text(api: TestClient) -> None:
    families = {family.name: family for family in text_string_to_metric_families(api.get("/metrics").text)}
    weights = {sample.labels["peer"]: sample.value for sample in families["steelyard_peer_weight"].samples}
    assert set(weights) == {"a", "b"}
    assert families["steelyard_refused"].samples[0].labels == {"upstream": "web", "reason": "not_json"}


def test_openapi_names_every_operation(api: TestClient) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    operations = [method["operationId"] for path in paths.values() for method in path.values()]
    assert len(set(operations)) == len(operations)
    assert "getWeights" in operations
