"""No spelling of a path is allowed more than its plain one: all routes, methods, tokens; leader and standby.

A request enters as uvicorn hands it over: the target's bytes, and its path decoded once. The standby asks the
leader in the same way.
"""

import asyncio
import base64
import contextlib
import fnmatch
import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import Route
from steelyard_controller.api.app import create
from steelyard_controller.api.forward_to_leader import LeaderConnections
from steelyard_controller.api.tokens import access, named_tokens
from steelyard_controller.service import NotLeading, Service
from steelyard_protocol import derived_keys

from testing.daemons import Daemon
from testing.waiting import PATIENCE_S

from ..processes import LOCAL, controller
from . import spellings
from .serving import ADMIN, AGENT, READ, WEB, Standby, bearer, service_of

KEY = b"the shared key of the tests"
PROXY = "the-proxys-token-of-the-tests"
FILE = f"""
drain-web     drain-webs-token-of-the-tests    drain          web
declare-web   declare-webs-token-of-the-tests  declare        web
agent-shop    agent-shops-token-of-the-tests   agent          shop*
both          boths-token-of-the-tests         agent,drain    web
oauth2-proxy  {PROXY}                          proxy
bob           -                                drain          web
"""

BEARERS = {
    "nobody": None,
    "stranger": "a-token-of-somebody-else",
    "read": READ,
    "agent": AGENT,
    "admin": ADMIN,
    "web/server-1": derived_keys.token(KEY, "web", "server-1"),
    **{line.split()[0]: line.split()[1] for line in FILE.strip().splitlines()[:4]},
}
SENDERS: Mapping[str, str | None] = {
    **{name: token and f"Bearer {token}" for name, token in BEARERS.items()},
    "bob": "Basic " + base64.b64encode(f"bob:{PROXY}".encode()).decode(),
}

# The upstreams that a sender may change in any way, by pattern. Written by hand: the test knows no scopes.
MAY_CHANGE = {
    "agent": "*", "admin": "*", "web/server-1": "web", "drain-web": "web", "declare-web": "web",
    "agent-shop": "shop*", "both": "web", "bob": "web",
}  # fmt: skip
MAY_DECLARE = {"admin": "*", "declare-web": "web"}

# The whole product takes minutes of CPU.
ALL = os.environ.get("STEELYARD_ALL_SPELLINGS") == "yes"

REFUSED = frozenset({400, 401, 403, 404, 405, 422})
METHODS = ("GET", "HEAD", "PUT", "PATCH", "DELETE", "POST", "OPTIONS", "TRACE", "CONNECT", "get", "BREW")
HOLDERS = ("leader", "standby")
Effect = tuple[str, ...]


class Leader(Service):
    """Leads without ticks; it notes what a request would do, and does not do it."""

    effects: list[Effect]

    @property
    def role(self) -> Any:
        """Return that it leads."""
        return "leader"

    async def change(self, name: str, *_: object, dry_run: bool = False, **__: object) -> Any:
        """Note the upstream."""
        self.effects.append(("try" if dry_run else "change", name))
        raise NotLeading

    async def audit_log(self, **_: object) -> Any:
        """Note that it is read."""
        self.effects.append(("audit",))
        return []


@dataclass(frozen=True, slots=True)
class Answer:
    """A status; the plain path of the route and the names that answered; what the request did."""

    status: int
    reached: str | None
    effects: frozenset[Effect]


