"""The audit log: a leader and a standby with named tokens on one Redis, and a login proxy before the
standby."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from steelyard_controller.store.interface import Unavailable
from steelyard_controller.store.memory_store import MemoryStore

from testing.daemons import Daemon
from testing.waiting import wait_until

from ..processes import LOCAL, Controller, controller
from .login_proxy import login_proxy
from .serving import ADMIN, WEB, bearer, service_of, serving
from .test_named_tokens import ANNA, DEPLOY, PROXY

pytestmark = pytest.mark.integration

AGENT = "an-agents-token-of-the-tests"
WEB_URL = "/v1/upstreams/web"
PEER = f"{WEB_URL}/peers/server-1"
LINES = (
    f"anna {ANNA} drain web",
    f"deploy {DEPLOY} declare",
    f"servers {AGENT} agent",
    f"oauth2-proxy {PROXY} proxy",
    "bob@example.org - drain web",
)


@dataclass
class Pair:
    """Two controllers with one tokens file."""

    leader: Controller
    standby: Controller
    tokens: Path

    def say(self, *lines: str) -> None:
        """Put lines into the tokens file, as an editor does."""
        new = self.tokens.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.tokens)


@pytest.fixture
def pair(tmp_path: Path, memcached: Daemon, redis_server: Daemon) -> Iterator[Pair]:
    tokens, config = tmp_path / "tokens", tmp_path / "controller.yaml"
    tokens.touch(0o600)
    tokens.write_text("".join(f"{line}\n" for line in LINES))
    config.write_text("upstreams: {of-file: {peers: [{id: a, address: '10.0.0.1:80'}]}}\n")
    flags = [
        "--memcached", memcached.address, "--state-url", f"redis://{redis_server.address}/0",
        "--config", str(config), "--tokens-file", str(tokens), "--lease-s", "3",
    ]  # fmt: skip
    with controller(tmp_path, *flags, "--id", "one", environment={"STEELYARD_ADMIN_TOKEN": ADMIN}) as one:
        one.wait("leader")
        with controller(tmp_path, *flags, "--id", "two", environment={"STEELYARD_ADMIN_TOKEN": ADMIN}) as two:
            two.wait("standby")
            yield Pair(one, two, tokens)


def log(of: Controller, token: str = ANNA, **query: Any) -> list[dict[str, Any]]:
    answer = LOCAL.get(f"{of.url}/v1/audit", headers=bearer(token), params=query)
    assert answer.status_code == 200, answer.text
    entries: list[dict[str, Any]] = answer.json()["entries"]
    return entries


def test_a_name_goes_through_the_standby_and_the_log_outlives_the_leader(pair: Pair) -> None:
    standby = pair.standby.url
    LOCAL.put(f"{standby}{WEB_URL}", json=WEB, headers=bearer(DEPLOY)).raise_for_status()
    drained = LOCAL.patch(f"{standby}{PEER}", json={"state": "drain"}, headers=bearer(ANNA))
    assert drained.status_code == 200
    LOCAL.patch(f"{pair.leader.url}{PEER}", json={"pin": 20}, headers=bearer(ADMIN)).raise_for_status()
    registered = LOCAL.put(
        f"{standby}{WEB_URL}/peers/server-9", json={"address": "10.0.0.19:80"}, headers=bearer(AGENT)
    )
    assert registered.status_code == 201
    # Again, as agents do each 30 s: nothing has changed, and nothing is logged.
    LOCAL.put(f"{standby}{WEB_URL}/peers/server-9", json={"address": "10.0.0.19:80"}, headers=bearer(AGENT))

    entries = log(pair.standby)
    listed = [(each["who"], each["kind"], each["via"], each["upstream"], each["what"]) for each in entries]
    assert listed == [
        ("servers", "agent", "two", "web", "server-9 added (10.0.0.19:80)"),
        ("admin", "token", None, "web", "server-1: pin none -> 20"),
        ("anna", "token", "two", "web", "server-1: state up -> drain"),
        ("deploy", "token", "two", "web", "declared"),
        ("the configuration file", "file", "one", "of-file", "declared"),
    ]
    assert entries[2]["changes"] == [{"field": "peers.server-1.state", "before": "up", "after": "drain"}]
    assert (entries[2]["revision"], entries[2]["address"]) == (2, "127.0.0.1")
    assert 'by="anna at 127.0.0.1 by two"' in pair.leader.log.read_text()

    pair.leader.process.kill()
    pair.standby.wait("leader")
    assert log(pair.standby) == entries
    LOCAL.patch(f"{standby}{PEER}", json={"state": "up"}, headers=bearer(ANNA)).raise_for_status()
    newest, *others = log(pair.standby)
    assert (newest["who"], newest["via"], newest["what"]) == ("anna", None, "server-1: state drain -> up")
    assert others == entries
    assert newest["id"] > entries[0]["id"]

    # By origin, in pages, and for one upstream.
    assert [each["kind"] for each in log(pair.standby, origin="files")] == ["file"]
    assert [each["who"] for each in log(pair.standby, origin="machines", upstream="web")] == ["servers"]
    first = LOCAL.get(f"{standby}/v1/audit?limit=3&origin=people", headers=bearer(ANNA))
    rest = LOCAL.get(f"{standby}{first.links['next']['url']}", headers=bearer(ANNA))
    people = [each["who"] for each in first.json()["entries"] + rest.json()["entries"]]
    assert people == ["anna", "admin", "anna", "deploy"]
    page = LOCAL.get(f"{standby}/v1/audit?limit=2&upstream=web", headers=bearer(ANNA))
    following = LOCAL.get(f"{standby}{page.links['next']['url']}", headers=bearer(ANNA))
    assert page.json()["entries"] + following.json()["entries"] == [newest, *entries[:3]]
    last = LOCAL.get(f"{standby}{following.links['next']['url']}", headers=bearer(ANNA))
    assert (last.json()["entries"], last.links) == ([entries[3]], {})
    for token in (ANNA, DEPLOY, AGENT, PROXY, ADMIN):
        for text in (pair.leader.log.read_text(), pair.standby.log.read_text(), str(newest), str(entries)):
            assert token not in text


def test_a_token_is_valid_and_invalid_from_the_moment_the_file_changes(pair: Pair) -> None:
    new = "carls-token-of-the-tests"
    for url in (pair.standby.url, pair.leader.url):
        pair.say(*LINES)
        LOCAL.put(f"{url}{WEB_URL}", json=WEB, headers=bearer(DEPLOY)).raise_for_status()
        assert LOCAL.patch(f"{url}{PEER}", json={"pin": 10}, headers=bearer(new)).status_code == 401
        pair.say(*LINES[1:], f"carl {new} drain")
        assert LOCAL.patch(f"{url}{PEER}", json={"pin": 30}, headers=bearer(new)).status_code == 200
        assert LOCAL.patch(f"{url}{PEER}", json={"pin": 40}, headers=bearer(ANNA)).status_code == 401
    assert log(pair.standby, DEPLOY)[0]["who"] == "carl"

    # A mistake: the previous tokens hold, and both controllers report its line, with or without a request.
    pair.say(*LINES[1:-1], f"carl {new} drian", LINES[-1])
    fault = f"the tokens file {pair.tokens}: line 4: its third field has an unknown scope: write read"
    for each in (pair.standby, pair.leader):
        wait_until(lambda each=each: fault in each.log.read_text())  # type: ignore[misc]
        assert fault in str(LOCAL.get(f"{each.url}/readyz").json()["degraded"])
        assert LOCAL.patch(f"{each.url}{PEER}", json={"pin": 50}, headers=bearer(new)).status_code == 200
    pair.say(*LINES)
    for each in (pair.standby, pair.leader):
        assert LOCAL.patch(f"{each.url}{PEER}", json={"pin": 60}, headers=bearer(new)).status_code == 401
        assert LOCAL.get(f"{each.url}/readyz").json()["degraded"] == []


def test_a_person_behind_a_login_proxy_has_their_own_name(pair: Pair) -> None:
    LOCAL.put(f"{pair.leader.url}{WEB_URL}", json=WEB, headers=bearer(DEPLOY)).raise_for_status()
    bob, carl = ({"Cookie": f"user={name}@example.org"} for name in ("bob", "carl"))
    with login_proxy(pair.standby.url, PROXY) as url:
        assert LOCAL.get(f"{url}{WEB_URL}").status_code == 302
        assert LOCAL.patch(f"{url}{PEER}", json={"state": "drain"}, headers=bob).status_code == 200
        # A user without a line has the rights in the proxy's line: reading.
        refused = LOCAL.patch(f"{url}{PEER}", json={"state": "up"}, headers=carl)
        assert refused.status_code == 403
        assert "needs a token of the scope drain; carl@example.org's has read" in refused.json()["detail"]
        assert LOCAL.get(f"{url}/v1/audit", headers=carl).json()["entries"][0]["who"] == "bob@example.org"
        # A token or a name that a client sends through it is not the proxy's.
        forged = {**carl, **bearer(DEPLOY), "X-Forwarded-User": "bob@example.org"}
        assert LOCAL.patch(f"{url}{PEER}", json={"state": "up"}, headers=forged).status_code == 403
        # A request by a page of another site comes with the proxy's cookie, too.
        foreign = LOCAL.patch(
            f"{url}{PEER}", json={"state": "up"}, headers={**bob, "Sec-Fetch-Site": "cross-site"}
        )
        assert foreign.status_code == 403
    entry, *_ = log(pair.standby)
    assert (entry["who"], entry["kind"], entry["via"]) == ("bob@example.org", "person", "oauth2-proxy, two")
    # Past the proxy its headers are worth nothing.
    past = {"X-Forwarded-User": "bob@example.org", "X-Forwarded-Email": "bob@example.org"}
    for each in (pair.standby, pair.leader):
        assert LOCAL.patch(f"{each.url}{PEER}", json={"state": "up"}, headers=past).status_code == 401


def test_a_tokens_file_that_is_broken_at_the_start_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"anna {ANNA} drain\ndeploy {DEPLOY} everything\n")
    with controller(tmp_path, "--state-url", "memory://", "--tokens-file", str(tokens)) as one:
        assert one.process.wait() == 2
        assert f"the tokens file {tokens}: line 2: its third field" in one.log.read_text()
        assert DEPLOY not in one.log.read_text()


def test_a_log_that_cannot_be_read_is_503() -> None:
    class Away(MemoryStore):
        async def audit(self, **_: object) -> Sequence[tuple[int, bytes]]:
            raise Unavailable("Redis did not answer within 0.25 s")

    with serving(service=service_of(store=Away())) as api:
        answer = api.get("/v1/audit")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "Redis did not answer" in answer.json()["detail"]
