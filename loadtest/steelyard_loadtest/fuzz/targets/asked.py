"""What comes over HTTP and from HAProxy: bodies, headers, questions, a controller's answers to an agent."""

import json
from collections.abc import Callable
from types import SimpleNamespace

from pydantic import BaseModel
from steelyard_agent import http_answer, registration
from steelyard_agent.record import SampleRecord
from steelyard_agent.registration import LONGEST_REASON
from steelyard_agent.status import Status
from steelyard_controller import replay
from steelyard_controller.api import auth, body, tokens
from steelyard_controller.api.auth import Asked
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import BadToken
from steelyard_controller.cli import documents
from steelyard_controller.declared import declaration
from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.declared.upstream import Peer, Upstream
from steelyard_controller.haproxy import agent_answer
from steelyard_controller.haproxy.agent_check import AgentCheck

from steelyard_loadtest.fuzz.model import ACCEPTED, Target, require
from steelyard_loadtest.fuzz.targets.state import UPSTREAMS

REFUSED = "refused"


def targets() -> tuple[Target, ...]:
    """Return the decoders of requests and of answers."""
    upstreams = tuple(upstream.model_dump_json(exclude_none=True).encode() for upstream in UPSTREAMS)
    peers = (
        b'{"address":"10.0.0.11:80","baseline":1.5,"state":"up"}',
        b'{"address":"[fd00::1]:80","pin":12.5}',
    )
    problem = (
        b'{"type":"about:blank","title":"Conflict","detail":"no","errors":[{"field":"a","message":"m"}]}'
    )
    return (
        Target(name="api-body", about="an upstream in a request to the API", form="json", seeds=upstreams,
               judge=_body(Upstream), network=True),
        Target(name="api-peer", about="a peer in a request to the API", form="json", seeds=peers,
               judge=_peer, network=True),
        Target(name="api-header", about="a request's Authorization, Host and Origin", form="text",
               seeds=HEADERS, judge=_header, network=True),
        Target(name="token-file", about="a file of tokens", form="text",
               seeds=(b"a-token-of-20-letters\n", b"one-of-16-letters\n\ntwo-of-16-letters="),
               judge=_token_file),
        Target(name="agent-check", about="HAProxy's question", form="text",
               seeds=(b"web/server-1\n", b"web/server-1 100\r\n", b"web/server-9\t256"), judge=_question(),
               network=True),
        Target(name="agent-http", about="a request to the agent's endpoint", form="text",
               seeds=(b"GET /orca HTTP/1.1\r\nHost: a\r\n\r\n", b"HEAD /metrics?x HTTP/1.0\n\n"),
               judge=_request, network=True),
        Target(name="registration", about="a controller's answer to an agent", form="json",
               seeds=(problem, b'{"title":"Bad"}'), judge=_answer, network=True),
        Target(name="replay", about="a line of steelyard replay", form="json", seeds=(REPLAY,),
               judge=_replay),
        Target(name="cli-documents", about="a controller's answer to the command line", form="json",
               seeds=(STATUS,), judge=_document),
    )  # fmt: skip


ADMIN = "admin-token-of-the-fuzzer"
READ = "read-token-of-the-fuzzer"

HEADERS = (
    b"Bearer " + ADMIN.encode() + b"\n127.0.0.1\n",
    b"Bearer " + READ.encode() + b"\nlocalhost:8081\nhttp://localhost:8081",
    b"bearer  nobodys-token-at-all\n[::1]:8081\nhttp://evil.example",
)

REPLAY = json.dumps(
    {
        "t_s": 1.0, "indicators": ["cpu", "net", "io", "mem"], "report_age_ticks": 0,
        "peers": [
            {
                "id": "a", "utilization": [0.5, 0.1, None, 0.3], "sample_age_ticks": 0, "capacity": [4, 1e6,
                1, 1],
                "baseline": 1, "completed": 10, "failed": 0, "in_flight": 1, "latency_s": 0.01,
            },
        ],
    }
).encode()  # fmt: skip

STATUS = json.dumps(
    {
        "id": "server-1", "address": "10.0.0.11:80", "weight": 267, "baseline": 333, "state": "up",
        "share": 0.5,
        "pin": None, "score": 0.4,
    }
).encode()  # fmt: skip


