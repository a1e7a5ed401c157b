"""Who may do what: tokens, the loopback rule, and what a browser must not be talked into."""

from pathlib import Path

import pytest
from steelyard_controller.api import token_files
from steelyard_controller.api.auth import Asked, is_loopback, role_for
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.token_files import TokenFileError
from steelyard_controller.api.tokens import Access, BadToken, access, tokens_of

from .serving import ADMIN, AGENT, READ, WEB, bearer, serving

ALL = access(admin=[ADMIN], agent=[AGENT], read=[READ])
PEER = "/v1/upstreams/web/peers/server-9"
UPSTREAM = "/v1/upstreams/web"


def asked(
    method: str = "PUT", path: str = UPSTREAM, client: str | None = "127.0.0.1", **headers: str
) -> Asked:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Asked(method=method, path=path, client=client, headers={"host": "127.0.0.1:8081", **names})


def refusal(of: Access, request: Asked) -> int:
    with pytest.raises(ProblemError) as error:
        role_for(of, request)
    return error.value.status_code


@pytest.mark.parametrize(("token", "role"), [(ADMIN, "admin"), (AGENT, "agent"), (READ, "read")])
def test_a_token_has_its_role(token: str, role: str) -> None:
    assert ALL.role_of(token) == role


@pytest.mark.parametrize("token", ["", "x", ADMIN[:-1], ADMIN + "x", "\ud800" * 20])
def test_another_token_has_none(token: str) -> None:
    assert ALL.role_of(token) is None


def test_several_tokens_of_a_role_hold_while_they_are_changed() -> None:
    both = access(admin=[ADMIN, "the-next-admin-token"])
    assert both.role_of(ADMIN) == both.role_of("the-next-admin-token") == "admin"


def test_a_token_that_is_two_roles_is_the_stronger_one() -> None:
    assert access(read=[ADMIN], admin=[ADMIN]).role_of(ADMIN) == "admin"


def test_no_token_shows_in_a_representation() -> None:
    assert ADMIN not in repr(ALL)
    assert "digests" not in repr(ALL)


@pytest.mark.parametrize(
    ("token", "method", "path", "allowed"),
    [
        (READ, "GET", UPSTREAM, True),
        (READ, "PUT", PEER, False),
        (AGENT, "GET", UPSTREAM, True),
        (AGENT, "PUT", PEER, True),
        (AGENT, "PATCH", PEER, False),
        (AGENT, "DELETE", PEER, True),
        (AGENT, "PUT", UPSTREAM, False),
        (AGENT, "PUT", PEER + "/explain", False),
        (ADMIN, "DELETE", UPSTREAM, True),
        (ADMIN, "BREW", "/", True),
    ],
)
def test_a_role_may_do_this_and_not_that(token: str, method: str, path: str, allowed: bool) -> None:
    request = asked(method, path, "203.0.113.9", authorization=f"Bearer {token}")
    if allowed:
        assert role_for(ALL, request)
    else:
        assert refusal(ALL, request) == 403


@pytest.mark.parametrize("header", ["Bearer wrong", "Basic abc", "Bearer", ADMIN, f"Token {ADMIN}"])
def test_a_wrong_token_is_refused_even_where_none_is_needed(header: str) -> None:
    assert refusal(access(admin=[ADMIN]), asked("GET", UPSTREAM, authorization=header)) == 401


def test_with_an_admin_token_this_machine_needs_it_too() -> None:
    assert refusal(access(admin=[ADMIN]), asked()) == 401


def test_with_a_read_token_reading_needs_one() -> None:
    assert refusal(ALL, asked("GET")) == 401
    for path in ("/", "/page/main.js", "/docs", "/openapi.json", "/healthz", "/readyz"):
        assert role_for(ALL, asked("GET", path)) == "read"


def test_a_path_that_only_looks_open_is_not() -> None:
    assert refusal(ALL, asked("GET", "/healthz/")) == 401
    assert refusal(ALL, asked("POST", "/healthz")) == 401


@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_without_an_admin_token_this_machine_may_write(client: str) -> None:
    assert role_for(Access(), asked(client=client)) == "admin"


@pytest.mark.parametrize(
    "client", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "198.51.100.1", "", None, "localhost"]
)
def test_without_an_admin_token_no_other_machine_may(client: str | None) -> None:
    assert not is_loopback(client)
    assert refusal(Access(), asked(client=client)) == 403


def test_a_forwarded_address_is_no_proof() -> None:
    assert refusal(Access(), asked(client="10.0.0.1", x_forwarded_for="127.0.0.1")) == 403


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "via", "x_real_ip"])
def test_what_came_through_a_proxy_did_not_come_from_this_machine(header: str) -> None:
    assert refusal(Access(), asked(**{header: "203.0.113.9"})) == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:8081", "LOCALHOST", "[::1]:8081", "10.0.0.5:80", "ctl-1:8081"]
)
def test_a_name_that_no_stranger_can_own_is_taken(host: str) -> None:
    assert role_for(access(hosts=["CTL-1"]), asked(host=host)) == "admin"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8081", "", "127.0.0.1.evil.example", "localhost.evil.example"]
)
def test_dns_rebinding_is_refused(host: str) -> None:
    assert refusal(access(hosts=["ctl-1"]), asked(host=host)) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_another_sites_page_cannot_write(headers: dict[str, str]) -> None:
    assert refusal(Access(), asked(**headers)) == 403


