"""A standby forwards requests for the leader, with no more rights than the client has."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from steelyard_controller.api.app import create
from steelyard_controller.api.streams import OF_ONE_FORWARDED
from steelyard_controller.api.tokens import access
from steelyard_controller.store.lease import Lease

from testing.daemons import Daemon
from testing.waiting import PATIENCE_S, wait_until

from ..processes import LOCAL, Controller, Listener, asked_for_a_stream, controller, own_token
from .serving import ADMIN, AGENT, WEB, Standby, bearer, service_of

WEB_URL = "/v1/upstreams/web"
PEER = "/v1/upstreams/web/peers/server-1"


@dataclass
class Pair:
    leader: Controller
    standby: Controller


@pytest.fixture
def pair(tmp_path: Path, memcached: Daemon, redis_server: Daemon) -> Iterator[Pair]:
    flags = [
        "--memcached",
        memcached.address,
        "--state-url",
        f"redis://{redis_server.address}/0",
        "--lease-s",
        "3",
    ]
    with controller(tmp_path, *flags) as one:
        one.wait("leader")
        with controller(tmp_path, *flags) as other:
            other.wait("standby")
            LOCAL.put(f"{one.url}{WEB_URL}", json=WEB, headers=own_token()).raise_for_status()
            one.wait_decided(WEB_URL)
            yield Pair(one, other)


@pytest.mark.integration
def test_a_standby_answers_for_itself_and_hands_on_the_rest_changes_and_events(pair: Pair) -> None:
    standby = pair.standby.url
    assert LOCAL.get(f"{standby}/v1/service").json()["role"] == "standby"
    assert LOCAL.get(f"{standby}/v1/service").json()["leader"]["url"] == pair.leader.url
    assert 'steelyard_role{role="standby"} 1.0' in LOCAL.get(f"{standby}/metrics").text
    declared = LOCAL.get(f"{standby}{WEB_URL}/declaration")
    assert declared.json() == LOCAL.get(f"{pair.leader.url}{WEB_URL}/declaration").json()
    assert declared.headers["etag"] == '"1"'
    unchanged = LOCAL.get(f"{standby}{WEB_URL}/declaration", headers={"If-None-Match": '"1"'})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    for path in ("/nowhere", "/v1/upstreams/shop", "/v1/upstreams/a%20b"):
        ours, theirs = LOCAL.get(f"{standby}{path}"), LOCAL.get(f"{pair.leader.url}{path}")
        assert (ours.status_code, ours.json()) == (theirs.status_code, theirs.json())
    head = LOCAL.head(f"{standby}{WEB_URL}")
    assert (head.status_code, head.content) == (200, b"")
    assert len(LOCAL.get(f"{standby}{WEB_URL}").headers.get_list("content-security-policy")) == 1
    # And the requested change.
    token = own_token()
    changed = LOCAL.patch(f"{standby}{PEER}", json={"state": "drain"}, headers={"If-Match": '"1"', **token})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    assert LOCAL.get(f"{pair.leader.url}{PEER}").json()["state"] == "drain"
    late = LOCAL.patch(f"{standby}{PEER}", json={"state": "up"}, headers={"If-Match": '"1"', **token})
    assert late.status_code == 412
    wrong = LOCAL.put(f"{standby}{WEB_URL}", json={"pears": []}, headers=token)
    assert wrong.json()["errors"][0]["field"] == "pears"
    foreign = LOCAL.patch(f"{standby}{PEER}", json={"state": "up"}, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 401
    own = LOCAL.patch(f"{standby}{PEER}", json={"state": "up"}, headers={"Origin": standby, **token})
    assert own.status_code == 200
    # Events come through it, and end with it.
    heard = Listener(standby)
    wait_until(lambda: heard.kinds().count("tick") >= 3)
    assert json.loads(heard.of("role")[0])["role"] == "leader"
    LOCAL.patch(f"{pair.leader.url}{PEER}", json={"pin": 20}, headers=token)
    wait_until(lambda: heard.of("change"))
    # One client of the standby leaves places for its others, which the leader takes for the same client.
    asyncio.run(_one_client_takes_half(standby))
    pair.standby.stop()
    assert heard.ended.wait(PATIENCE_S)


async def _one_client_takes_half(standby: str) -> None:
    tries = (asked_for_a_stream(standby, "127.0.0.2") for _ in range(OF_ONE_FORWARDED + 5))
    opened = await asyncio.gather(*tries)
    assert Counter(status for status, _, _ in opened) == {200: OF_ONE_FORWARDED, 429: 5}
    opened.append(await asked_for_a_stream(standby, "127.0.0.3"))
    assert opened[-1][0] == 200
    for _, _, writer in opened:
        writer.close()


@pytest.mark.integration
def test_a_client_of_the_standby_goes_on_when_the_leader_is_killed(pair: Pair) -> None:
    before = LOCAL.get(f"{pair.standby.url}{WEB_URL}/weights").json()
    heard = Listener(pair.standby.url)
    wait_until(lambda: heard.of("tick"))
    pair.leader.process.kill()
    assert heard.ended.wait(PATIENCE_S), "the client is not told to connect again"
    pair.standby.wait("leader")

    def answers() -> bool:
        return LOCAL.get(f"{pair.standby.url}{WEB_URL}/weights").status_code == 200

    wait_until(answers)
    after = LOCAL.get(f"{pair.standby.url}{WEB_URL}/weights").json()
    assert (after["term"], after["generation"]) > (before["term"], before["generation"])
    assert [peer["weight"] for peer in after["peers"]] == [peer["weight"] for peer in before["peers"]]
    again = Listener(pair.standby.url)
    wait_until(lambda: again.of("tick"))


def ask(lease: Lease | None, method: str = "GET", path: str = WEB_URL, **options: Any) -> httpx.Response:
    """Ask a controller that stands by, or waits, under a lease."""
    tokens, client = options.pop("tokens", {}), options.pop("client", "127.0.0.1")

    async def session() -> httpx.Response:
        service = service_of(id="two")
        service.__class__ = Standby
        service.lease = lease  # type: ignore[attr-defined]
        app = create(service, access=access(**tokens))
        transport = httpx.ASGITransport(app, client=(client, 5), raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8082") as asked,
        ):
            return await asked.request(method, path, **options)

    return asyncio.run(session())


@pytest.mark.parametrize("lease", [None, Lease(holder="two", boot="b", url="http://127.0.0.1:1", term=1)])
def test_without_another_leader_it_is_503(lease: Lease | None) -> None:
    answer = ask(lease)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "no controller leads now" in answer.json()["detail"]


def test_a_leader_that_does_not_answer_is_503() -> None:
    answer = ask(Lease(holder="one", boot="b", url="http://127.0.0.1:1", term=1))
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert "one leads and does not answer" in answer.json()["detail"]


def test_a_forwarded_request_is_not_forwarded_again() -> None:
    lease = Lease(holder="one", boot="b", url="http://127.0.0.1:1", term=1)
    answer = ask(lease, headers={"Steelyard-Forwarded": "three"})
    assert answer.status_code == 503
    assert "three takes this controller for the leader" in answer.json()["detail"]


def test_a_request_without_the_right_to_write_is_not_forwarded() -> None:
    lease = Lease(holder="one", boot="b", url="http://127.0.0.1:1", term=1)
    assert ask(lease, "DELETE", client="203.0.113.9").status_code == 403
    assert ask(lease, "DELETE").status_code == 403
    tokens = {"admin": [ADMIN], "agent": [AGENT]}
    assert ask(lease, "DELETE", tokens=tokens).status_code == 401
    assert ask(lease, "DELETE", tokens=tokens, headers=bearer(AGENT)).status_code == 403
    assert ask(lease, "DELETE", tokens=tokens, headers=bearer(ADMIN)).status_code == 503


def test_readiness_of_one_that_takes_over_waits_for_its_first_tick() -> None:
    mine = Lease(holder="two", boot="b", url="http://127.0.0.1:1", term=1)
    other = Lease(holder="one", boot="b", url="http://127.0.0.1:1", term=1)
    assert ask(mine, path="/readyz").status_code == 503
    assert ask(other, path="/readyz").json()["role"] == "standby"