def _body(model: type[BaseModel]) -> Callable[[bytes], str]:
    def judge(data: bytes) -> str:
        try:
            found = body.parsed(model, body.read(data, body.JSON))
        except ProblemError as problem:
            return _problem(problem)
        assert isinstance(found, Upstream)  # noqa: S101 - the model that was asked for
        kept = declaration.decode(declaration.encode(Declaration(upstream=found)))
        require(
            isinstance(kept, Declaration) and kept.upstream == found, f"what is declared is not kept: {kept}"
        )
        return ACCEPTED

    return judge


def _peer(data: bytes) -> str:
    try:
        document = body.read(data, body.MERGE_PATCH, types=(body.JSON, body.MERGE_PATCH))
        found = body.parsed(Peer, {**document, "id": "server-1"})
    except ProblemError as problem:
        return _problem(problem)
    require(found.id == "server-1" and found.address, "a peer without an address was taken")
    return ACCEPTED


def _problem(problem: ProblemError) -> str:
    require(400 <= problem.status_code < 500, f"the status is {problem.status_code}: it blames itself")
    return f"HTTP {problem.status_code}"


_ACCESS = tokens.access(admin=[ADMIN], read=[READ])


def _header(data: bytes) -> str:
    authorization, host, origin = (*data.decode("latin-1").split("\n", 2), "", "")[:3]
    headers = {"authorization": authorization, "host": host, "origin": origin}
    path = "/v1/upstreams/web"
    asked = Asked(method="PUT", path=path, client="127.0.0.1", headers=headers)
    scheme, _, token = authorization.partition(" ")
    is_admin = scheme.lower() == "bearer" and token.strip() == ADMIN
    try:
        role = auth.role_for(_ACCESS, asked)
    except ProblemError as problem:
        require(not is_admin, "the administrator is refused")
        return _problem(problem)
    require(role == "admin" and is_admin, f"{authorization!r} is let in as {role}")
    return ACCEPTED


def _token_file(data: bytes) -> str:
    try:
        found = tokens.tokens_of(data)
    except BadToken:
        return REFUSED
    require(all(tokens.checked(token) == token for token in found), "a token was taken that is none")
    return ACCEPTED


def _question() -> Callable[[bytes], str]:
    # A controller that leads, and has no upstream: what it answers depends on the question alone.
    check = AgentCheck(SimpleNamespace(role="leader", views={}))

    def judge(data: bytes) -> str:
        line = check.answer(data)
        require(
            line.endswith(b"\n") and line.count(b"\n") == 1 and line.isascii(), f"it answers {line[:200]!r}"
        )
        require(b"\r" not in line and b"\0" not in line, f"it answers {line[:200]!r}")
        found = agent_answer.question(data)
        if found is None:
            return REFUSED
        require(1 <= found.configured <= agent_answer.MOST, "a weight out of bounds was taken")
        return ACCEPTED

    return judge


def _request(data: bytes) -> str:
    record = SampleRecord(
        upstream="web", peer="a", boot="b", seq=1, taken_at_ms=0, interval_s=1.0,
        utilization=(0.5, None, 0.1, 0.3), capacity=(2.0, 1.0, 1.0, 1.0), scope="host",
    )  # fmt: skip
    shown = Status(at_s=0.0, stale_s=3.0, record=record, delivered=1, dropped=0, reachable={"m:1": True})
    http_answer.complete(data)
    response = http_answer.answer(data, shown, now_s=1.0, cpu_s=0.1)
    head, blank, content = response.partition(b"\r\n\r\n")
    require(response.startswith(b"HTTP/1.1 ") and blank, "the answer is not HTTP")
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    require(len(content) in (0, length), "the answer is of another length than it says")
    code = head[9:12].decode()
    return ACCEPTED if code == "200" else f"HTTP {code}"


def _answer(data: bytes) -> str:
    status = 200 + sum(data[:3])
    registration.verdict(status)
    said = registration.reason(status, data)
    require(
        len(said) <= LONGEST_REASON and said.isprintable(), f"the reason is no short line: {said[:400]!r}"
    )
    return ACCEPTED


def _replay(data: bytes) -> str:
    try:
        replay.parse(data.decode("utf-8", "replace"))
    except replay.Malformed:
        return REFUSED
    return ACCEPTED


def _document(data: bytes) -> str:
    try:
        row = documents.Live.model_validate_json(data)
    except ValueError:  # pydantic's: the command says that it cannot read the answer
        return REFUSED
    shown = (row.id, row.address, row.state)
    require(all(text.isprintable() for text in shown), f"a terminal would be steered: {shown!r}")
    return ACCEPTED
