"""The tokens file: names and scopes, valid from the moment it changes, and kept while it is broken."""

import base64
import contextlib
import hashlib
import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.api.auth import RequestParts, grant_for, header_of
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.token_file import TokenFile
from steelyard_controller.api.tokens import ANYBODY, Access, BadToken, Grant, access, named_tokens

from .asked import asked as parts
from .serving import ADMIN

ANNA = "annas-token-of-the-tests"
DEPLOY = "deploys-token-of-the-tests"
PROXY = "the-proxys-token-of-the-tests"

FILE = f"""\
# who                token                    may            of
anna                 sha256:{hashlib.sha256(ANNA.encode()).hexdigest()}  drain  web,shop-*
deploy               {DEPLOY}                 declare        shop-*

oauth2-proxy         {PROXY}                  proxy
bob@example.org      -                        drain,agent    web
"""

KNOWN = access(admin=[ADMIN], named=named_tokens(FILE.encode()))
WEB, PEER = "/v1/upstreams/web", "/v1/upstreams/web/peers/server-1"


def asked(method: str, path: str, authorization: str, **headers: str) -> RequestParts:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return parts(method, path, {"authorization": authorization, **names})


def basic(name: str, token: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()


def refusal(request: RequestParts, of: Access = KNOWN) -> ProblemError:
    with pytest.raises(ProblemError) as error:
        grant_for(of, request)
    return error.value


@pytest.mark.parametrize(
    ("token", "method", "path", "allowed"),
    [
        (ANNA, "GET", "/v1/upstreams/elsewhere", True),
        (ANNA, "PATCH", PEER, True),
        (ANNA, "PATCH", "/v1/upstreams/shop-2/peers/a", True),
        (ANNA, "PATCH", "/v1/upstreams/shop/peers/a", False),
        (ANNA, "PUT", PEER, False),
        (ANNA, "DELETE", PEER, False),
        (ANNA, "PUT", WEB, False),
        (DEPLOY, "PUT", "/v1/upstreams/shop-2", True),
        (DEPLOY, "PATCH", "/v1/upstreams/shop-2/peers/a", True),
        (DEPLOY, "DELETE", "/v1/upstreams/shop-2", True),
        (DEPLOY, "PUT", WEB, False),
        (DEPLOY, "PATCH", PEER, False),
    ],
)
def test_a_token_may_change_what_its_scopes_and_its_upstreams_say(
    token: str, method: str, path: str, allowed: bool
) -> None:
    request = asked(method, path, f"Bearer {token}")
    if allowed:
        assert grant_for(KNOWN, request).name == ("anna" if token == ANNA else "deploy")
    else:
        assert refusal(request).status_code == 403


def test_a_403_names_the_scope_and_the_upstream_that_are_missing() -> None:
    assert refusal(asked("PUT", WEB, f"Bearer {ANNA}")).detail == (
        "PUT /v1/upstreams/web needs a token of the scope declare; anna's has drain"
    )
    assert refusal(asked("PUT", WEB, f"Bearer {DEPLOY}")).detail == (
        "PUT /v1/upstreams/web needs a token of the scope declare for web; deploy's has it for shop-* alone"
    )


def test_who_changed_what_is_read_with_a_token_alone() -> None:
    without = parts("GET", "/v1/audit", {})
    assert grant_for(KNOWN, parts("GET", WEB, {})) == ANYBODY
    for of in (KNOWN, Access(), access(generated=ADMIN)):
        assert refusal(without, of).status_code == 401
    assert grant_for(KNOWN, asked("GET", "/v1/audit", f"Bearer {ANNA}")).name == "anna"


def test_reading_needs_a_token_where_one_is_for_reading() -> None:
    known = access(named=named_tokens(f"grafana {ANNA} read\n".encode()))
    assert refusal(parts("GET", WEB, {}), known).status_code == 401
    assert grant_for(known, asked("GET", WEB, f"Bearer {ANNA}")).name == "grafana"


def test_a_person_whom_the_proxy_names_may_what_their_line_says_and_else_read() -> None:
    bob = grant_for(KNOWN, asked("PATCH", PEER, basic("bob@example.org", PROXY)))
    assert (bob.name, bob.proxy) == ("bob@example.org", "oauth2-proxy")
    other = refusal(asked("PATCH", "/v1/upstreams/shop-1/peers/a", basic("bob@example.org", PROXY)))
    assert other.status_code == 403
    carl = asked("GET", "/v1/audit", basic("carl@example.org", PROXY))
    assert grant_for(KNOWN, carl).name == "carl@example.org"
    assert refusal(asked("PATCH", PEER, basic("carl@example.org", PROXY))).status_code == 403


@pytest.mark.parametrize(
    "header",
    [
        basic("bob@example.org", "a-token-of-somebody-else"),
        basic("bob@example.org", ""),
        basic("bob@example.org", ANNA),  # a token, and no proxy's
        basic("bob@example.org", ADMIN),
        basic("", PROXY),
        basic("bob example", PROXY),
        basic("bob\nexample", PROXY),
        "Basic " + base64.b64encode(b"\xff:" + PROXY.encode()).decode(),
        "Basic bob@example.org",
        f"Bearer {PROXY}",  # it speaks for people alone
        f"Basic {PROXY}",
    ],
)
def test_nobody_gets_in_under_the_name_of_a_person_without_the_proxys_token(header: str) -> None:
    headers = {"x_forwarded_user": "bob@example.org", "x_forwarded_email": "bob@example.org"}
    assert refusal(asked("PATCH", PEER, header, **headers)).status_code == 401
    assert refusal(asked("GET", "/v1/audit", header, **headers)).status_code == 401


@pytest.mark.parametrize(
    ("site", "allowed"), [("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False)]
)
def test_a_page_of_another_site_changes_nothing_with_the_cookie_of_the_proxy(
    site: str, allowed: bool
) -> None:
    request = asked("PATCH", PEER, basic("bob@example.org", PROXY), sec_fetch_site=site)
    if allowed:
        assert grant_for(KNOWN, request).name == "bob@example.org"
    else:
        assert refusal(request).status_code == 403


SCOPES = st.frozensets(st.sampled_from(["read", "agent", "drain", "declare"]))


@given(here=SCOPES, there=SCOPES)
def test_a_standby_passes_on_no_more_rights_than_it_knows_of(
    here: frozenset[str], there: frozenset[str]
) -> None:
    ours, theirs = (Grant(name="anna", scopes=each) for each in (here, there))  # type: ignore[arg-type]
    known = access(named=named_tokens(f"anna {ANNA} {','.join(there) or 'read'}".encode()))
    for scope, method, path in (
        ("agent", "PUT", PEER),
        ("drain", "PATCH", PEER),
        ("declare", "PUT", WEB),
        ("read", "GET", WEB),
    ):
        request = asked(method, path, f"Bearer {ANNA}", steelyard_role=header_of(ours))
        if ours.may(scope) and theirs.may(scope):  # type: ignore[arg-type]
            assert grant_for(known, request).may(scope)  # type: ignore[arg-type]
        else:
            assert refusal(request, known).status_code == 403


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"anna {ANNA}", "2 fields"),
        (f"anna {ANNA} drain web shop", "5 fields"),
        (f"anna drain {ANNA}", "third field has an unknown scope"),
        (f"anna {ANNA} write", "third field has an unknown scope"),
        (f"anna {ANNA} drain web;shop", "fourth field"),
        ("anna short drain", "at least 16"),
        ("anna sha256:abc drain", "64 hexadecimal digits"),
        ("anna - proxy", "a proxy has a token"),
        (f"admin {ANNA} drain", "its name"),
        (f"ännä {ANNA} drain", "its name"),
        (f"{'a' * 129} {ANNA} drain", "its name"),
        (f"carl {DEPLOY} drain", "line 4 has this token"),
        (f"carl sha256:{hashlib.sha256(DEPLOY.encode()).hexdigest()} drain", "line 4 has this token"),
        ("bob@example.org - drain", "two lines"),
    ],
)
def test_a_broken_line_is_named_with_the_remedy_and_not_quoted(line: str, message: str) -> None:
    # The third line of FILE is the fourth here.
    with pytest.raises(BadToken, match=rf"line 8: .*{message}") as error:
        named_tokens(f"\n{FILE}{line}\n".encode())
    for secret in (ANNA, DEPLOY, PROXY):
        assert secret not in str(error.value)


