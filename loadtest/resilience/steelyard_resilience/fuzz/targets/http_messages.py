"""Messages over HTTP and from HAProxy: bodies, headers, questions, a controller's answers to an agent."""

from types import SimpleNamespace

from steelyard_agent import log_text
from steelyard_agent.outputs import http_response
from steelyard_agent.outputs.metrics import Status
from steelyard_agent.registration import register_request
from steelyard_controller.api import auth, request_body, tokens
from steelyard_controller.api.auth import RequestParts
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import BadToken
from steelyard_controller.cli import api_documents, replay_lines
from steelyard_controller.declarations import declaration
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.haproxy import agent_answer
from steelyard_controller.haproxy.agent_check import AgentCheck
from steelyard_protocol.haproxy_weights import MAX_HAPROXY_WEIGHT
from steelyard_protocol.sample_record import SampleRecord

from steelyard_resilience.fuzz.target import ACCEPTED, REFUSED, Target, judge_of, require, requiring
from steelyard_resilience.fuzz.targets.redis_state import REPLAY, UPSTREAMS


def targets() -> tuple[Target, ...]:
    """Return the decoders of requests and of answers."""
    upstreams = [upstream.model_dump_json(exclude_none=True).encode() for upstream in UPSTREAMS]
    body = judge_of(_body, refuses=ProblemError, reason=_problem, check=_check_body)
    addressed = requiring(
        lambda peer: peer.id == "server-1" and peer.address, "it was accepted without an address"
    )
    peer = judge_of(_peer, refuses=ProblemError, reason=_problem, check=addressed)
    tokens_only = requiring(lambda read: all(tokens.checked(one) == one for one in read), "one is no token")
    token_file = judge_of(tokens.tokens_of, refuses=BadToken, check=tokens_only)
    replay = judge_of(
        lambda data: replay_lines.parse(data.decode("utf-8", "replace")), refuses=replay_lines.Malformed
    )
    printable = requiring(
        lambda row: all(text.isprintable() for text in (row.id, row.address, row.state)),
        "it has control characters for a terminal",
    )
    # For pydantic's ValueError, the command reports an unreadable answer.
    document = judge_of(api_documents.Live.model_validate_json, refuses=ValueError, check=printable)
    return (
        Target("api-body", "an upstream in a request to the API", body, upstreams),
        Target("api-peer", "a peer in a request to the API", peer, PEERS),
        Target("api-header", "a request's Authorization, Host and Origin", _header, HEADERS),
        Target("token-file", "a file of tokens", token_file, TOKENS),
        Target("agent-check", "HAProxy's question", _question, QUESTIONS),
        Target("agent-http", "a request to the agent's endpoint", _request, REQUESTS),
        Target("registration", "a controller's answer to an agent", _answer, PROBLEMS),
        Target("replay", "a line of steelyard replay", replay, (REPLAY,)),
        Target("cli-documents", "a controller's answer to the command line", document, (STATUS,)),
    )


PEERS = (
    b'{"address":"10.0.0.11:80","baseline":1.5,"state":"up"}',
    b'{"address":"[fd00::1]:80","pin":12.5}',
)
PROBLEMS = (
    b'{"type":"about:blank","title":"Conflict","detail":"no","errors":[{"field":"a","message":"m"}]}',
    b'{"title":"Bad"}',
)
TOKENS = (b"a-token-of-20-letters\n", b"one-of-16-letters\n\ntwo-of-16-letters=")
QUESTIONS = (b"web/server-1\n", b"web/server-1 100\r\n", b"web/server-9\t256")
REQUESTS = (b"GET /orca HTTP/1.1\r\nHost: a\r\n\r\n", b"HEAD /metrics?x HTTP/1.0\n\n")

ADMIN = "admin-token-of-the-fuzzer"
READ = "read-token-of-the-fuzzer"

HEADERS = (
    b"Bearer " + ADMIN.encode() + b"\n127.0.0.1\n",
    b"Bearer " + READ.encode() + b"\nlocalhost:8081\nhttp://localhost:8081",
    b"bearer  nobodys-token-at-all\n[::1]:8081\nhttp://evil.example",
)

