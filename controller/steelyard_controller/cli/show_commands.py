"""`steelyard status`, `upstreams`, `weights`, `explain`, `history`, `audit`, `page`: these only read."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

from steelyard_protocol import wire

from steelyard_controller.cli import connection_flags, name_completion
from steelyard_controller.cli.api_client import AUDIT, Answer, path
from steelyard_controller.cli.api_documents import (
    Audit,
    Explanation,
    History,
    Overview,
    Row,
    Service,
    Table,
    Upstreams,
)
from steelyard_controller.cli.command_session import (
    Session,
    add_upstream,
    add_upstream_and_peer,
    opened,
    upstream_of,
)
from steelyard_controller.cli.exit_status import Exit, Failure, UsageError
from steelyard_controller.cli.views import (
    audit_log,
    explanation_lines,
    peer_table,
    service_status,
    share_history,
)

# Bounds of the API's parameters. They are checked here, so that a wrong one is a usage error.
MOST_MEMBERS = 10_000
MOST_ENTRIES = 1000
HISTORY_S = (1.0, 86_400.0)
STEP_S = (0.0, 3600.0)

ORIGINS = ("people", "machines", "files")

# Rows and changes without --limit.
SHOWN = 50


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands, in the order of --help."""
    status = subparsers.add_parser(
        "status",
        help="show the leader, upstreams and faults (exit status 1 with faults)",
        description="Show the leader, the upstreams and their faults. The exit status is 1 if no controller "
        "leads, an upstream has had no tick yet or something is degraded. With UPSTREAM, or with only one: "
        "its servers, load balancers and refused messages; with more than 50 servers, the most troubled. "
        '--json: {"service": …, "upstreams": […], "overview": … (only with UPSTREAM)}.',
    )
    upstream = status.add_argument(
        "upstream", nargs="?", metavar="UPSTREAM", help="Upstream to show in detail"
    )
    name_completion.set_upstream(upstream)
    status.add_argument("--search", metavar="TEXT", help="Text in a name or in a server's address")
    status.add_argument(
        "--limit",
        metavar="N",
        help=f"Servers or upstreams at most, 1 to {MOST_MEMBERS} (default: {SHOWN}; with --json all)",
    )
    connection_flags.add(status, run=_status)
    upstreams = subparsers.add_parser(
        "upstreams", help="list the upstreams", description="List the upstreams: GET /v1/upstreams."
    )
    connection_flags.add(upstreams, run=_upstreams)
    _add_of_one(subparsers)
    _add_others(subparsers)


