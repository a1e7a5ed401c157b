"""Authorization: tokens, including the controller's own, and their origins."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from steelyard_controller import credentials, generated_token
from steelyard_controller.api.auth import RequestParts, grant_for
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import ANYBODY, Access, BadToken, Grant, access, tokens_of
from steelyard_controller.settings import load
from steelyard_protocol import derived_keys, secret_file
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.secret_file import SecretFileError

from .asked import asked as parts
from .serving import ADMIN, AGENT, READ, WEB, bearer, serving

ALL = access(admin=[ADMIN], agent=[AGENT], read=[READ])
PEER = "/v1/upstreams/web/peers/server-9"
UPSTREAM = "/v1/upstreams/web"


# A controller without any configured token.
ITS_OWN = access(generated=ADMIN)


def asked(method: str = "PUT", path: str = UPSTREAM, **headers: str) -> RequestParts:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return parts(method, path, {"host": "127.0.0.1:8081", **names})


def refusal(of: Access, request: RequestParts) -> int:
    with pytest.raises(ProblemError) as error:
        grant_for(of, request)
    return error.value.status_code


@pytest.mark.parametrize(("token", "role"), [(ADMIN, "admin"), (AGENT, "agent"), (READ, "read")])
def test_a_token_has_its_role(token: str, role: str) -> None:
    grant = ALL.grant_of(token)
    assert grant is not None
    assert grant.name == role


@pytest.mark.parametrize("token", ["", "x", ADMIN[:-1], ADMIN + "x", "\ud800" * 20])
def test_another_token_has_none(token: str) -> None:
    assert ALL.grant_of(token) is None


def test_several_tokens_of_a_role_hold_while_they_are_changed() -> None:
    both = access(admin=[ADMIN, "the-next-admin-token"])
    assert (
        both.grant_of(ADMIN)
        == both.grant_of("the-next-admin-token")
        == Grant(name="admin", scopes=frozenset({"declare"}))
    )


def test_a_token_that_is_two_roles_is_the_stronger_one() -> None:
    grant = access(read=[ADMIN], admin=[ADMIN]).grant_of(ADMIN)
    assert grant is not None
    assert grant.may("declare")


def test_no_token_shows_in_a_representation() -> None:
    assert ADMIN not in repr(ALL)
    assert "digest" not in repr(ALL)


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
    request = asked(method, path, authorization=f"Bearer {token}")
    if allowed:
        assert grant_for(ALL, request)
    else:
        assert refusal(ALL, request) == 403


@pytest.mark.parametrize("header", ["Bearer wrong", "Basic abc", "Bearer", ADMIN, f"Token {ADMIN}"])
def test_a_wrong_token_is_refused_even_where_none_is_needed(header: str) -> None:
    assert refusal(access(admin=[ADMIN]), asked("GET", UPSTREAM, authorization=header)) == 401


def test_with_an_admin_token_this_machine_needs_it_too() -> None:
    assert refusal(access(admin=[ADMIN]), asked()) == 401


def test_with_a_read_token_reading_needs_one() -> None:
    assert refusal(ALL, asked("GET")) == 401
    for path in ("/", "/page/0123456789abcdef/main.js", "/docs", "/openapi.json", "/healthz", "/readyz"):
        assert grant_for(ALL, asked("GET", path)) == ANYBODY


def test_a_path_that_only_looks_open_is_not() -> None:
    assert refusal(ALL, asked("GET", "/healthz/")) == 401
    assert refusal(ALL, asked("POST", "/healthz")) == 401


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x_forwarded_for": "127.0.0.1"},
        {"host": "localhost:8081", "origin": "http://localhost:8081", "sec_fetch_site": "same-origin"},
        {"authorization": "Bearer a-token-of-somebody-else"},
        {"authorization": f"Basic {ADMIN}"},
    ],
)
def test_without_an_admin_token_a_write_needs_the_one_that_the_controller_made(
    headers: dict[str, str],
) -> None:
    assert refusal(ITS_OWN, asked(**headers)) == 401
    assert grant_for(ITS_OWN, asked(**{**headers, "authorization": f"Bearer {ADMIN}"})).name == "admin"


def test_reading_needs_no_token_beside_the_one_that_the_controller_made() -> None:
    assert grant_for(ITS_OWN, asked("GET")) == ANYBODY
    # nginx may have a token that this controller does not know.
    assert grant_for(ITS_OWN, asked("GET", authorization="Bearer a-token-of-somebody-else")) == ANYBODY
    assert refusal(access(read=[READ], generated=ADMIN), asked("GET")) == 401


def test_where_no_token_could_be_made_nobody_may_write() -> None:
    assert refusal(Access(), asked()) == 403
    assert refusal(Access(), asked(authorization="Bearer a-token-of-somebody-else")) == 401
    assert grant_for(Access(), asked("GET")) == ANYBODY


def test_a_token_is_enough_wherever_the_page_came_from() -> None:
    request = asked(origin="https://ops.example", host="ops.example", authorization=f"Bearer {ADMIN}")
    assert grant_for(ALL, request).name == "admin"


def test_a_standbys_word_takes_rights_and_lends_none() -> None:
    as_agent = asked("DELETE", UPSTREAM, steelyard_role="agent", authorization=f"Bearer {ADMIN}")
    assert refusal(ALL, as_agent) == 403
    stolen = asked("DELETE", UPSTREAM, steelyard_role="admin", authorization=f"Bearer {READ}")
    assert refusal(ALL, stolen) == 403


KEY = b"the shared key of the tests"
OWN = derived_keys.token(KEY, "web", "server-9")


def test_a_servers_own_token_registers_that_server_alone() -> None:
    known = access(admin=[ADMIN], read=[READ], key=KEY)
    own = {"authorization": f"Bearer {OWN}"}
    for request in (asked("PUT", PEER, **own), asked("DELETE", PEER, **own)):
        assert grant_for(known, request).name == "web/server-9"
    assert grant_for(known, asked("GET", "/v1/upstreams/shop", **own)).may("agent")
    for method, path in (
        ("PUT", "/v1/upstreams/web/peers/server-1"),
        ("DELETE", "/v1/upstreams/web/peers/server-99"),
        ("PUT", "/v1/upstreams/shop/peers/server-9"),
        ("PATCH", PEER),
        ("PUT", UPSTREAM),
    ):
        assert refusal(known, asked(method, path, **own)) == 403


@pytest.mark.parametrize(
    "token",
    [
        OWN[:-1],
        OWN + "0",
        OWN.replace("server-9", "server-1"),
        f"web/server-9/{KEY.decode()}",
        "web/server-9",
    ],
)
def test_a_servers_token_that_was_changed_is_none(token: str) -> None:
    assert refusal(access(admin=[ADMIN], key=KEY), asked("PUT", PEER, authorization=f"Bearer {token}")) == 401


def test_a_servers_own_token_is_none_until_the_operator_says_so() -> None:
    assert access(admin=[ADMIN]).grant_of(OWN) is None


def test_a_file_holds_a_token_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{ADMIN}\n\n  the-next-admin-token\r\n")
    path.chmod(0o600)
    assert secret_file.read(path, "token", tokens_of) == (ADMIN, "the-next-admin-token")
    assert not list(secret_file.warnings([(path, "token")]))
    path.chmod(0o644)
    assert "chmod o-r" in "".join(secret_file.warnings([(path, "token")]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no token in it"),
        (b"\n \n", "no token in it"),
        (b"short\n", "at least 16"),
        (b"a token with blanks in it\n", "letters"),
    ],
)
def test_a_file_without_a_good_token_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(text)
    with pytest.raises(SecretFileError, match=message):
        secret_file.read(path, "token", tokens_of)


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
        # An agent there with the file's own declaration makes no mistake.
        for spelled in (before, f"[::FFFF:{before.replace(':', ']:00')}"):
            assert api.put(path, json={"address": spelled}, headers=bearer(AGENT)).status_code == 200
            assert api.get(path).json()["address"] == before
        assert api.put(path, json={"address": "10.0.0.99:80"}, headers=bearer(ADMIN)).status_code == 200


@pytest.mark.parametrize("client", ["127.0.0.1", "203.0.113.9"])
def test_a_client_without_a_token_reads_and_writes_nothing(client: str) -> None:
    with serving(client=client) as api:
        del api.headers["Authorization"]
        assert api.get(UPSTREAM).status_code == 200
        answer = api.patch("/v1/upstreams/web/peers/server-1", json={"state": "drain"})
        assert answer.status_code == 401
        assert "steelyard page" in answer.json()["detail"]
        assert api.get("/v1/upstreams/web/peers/server-1").json()["state"] == "up"


def test_a_token_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    file = generated_token.path({"XDG_STATE_HOME": str(tmp_path)})
    first = generated_token.read_or_make(file)
    assert generated_token.read_or_make(file) == first
    assert len(first) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["admin_token"]


def test_controllers_that_start_at_once_take_one_token(tmp_path: Path) -> None:
    file = tmp_path / "state" / "admin_token"
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(generated_token.read_or_make, [file] * 32))) == 1


def test_a_state_folder_is_an_absolute_path() -> None:
    assert generated_token.path({"XDG_STATE_HOME": "here"}).is_absolute()


def test_a_controller_that_can_keep_no_token_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "steelyard").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    known = credentials.read(load([], os.environ))
    assert known.not_generated is not None
    assert refusal(known.access, asked()) == 403
    monkeypatch.setenv("STEELYARD_ADMIN_TOKEN", ADMIN)
    assert credentials.read(load([], os.environ)).not_generated is None


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (
            [],
            {"STEELYARD_ADMIN_TOKEN": ADMIN, "STEELYARD_READ_TOKEN": "x"},
            "STEELYARD_READ_TOKEN: a token has",
        ),
        ([], {"STEELYARD_ADMIN_TOKEN": ""}, "STEELYARD_ADMIN_TOKEN: a token has at least 16"),
        ([], {"STEELYARD_STATE_PASSWORD": ""}, "STEELYARD_STATE_PASSWORD: it is empty"),
        (["--derived-keys", "require"], {}, "--derived-keys: there is no shared key"),
    ],
)
def test_a_wrong_secret_is_named_by_its_variable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    environment: dict[str, str],
    message: str,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match=f"^{message}"):
        credentials.read(load(arguments, environment))