def test_a_file_without_a_token_is_refused() -> None:
    for text in (b"", b"\n", b"# nobody yet\n", b"bob@example.org - drain\n"):
        with pytest.raises(BadToken, match="no token in it"):
            named_tokens(text)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    with contextlib.suppress(BadToken):
        assert named_tokens(text).tokens


def test_two_tokens_of_a_name_hold_while_one_is_exchanged() -> None:
    known = access(named=named_tokens(f"anna {ANNA} drain\nanna {DEPLOY} drain\n".encode()))
    assert known.grant_of(ANNA) == known.grant_of(DEPLOY) == Grant(name="anna", scopes=frozenset({"drain"}))


def test_a_line_is_stronger_than_the_setting_that_has_the_same_token() -> None:
    known = access(admin=[ANNA], named=named_tokens(f"anna {ANNA} drain\n".encode()))
    grant = known.grant_of(ANNA)
    assert grant is not None
    assert (grant.name, grant.may("declare")) == ("anna", False)


def test_the_file_is_valid_from_the_moment_it_changes_and_kept_while_it_is_broken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "tokens"
    faults: dict[str, str | None] = {}
    path.write_text(f"anna {ANNA} drain\n")
    known = access(named=named_tokens(path.read_bytes()))
    file = TokenFile(path, known, faults.__setitem__)
    assert (file.access(), faults, caplog.messages) == (known, {"tokens": None}, [])

    path.write_text(f"anna {ANNA} drain\ndeploy {DEPLOY} declare\n")
    assert file.access().grant_of(DEPLOY)
    assert caplog.messages == [f"{path} has changed: 2 tokens hold now"]

    # The same length, within the same tick of the file system's clock.
    path.write_text(f"carl {ANNA} drain\ndeploy {DEPLOY} declare\n")
    grant = file.access().grant_of(ANNA)
    assert grant is not None
    assert grant.name == "carl"

    for broken in ("", f"carl {ANNA} drian\n"):
        path.write_text(broken)
        assert file.access().grant_of(DEPLOY)
    assert "line 1: its third field has an unknown scope: write read, agent" in str(faults["tokens"])
    assert "the previous tokens hold, removed ones too" in str(faults["tokens"])
    path.unlink()
    assert file.access().grant_of(DEPLOY)
    assert "No such file" in str(faults["tokens"])

    path.write_text(f"carl {ANNA} drain\n")
    assert file.access().grant_of(DEPLOY) is None
    assert faults["tokens"] is None
    assert not any(secret in line for line in caplog.messages for secret in (ANNA, DEPLOY))


def test_the_file_that_the_page_shows_is_one() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/configuration.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```\n(# who .*?)```", page, re.DOTALL)
    # A digest is cut short there.
    whole = re.sub("sha256:([0-9a-f]+)…", lambda cut: f"sha256:{cut[1]:0<64}", shown)
    named = named_tokens(whole.encode())
    assert [each.grant.name for each in named.tokens if each.is_proxy] == ["oauth2-proxy"]
    assert [*named.people] == ["bob@example.org"]
    assert named.tokens[0].grant.upstreams == ("web", "shop-*")
