"""A browser with the controller's page open is also on other sites, and they send requests to it."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from .serving import ADMIN, serving

SITE = "https://evil.example"
PEER = "/v1/upstreams/web/peers/server-1"


@pytest.fixture(scope="module", params=[{}, {"admin": [ADMIN]}], ids=["without a token", "with one"])
def stranger(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    """A client that sends no token."""
    with serving(tokens=request.param) as client:
        yield client


@pytest.fixture(scope="module")
def admin() -> Iterator[TestClient]:
    """A client that sends the token; its tests change nothing."""
    with serving() as client:
        yield client


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_no_other_site_is_let_in_by_cors(stranger: TestClient, method: str) -> None:
    preflight = {
        "Origin": SITE,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "content-type",
    }
    answers = [
        stranger.options(PEER, headers=preflight),
        stranger.get(PEER, headers={"Origin": SITE}),
        stranger.get("/v1/events", headers={"Origin": SITE, "Accept": "text/html"}, params={"upstream": "-"}),
    ]
    for answer in answers:
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_what_a_form_can_send_changes_nothing(admin: TestClient, method: str, content_type: str) -> None:
    before = admin.get("/v1/upstreams/web/declaration").json()
    headers = {"Content-Type": content_type, "X-HTTP-Method-Override": "DELETE"}
    for path in (PEER, "/v1/upstreams/web", "/v1/upstreams"):
        answer = admin.request(method, path, headers=headers, content=b'{"state": "drain"}')
        assert answer.status_code == (200 if method == "GET" else 405)
    assert admin.get("/v1/upstreams/web/declaration").json() == before


def test_a_page_of_another_site_changes_nothing_on_a_controller_without_tokens() -> None:
    with serving() as api:
        known = api.headers.pop("Authorization")  # to the controller's own page, in a tab of its own
        for headers in (
            {"Origin": SITE},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Host": "evil.example:8081"},  # a name that now leads to 127.0.0.1
        ):
            refused = api.patch(PEER, json={"state": "drain"}, headers=headers)
            assert refused.status_code == 401, headers
        assert api.get(PEER).json()["state"] == "up"
        own = api.patch(PEER, json={"state": "drain"}, headers={"Authorization": known})
        assert own.status_code == 200


def test_the_pages_run_no_script_of_anybody_else_and_stand_in_no_frame() -> None:
    with serving() as api:
        for path in ("/", "/docs"):
            headers = api.get(path).headers
            policy = dict(
                part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
            )
            assert policy["default-src"] == "'self'"
            assert policy.get("script-src", "'self'") == "'self'"
            assert policy["object-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