class World:
    """A leader and a standby, with a read token or without one."""

    def __init__(self, *, reading_is_free: bool) -> None:
        self.reading_is_free = reading_is_free
        self.asked: Counter[str] = Counter()
        self._plain: dict[tuple[str, str, str, str], Answer] = {}
        self._loop = asyncio.new_event_loop()
        tokens = access(
            admin=[ADMIN],
            agent=[AGENT],
            read=[] if reading_is_free else [READ],
            key=KEY,
            named=named_tokens(FILE.encode()),
        )
        leader, standby = service_of(upstreams=("web", "shop")), service_of(id="two")
        self._loop.run_until_complete(_until_ticked(leader))
        leader.__class__, standby.__class__ = Leader, Standby
        self._effects: list[Effect] = []
        leader.effects = self._effects  # type: ignore[attr-defined]
        leading = create(leader, access=tokens)
        connections = LeaderConnections(_Wire(leading))
        self.apps = {
            "leader": leading,
            "standby": create(standby, access=tokens, connections=connections),
        }

    def close(self) -> None:
        """End its event loop."""
        self._loop.close()

    def ask(self, holder: str, method: str, target: str, sender: str) -> "Answer":
        """Return the answer to a request, and what the request did."""
        self.asked[holder] += 1
        self._effects.clear()
        headers = _headers(method, target, SENDERS[sender])
        asking = _answer(self.apps[holder], method, target, headers)
        status, reached, *_ = self._loop.run_until_complete(asking)
        effects = frozenset(self._effects)
        if method == "HEAD":
            # It is answered as GET, in a scope of its own.
            reached = self.ask(holder, "GET", target, sender).reached
        return Answer(status, reached, effects)

    def plain(self, holder: str, method: str, path: str, sender: str) -> "Answer":
        """Return the same for a plain path, asked once."""
        key = (holder, method, path, sender)
        if key not in self._plain:
            self._plain[key] = self.ask(*key)
        return self._plain[key]

    def check(self, holder: str, method: str, spelling: str, sender: str) -> None:
        """Fail if a spelling is allowed more than the plain path of the same route and names."""
        answer = self.ask(holder, method, spelling, sender)
        where = f"{holder}: {method} {spelling!r} by {sender}: {answer}"
        if answer.status not in REFUSED:
            assert answer.reached is not None, where
            plain = self.plain(holder, method, answer.reached, sender)
            assert plain.status not in REFUSED, f"{where}; but {plain}"
            assert answer.effects <= plain.effects, f"{where}; but {plain}"
        for kind, *names in answer.effects:
            if kind == "audit":
                assert sender not in ("nobody", "stranger"), where
            else:
                may = (MAY_DECLARE if kind == "try" else MAY_CHANGE).get(sender, "")
                assert fnmatch.fnmatchcase(names[0], may), where


class _Wire(httpx.AsyncBaseTransport):
    """Hands a request to an application as uvicorn does."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = request.url.raw_path.decode("ascii")
        body = await request.aread()
        status, _, headers, content = await _answer(
            self._app, request.method, target, request.headers.raw, body=body
        )
        return httpx.Response(status, headers=headers, content=content)


async def _until_ticked(service: Service) -> None:
    running = asyncio.create_task(service.run())
    while len(service.views) < 2 or any(each.outcome is None for each in service.views.values()):
        await asyncio.sleep(0.01)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def _headers(method: str, target: str, authorization: str | None) -> list[tuple[bytes, bytes]]:
    headers = [(b"host", b"127.0.0.1:8081")]
    if authorization is not None:
        headers.append((b"authorization", authorization.encode()))
    if method in ("PUT", "PATCH", "POST"):
        headers += [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(_body(method, target))),
        ]
    return headers


def _body(method: str, target: str) -> bytes:
    if method == "PATCH":
        return b'{"state":"drain"}'
    return b'{"address":"10.0.0.9:80"}' if "peer" in unquote(target).lower() else b'{"peers":[]}'


async def _answer(
    app: FastAPI, method: str, target: str, headers: Any, *, body: bytes | None = None
) -> tuple[int, str | None, list[tuple[bytes, bytes]], bytes]:
    raw_path, _, query = target.partition("?")
    has_body = any(name.lower() == b"content-length" for name, _ in headers)
    content = (_body(method, target) if has_body else b"") if body is None else body
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote(raw_path), "raw_path": raw_path.encode("ascii"), "root_path": "",
        "query_string": query.encode("ascii"), "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 8081),
        "state": {}, "headers": [(name.lower(), value) for name, value in headers],
    }  # fmt: skip
    began, sent, received = asyncio.Event(), list[Any](), iter([content])

    async def receive() -> Any:
        for part in received:
            return {"type": "http.request", "body": part, "more_body": False}
        # A reader of events leaves at their beginning.
        await began.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        began.set()

    await app(scope, receive, send)
    whole = b"".join(each.get("body", b"") for each in sent[1:])
    route, names = scope.get("route"), scope.get("path_params", {})
    reached = route and route.path_format.format(**{name: quote(each, "") for name, each in names.items()})
    return sent[0]["status"], reached, list(sent[0]["headers"]), whole


@pytest.fixture(scope="module", params=[False, True], ids=["read-token", "free-reading"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(reading_is_free=request.param)
    yield made
    made.close()


def templates(app: FastAPI) -> list[tuple[str, str]]:
    """Return each route's template and method."""
    routes = [each.original_route for each in iter_route_contexts(app.routes)]
    return sorted(
        (route.path_format, method)
        for route in routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    )