def _add_of_one(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    weights = subparsers.add_parser(
        "weights",
        help="show the weight table that nginx gets",
        description="Show an upstream's published weight table: "
        "GET /v1/upstreams/UPSTREAM/weights. The longest bar is the largest share.",
    )
    add_upstream(weights)
    connection_flags.add(weights, run=_weights)
    explain = subparsers.add_parser(
        "explain",
        help="explain a peer's weight",
        description="Explain a peer's weight in a sentence and list every figure behind it: "
        "GET /v1/upstreams/UPSTREAM/peers/PEER/explain.",
    )
    add_upstream_and_peer(explain)
    connection_flags.add(explain, run=_explain)
    history = subparsers.add_parser(
        "history",
        help="show each peer's share over time",
        description="Show each peer's share over time: GET /v1/upstreams/UPSTREAM/history. "
        "A course is drawn from 0 to the peer's largest share.",
    )
    add_upstream(history)
    history.add_argument(
        "--seconds", default="900", help="Length of the history in seconds, 1 to 86400 (default: 900)"
    )
    history.add_argument(
        "--step",
        default="1",
        metavar="SECONDS",
        help="Time between two moments in seconds, 0 to 3600 (default: 1; 0: every tick)",
    )
    connection_flags.add(history, run=_history)


def _add_others(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    audit = subparsers.add_parser(
        "audit",
        help="list changes with their authors",
        description="List the changes of an upstream, or of all, with their authors, newest first: "
        "GET /v1/audit. --json has every field before and after.",
    )
    upstream = audit.add_argument(
        "upstream", nargs="?", metavar="UPSTREAM", help="Upstream whose changes are listed (default: all)"
    )
    name_completion.set_upstream(upstream)
    audit.add_argument(
        "--limit", metavar="N", help=f"Changes at most, 1 to {MOST_ENTRIES} (default: {SHOWN})"
    )
    origin = audit.add_argument(
        "--origin",
        metavar="ORIGIN",
        help=f"Origin of the listed changes: {', '.join(ORIGINS)} (default: all)",
    )
    name_completion.set_words(origin, ORIGINS)
    audit.add_argument("--before", metavar="ID", help="ID of a change: list only earlier ones")
    connection_flags.add(audit, run=_audit)
    page = subparsers.add_parser(
        "page",
        help="print the link to the controller's page, with the token",
        description="Print the link to the controller's page. The part behind its # is the token: the "
        "browser keeps it until the tab is closed and sends it with each change; page requests lack it.",
    )
    connection_flags.add(page, run=_page)


def _status(given: argparse.Namespace) -> int:
    asked = _limit(given.limit, MOST_MEMBERS, "a number of rows")
    if given.upstream is not None:
        connection_flags.name(given.upstream, "an upstream")
    with opened(given) as session:
        service = session.controllers.get(Service, "/v1/service")
        if service.document.role == "waiting":
            # It knows no leader, and so no upstreams either.
            session.out.answer(
                {"service": _json(service), "upstreams": []},
                service_status.of_service(service.document, session.out.look),
            )
            return Exit.NOT_WELL
        limit = SHOWN if asked is None else asked
        part: dict[str, str | float] = {"order": "auto", "limit": limit, "search": given.search or ""}
        if session.out.as_json and given.limit is None and given.search is None:
            part = {}
        upstreams = session.controllers.get(Upstreams, "/v1/upstreams", **({} if given.upstream else part))
        rows = upstreams.document.upstreams
        overview = _overview(session, given.upstream, rows, part)
        if given.upstream is not None:
            rows = [row for row in rows if row.name == given.upstream]
        if session.out.as_json:
            closely = {} if given.upstream is None else {"overview": overview and _json(overview)}
            listed = _json(upstreams)["upstreams"]
            if given.upstream is not None:
                listed = [row for row in listed if row["name"] == given.upstream]
            session.out.document({"service": _json(service), "upstreams": listed, **closely})
        else:
            look = session.out.look
            lines = [
                *service_status.of_service(service.document, look),
                *service_status.of_all(upstreams.document, service.document, look),
                "",
                *service_status.of_upstreams(rows, look),
                *service_status.more(
                    len(rows), None if given.upstream else upstreams.document.matching, look
                ),
            ]
            if overview is not None:
                lines += ["", *service_status.of_overview(overview.document, look)]
            session.out.lines(lines)
        return Exit.OK if service_status.well(service.document, upstreams.document, rows) else Exit.NOT_WELL


def _overview(
    session: Session, named: str | None, rows: list[Row], part: Mapping[str, str | float]
) -> Answer[Overview] | None:
    """Return the overview of the named upstream, or of the only one; None: several, or no tick yet."""
    if named is None and len(rows) != 1:
        return None
    name = rows[0].name if named is None else connection_flags.name(named, "an upstream")
    if any(row.name == name and not row.ready for row in rows):
        return None
    try:
        return session.controllers.get(Overview, path("upstreams", name), **part)
    except Failure as failure:
        if named is None and failure.status == Exit.UNKNOWN:
            return None  # deleted meanwhile
        raise


def _limit(text: str | None, most: int, what: str) -> int | None:
    return None if text is None else connection_flags.whole_number("--limit", text, 1, most, what)


def _json(answer: Answer[Any]) -> Any:  # noqa: ANN401
    return json.loads(answer.body)


def _upstreams(given: argparse.Namespace) -> int:
    with opened(given) as session:
        upstreams = session.controllers.get(Upstreams, "/v1/upstreams")
        look = session.out.look
        about = service_status.of_all(upstreams.document, None, look)
        lines = [*about, *service_status.of_upstreams(upstreams.document.upstreams, look)]
        session.out.answer(upstreams.body, lines)
        return Exit.OK


def _weights(given: argparse.Namespace) -> int:
    with opened(given) as session:
        upstream = upstream_of(session, given)
        weights = session.controllers.get(Table, path("upstreams", upstream, "weights"))
        session.out.answer(weights.body, peer_table.of_table(weights.document, session.out.look))
        return Exit.OK


def _explain(given: argparse.Namespace) -> int:
    peer = connection_flags.name(given.peer, "a peer")
    with opened(given) as session:
        upstream = upstream_of(session, given)
        explanation = session.controllers.get(
            Explanation, path("upstreams", upstream, "peers", peer, "explain")
        )
        session.out.answer(
            explanation.body,
            explanation_lines.of_explanation(upstream, explanation.document, session.out.look),
        )
        return Exit.OK


def _history(given: argparse.Namespace) -> int:
    seconds, step_s = (
        connection_flags.number(f"--{flag}", text, low, high, f"give seconds within {low:g}..{high:g}")
        for flag, text, (low, high) in (
            ("seconds", given.seconds, HISTORY_S),
            ("step", given.step, STEP_S),
        )
    )
    with opened(given) as session:
        upstream = upstream_of(session, given)
        history = session.controllers.get(
            History, path("upstreams", upstream, "history"), seconds=seconds, step_s=step_s
        )
        session.out.answer(history.body, share_history.of_history(history.document, session.out.look))
        return Exit.OK


def _audit(given: argparse.Namespace) -> int:
    asked: dict[str, str | float] = {
        "limit": _limit(given.limit, MOST_ENTRIES, "a number of changes") or SHOWN
    }
    if given.before is not None:
        asked["before"] = connection_flags.whole_number(
            "--before", given.before, 1, wire.MAX_INTEGER, "the ID of a change"
        )
    if given.upstream is not None:
        asked["upstream"] = connection_flags.name(given.upstream, "an upstream")
    if given.origin is not None:
        if given.origin not in ORIGINS:
            raise UsageError(f"--origin {given.origin[:40]}: give {', '.join(ORIGINS)}")
        asked["origin"] = given.origin
    with opened(given) as session:
        answer = session.controllers.get(Audit, AUDIT, **asked)
        session.out.answer(answer.body, audit_log.of_entries(answer.document.entries, session.out.look))
        return Exit.OK


def _page(given: argparse.Namespace) -> int:
    with opened(given) as session:
        url = session.controllers.url
        token = session.controllers.token_for(url)
        session.out.answer({"url": url, "token": token}, [f"{url}/" + (f"#token={token}" if token else "")])
        return Exit.OK