STATUS = (
    b'{"id":"server-1","address":"10.0.0.11:80","weight":267,"baseline":333,"state":"up","share":0.5,'
    b'"pin":null,"score":0.4}'
)


def _body(data: bytes) -> Upstream:
    return request_body.validated(Upstream, request_body.read(data, request_body.JSON))


def _check_body(upstream: Upstream) -> None:
    kept = declaration.decode(declaration.encode(Declaration(upstream=upstream)))
    require(
        isinstance(kept, Declaration) and kept.upstream == upstream, f"the declaration is not kept: {kept}"
    )


def _peer(data: bytes) -> Peer:
    types = (request_body.JSON, request_body.MERGE_PATCH)
    document = request_body.read(data, request_body.MERGE_PATCH, types=types)
    return request_body.validated(Peer, {**document, "id": "server-1"})


def _problem(problem: object) -> str | None:
    if not isinstance(problem, ProblemError):
        return None
    require(400 <= problem.status_code < 500, f"the status is {problem.status_code}, not the client's fault")
    return f"HTTP {problem.status_code}"


_DECLARE = auth.Rule(scope="declare")
_ACCESS = tokens.access(admin=[ADMIN], read=[READ])


def _header(data: bytes) -> str:
    authorization, host, origin = (*data.decode("latin-1").split("\n", 2), "", "")[:3]
    headers = {"authorization": authorization, "host": host, "origin": origin}
    asked = RequestParts(
        method="PUT", path="/v1/upstreams/web", headers=headers, rule=_DECLARE, upstream="web"
    )
    scheme, _, token = authorization.partition(" ")
    is_admin = scheme.lower() == "bearer" and token.strip() == ADMIN
    try:
        grant = auth.grant_for(_ACCESS, asked)
    except ProblemError as problem:
        require(not is_admin, "the administrator was refused")
        return _problem(problem) or ACCEPTED
    require(grant.name == "admin" and is_admin, f"{authorization!r} is let in as {grant.name}")
    return ACCEPTED


# A leading controller without an upstream: its answer depends on the question alone.
_CHECK = AgentCheck(SimpleNamespace(role="leader", views={}))  # type: ignore[arg-type]


def _question(data: bytes) -> str:
    line = _CHECK.answer(data)
    is_line = line.endswith(b"\n") and line.count(b"\n") == 1 and line.isascii()
    require(is_line and b"\r" not in line and b"\0" not in line, f"it answers {line[:200]!r}")
    question = agent_answer.question(data)
    if question is None:
        return REFUSED
    require(1 <= question.configured <= MAX_HAPROXY_WEIGHT, "a weight out of bounds was accepted")
    return ACCEPTED


def _request(data: bytes) -> str:
    record = SampleRecord(
        upstream="web", peer="a", boot="b", seq=1, taken_at_ms=0, interval_s=1.0,
        utilization=(0.5, None, 0.1, 0.3), capacity=(2.0, 1.0, 1.0, 1.0), scope="host",
    )  # fmt: skip
    shown = Status(at_s=0.0, stale_s=3.0, record=record, delivered=1, dropped=0, reachable={"m:1": True})
    http_response.complete(data)
    response = http_response.respond(data, shown, now_s=1.0, cpu_s=0.1)
    head, blank, content = response.partition(b"\r\n\r\n")
    require(response.startswith(b"HTTP/1.1 ") and blank, "the answer is not HTTP")
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    require(len(content) in (0, length), "the answer's length differs from its Content-Length")
    code = head[9:12].decode()
    return ACCEPTED if code == "200" else f"HTTP {code}"


def _answer(data: bytes) -> str:
    status = 200 + sum(data[:3])
    register_request.verdict(status)
    reason = register_request.reason(status, data)
    is_short = len(reason) <= log_text.LONGEST_LINE and reason.isprintable()
    require(is_short, f"the reason is no short line: {reason[:400]!r}")
    return ACCEPTED