@pytest.mark.parametrize("holder", HOLDERS)
def test_no_spelling_of_any_route_is_allowed_more_than_its_plain_one(world: World, holder: str) -> None:
    routes = templates(world.apps["leader"])
    assert len(routes) > 20
    for template, method in routes:
        for path in spellings.plain_paths(template, spellings.UPSTREAMS if ALL else ("shop",)):
            refused = [each for each in SENDERS if world.plain(holder, method, path, each).status in REFUSED]
            for number, spelling in enumerate(dict.fromkeys(spellings.fixed(path))):
                # If reading is free, less is refused, and changes have the rules of the other world.
                if world.reading_is_free and number % 4 and not ALL:
                    continue
                # All senders with all spellings are ten times as many requests.
                every = ALL or not unquote(spelling).isprintable()
                turn = refused[number % max(1, len(refused)) :][:1]
                for sender in refused if every else turn:
                    world.check(holder, method, spelling, sender)
    print(f"{holder}: {world.asked[holder]} requests")


def status(port: int, method: str, target: str, sender: str) -> int:
    """Return the status of an answer over a socket, because every HTTP client changes some spellings."""
    headers = b"".join(b"%s: %s\r\n" % each for each in _headers(method, target, SENDERS[sender]))
    body = _body(method, target) if b"content-length" in headers else b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        line = f"{method} {target} HTTP/1.1\r\n".encode()
        client.sendall(line + headers + b"connection: close\r\n\r\n" + body)
        with client.makefile("rb") as answer:
            return int(answer.readline().split()[1])


@pytest.mark.integration
def test_no_spelling_on_the_wire_is_allowed_more(
    tmp_path: Path, memcached: Daemon, redis_server: Daemon
) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(FILE)
    flags = [
        "--memcached", memcached.address, "--state-url", f"redis://{redis_server.address}/0",
        "--tokens-file", str(tokens), "--lease-s", "3",
    ]  # fmt: skip
    environment = {"STEELYARD_ADMIN_TOKEN": ADMIN}
    with controller(tmp_path, *flags, environment=environment) as one:
        one.wait("leader")
        with controller(tmp_path, *flags, environment=environment) as two:
            two.wait("standby")
            for name in ("web", "shop"):
                LOCAL.put(
                    f"{one.url}/v1/upstreams/{name}", json=WEB, headers=bearer(ADMIN)
                ).raise_for_status()
            for method, path, sender in (
                ("GET", "/v1/audit", "nobody"),
                ("PUT", "/v1/upstreams/shop/dry-run", "declare-web"),
                ("DELETE", "/v1/upstreams/shop", "declare-web"),
                ("PATCH", "/v1/upstreams/shop/peers/server-1", "drain-web"),
            ):
                for each in (one, two):
                    port = int(each.url.rpartition(":")[2])
                    assert status(port, method, path, sender) in (401, 403)
                    for spelling in dict.fromkeys(spellings.fixed(path)):
                        assert status(port, method, spelling, sender) in REFUSED, f"{method} {spelling}"
            entries = LOCAL.get(f"{two.url}/v1/audit", headers=bearer(ADMIN)).json()["entries"]
            assert [each["what"] for each in entries] == ["declared", "declared"]
            # The plain spelling of an encoded path is the same path, for the leader as well.
            port = int(two.url.rpartition(":")[2])
            assert status(port, "PATCH", "/v1/%75pstreams/w%65b/peers/server%2D1", "drain-web") == 200
            assert status(port, "GET", "/v1/upstreams/web/peers/..", "admin") == 422


@given(data=st.data())
@settings(max_examples=20_000 if ALL else 150)
def test_no_other_spelling_is_either(world: World, data: st.DataObject) -> None:
    template, own = data.draw(st.sampled_from(templates(world.apps["leader"])))
    path = data.draw(st.sampled_from(list(spellings.plain_paths(template, spellings.UPSTREAMS))))
    method = data.draw(st.one_of(st.just(own), st.sampled_from(METHODS)))
    spelling = data.draw(spellings.any_of(path))
    holder, sender = data.draw(st.sampled_from(HOLDERS)), data.draw(st.sampled_from(list(SENDERS)))
    world.check(holder, method, spelling, sender)
