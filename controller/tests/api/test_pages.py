"""Pages of collections: each member occurs once, whatever is added or removed between them."""

import re

from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.api.pages import page
from steelyard_controller.api.upstream_models import Overview

from testing.waiting import wait_until

from .serving import ADMIN, serving

NAMES = st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,6}", fullmatch=True), unique=True, max_size=20)


@given(NAMES, st.integers(1, 25))
def test_the_pages_together_are_the_collection_in_the_order_of_the_names(
    names: list[str], limit: int
) -> None:
    seen: list[str] = []
    after = None
    while True:
        one = page("/v1/upstreams", names, after=after, limit=limit)
        assert len(one.places) <= limit
        seen += [names[place] for place in one.places]
        if not one.headers:
            break
        (after,) = re.findall(
            rf'^</v1/upstreams\?after=(.+)&limit={limit}>; rel="next"$', one.headers["Link"]
        )
    assert seen == sorted(names)


def test_without_a_word_a_collection_is_whole_and_in_its_own_order() -> None:
    assert list(page("/p", ["b", "a"], after=None, limit=None).places) == [0, 1]
    assert list(page("/p", ["b", "a", "c"], after="a", limit=None).places) == [0, 2]


def test_one_that_is_gone_is_as_good_a_mark() -> None:
    assert list(page("/p", ["a", "c"], after="b", limit=5).places) == [1]


def test_upstreams_servers_and_an_overview_have_pages() -> None:
    with serving() as api:
        token = {"Authorization": f"Bearer {ADMIN}"}
        for name in ("api", "shop"):
            assert api.put(f"/v1/upstreams/{name}", json={}, headers=token).is_success
        answer = api.get("/v1/upstreams?limit=2")
        assert [each["name"] for each in answer.json()["upstreams"]] == ["api", "shop"]
        assert answer.headers["Link"] == '</v1/upstreams?after=shop&limit=2>; rel="next"'
        rest = api.get(answer.links["next"]["url"])
        assert [each["name"] for each in rest.json()["upstreams"]] == ["web"]
        assert "Link" not in rest.headers
        for path in ("/v1/upstreams/web/peers", "/v1/upstreams/web"):
            first = api.get(f"{path}?limit=1")
            assert [peer["id"] for peer in first.json()["peers"]] == ["server-1"]
            second = api.get(first.links["next"]["url"])
            assert [peer["id"] for peer in second.json()["peers"]] == ["server-2"]
            assert api.get(f"{path}?limit=0").status_code == 422
            assert api.get(f"{path}?after=a%20b").status_code == 422
        assert second.json()["indicators"] == first.json()["indicators"]
        assert second.json()["peers"][0] == api.get("/v1/upstreams/web").json()["peers"][1] | {
            "sample_age_s": None
        }


def test_the_totals_have_the_indicators_that_count_and_no_other() -> None:
    with serving() as api:
        token = {"Authorization": f"Bearer {ADMIN}"}
        declared = {"indicators": {"queue": {}}, "peers": [{"id": "a", "address": "10.0.0.1:80"}]}
        assert api.put("/v1/upstreams/web", json=declared, headers=token).is_success
        wait_until(lambda: api.get("/v1/upstreams/web").json()["totals"]["utilization"] == {"queue": None})
        Overview.model_validate(api.get("/v1/upstreams/web").json())