def test_the_own_page_can_write() -> None:
    own = asked(origin="http://127.0.0.1:8081", sec_fetch_site="same-origin")
    assert role_for(Access(), own) == "admin"


def test_a_token_is_enough_wherever_the_page_came_from() -> None:
    request = asked(origin="https://ops.example", host="ops.example", authorization=f"Bearer {ADMIN}")
    assert role_for(ALL, request) == "admin"


def test_a_standbys_word_takes_rights_and_lends_none() -> None:
    as_agent = asked("DELETE", UPSTREAM, steelyard_role="agent")
    assert refusal(Access(), as_agent) == 403
    stolen = asked("DELETE", UPSTREAM, "10.0.0.1", steelyard_role="admin", authorization=f"Bearer {READ}")
    assert refusal(ALL, stolen) == 403


def test_where_no_token_is_set_a_token_is_not_looked_at() -> None:
    assert role_for(Access(), asked(authorization="Bearer of-an-agent-that-has-one")) == "admin"


def test_a_file_holds_a_token_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{ADMIN}\n\n  the-next-admin-token\r\n")
    path.chmod(0o600)
    assert token_files.read(path) == (ADMIN, "the-next-admin-token")
    assert token_files.warning(path) is None
    path.chmod(0o644)
    assert "chmod o-r" in (token_files.warning(path) or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "no token in it"),
        (b"\n \n", "no token in it"),
        (b"short\n", "at least 16"),
        (b"a token with blanks in it\n", "letters"),
    ],
)
def test_a_file_without_a_good_token_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(text)
    with pytest.raises(TokenFileError, match=said):
        token_files.read(path)


def test_a_bad_line_is_named_and_not_quoted() -> None:
    with pytest.raises(BadToken, match="line 2") as error:
        tokens_of(f"{ADMIN}\nhunter2\n".encode())
    assert "hunter2" not in str(error.value)


def test_a_token_opens_the_api_and_no_answer_repeats_it() -> None:
    with serving(tokens={"admin": [ADMIN], "agent": [AGENT], "read": [READ]}, client="203.0.113.9") as api:
        assert api.get("/v1/upstreams").status_code == 401
        assert api.get("/v1/upstreams").headers["www-authenticate"].startswith("Bearer")
        assert api.get("/v1/upstreams", headers=bearer(READ)).status_code == 200
        refused = api.put(UPSTREAM, json=WEB, headers=bearer(READ))
        assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
        wrong = api.get("/v1/upstreams", headers=bearer("a-token-of-somebody-else"))
        assert wrong.status_code == 401
        for answer in (
            refused,
            wrong,
            api.get("/openapi.json"),
            api.get("/v1/service", headers=bearer(ADMIN)),
        ):
            for token in (ADMIN, AGENT, READ, "a-token-of-somebody-else"):
                assert token not in answer.text


def test_an_agents_token_registers_and_leaves_what_a_person_set() -> None:
    with serving(tokens={"admin": [ADMIN], "agent": [AGENT]}) as api:
        path = "/v1/upstreams/web/peers/server-3"
        created = api.put(path, json={"address": "10.0.0.13:80", "baseline": 1}, headers=bearer(AGENT))
        assert created.status_code == 201
        api.patch(path, json={"state": "drain", "pin": 20, "baseline": 3}, headers=bearer(ADMIN))
        again = api.put(path, json={"address": "10.0.0.14:80"}, headers=bearer(AGENT))
        assert again.status_code == 200
        assert again.json() == {
            "id": "server-3", "address": "10.0.0.14:80", "baseline": 3.0, "state": "drain", "pin": 20.0
        }  # fmt: skip
        for personal in ({"state": "up"}, {"pin": 1}):
            answer = api.put(path, json={"address": "10.0.0.14:80", **personal}, headers=bearer(AGENT))
            assert answer.status_code == 403
        assert api.patch(path, json={"state": "up"}, headers=bearer(AGENT)).status_code == 403
        assert api.delete(path, headers=bearer(AGENT)).status_code == 204


def test_an_agents_token_cannot_move_a_server_of_the_configuration_file() -> None:
    with serving(tokens={"admin": [ADMIN], "agent": [AGENT]}) as api:
        path = "/v1/upstreams/web/peers/server-1"
        before = api.get(path).json()["address"]
        for document in ({"address": "203.0.113.66:80"}, {"address": before, "baseline": 1000}):
            refused = api.put(path, json=document, headers=bearer(AGENT))
            assert refused.status_code == 403
            assert "configuration file" in refused.json()["detail"]
        assert api.delete(path, headers=bearer(AGENT)).status_code == 403
        # An agent there that says what the file says is not in the wrong.
        assert api.put(path, json={"address": before}, headers=bearer(AGENT)).status_code == 200
        assert api.get(path).json()["address"] == before
        assert api.put(path, json={"address": "10.0.0.99:80"}, headers=bearer(ADMIN)).status_code == 200


def test_a_remote_client_without_a_token_reads_and_writes_nothing() -> None:
    with serving(client="203.0.113.9") as api:
        assert api.get(UPSTREAM).status_code == 200
        answer = api.patch("/v1/upstreams/web/peers/server-1", json={"state": "drain"})
        assert answer.status_code == 403
        assert "--admin-token-file" in answer.json()["detail"]
        assert api.get("/v1/upstreams/web/peers/server-1").json()["state"] == "up"
