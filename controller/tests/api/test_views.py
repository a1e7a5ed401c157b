"""Views of collections that are too large to show all: over the API, as the page and people ask."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from steelyard_controller.api import upstream_models

from .serving import serving

SERVERS = 60


@pytest.fixture(scope="module")
def api() -> Iterator[TestClient]:
    with serving() as client:
        peers = [{"id": f"s{n}", "address": f"10.1.0.{n}:80"} for n in range(1, SERVERS + 1)]
        for name in ("big", "shop"):
            document = {"peers": peers if name == "big" else [{"id": "till", "address": "10.7.7.7:80"}]}
            client.put(f"/v1/upstreams/{name}", json=document).raise_for_status()
            client.get(f"/v1/upstreams/{name}").raise_for_status()
        yield client


def names(answer: Any) -> list[str]:
    return [each["name"] for each in answer.json()["upstreams"]]


def ids(document: Any) -> list[str]:
    return [each["id"] for each in document["peers"]]


def test_upstreams_are_found_by_the_address_of_a_server(api: TestClient) -> None:
    answer = api.get("/v1/upstreams", params={"search": "10.7.7"})
    upstream_models.Upstreams.model_validate(answer.json())
    (shop,) = answer.json()["upstreams"]
    assert (shop["name"], shop["found"]) == ("shop", ["till"])
    assert (answer.json()["matching"], answer.json()["total"]) == (1, 3)


def test_upstreams_come_in_pages_the_worst_first(api: TestClient) -> None:
    # Memcached is unreachable for all of them, so they are equal.
    first = api.get("/v1/upstreams", params={"order": "worst", "limit": 2})
    second = api.get("/v1/upstreams", params={"order": "worst", "limit": 2, "offset": 2})
    assert sorted(names(first) + names(second)) == ["big", "shop", "web"]
    assert [each["troubles"] for each in first.json()["upstreams"]] == [[], []]


def test_servers_come_in_pages_with_the_totals_of_all(api: TestClient) -> None:
    answer = api.get("/v1/upstreams/big", params={"order": "name", "offset": 50, "limit": 50})
    upstream_models.Overview.model_validate(answer.json())
    assert ids(answer.json()) == [f"s{n}" for n in range(51, SERVERS + 1)]
    assert (answer.json()["matching"], answer.json()["totals"]["servers"]) == (SERVERS, SERVERS)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"order": "colour"}, "order"),
        ({"offset": -1}, "offset"),
        ({"search": "x" * 101}, "search"),
        ({"order": "worst", "after": "s1"}, "after"),
    ],
)
def test_what_cannot_be_asked_for_is_named(api: TestClient, query: dict[str, Any], field: str) -> None:
    answer = api.get("/v1/upstreams/big", params=query)
    assert answer.status_code == 422
    assert field in [each["field"] for each in answer.json()["errors"]]


def test_the_past_of_some_servers_has_their_columns_and_all_together(api: TestClient) -> None:
    moments = api.get("/v1/upstreams/big/history", params={"peer": ["s2", "s7"]}).json()["moments"]
    assert {tuple(each["ids"]) for each in moments} == {("s2", "s7")}
    assert moments[0]["all"]["share"] == pytest.approx(1)
    upstream_models.History.model_validate({"upstream": "big", "moments": moments})
    assert api.get("/v1/upstreams/big/history", params={"peer": ["s1"] * 51}).status_code == 422
