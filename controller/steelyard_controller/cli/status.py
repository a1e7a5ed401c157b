"""`steelyard status`: who leads, what is declared, is it well."""

import argparse
import json
from typing import Any

from steelyard_controller.cli import options
from steelyard_controller.cli.client import Answer, path
from steelyard_controller.cli.documents import Overview, Row, Service, Upstreams
from steelyard_controller.cli.exits import Exit, Failure
from steelyard_controller.cli.session import Session, opened
from steelyard_controller.cli.views import status as view


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "status",
        help="who leads, what is declared, is it well (exit status 1: it is not)",
        description="Who leads, what is declared, and is it well: exit status 1 where nobody leads, an "
        "upstream has had no tick yet or something is degraded. With UPSTREAM, or where there is only one: "
        "its servers, load balancers and what is refused. "
        '--json: {"service": …, "upstreams": […], "overview": … (only with UPSTREAM)}.',
    )
    parser.add_argument("upstream", nargs="?", metavar="UPSTREAM", help="look at this one closely")
    options.add(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    with opened(given) as session:
        service = session.controllers.get(Service, "/v1/service")
        if service.document.role == "waiting":
            # It knows of no leader, so of no upstream either.
            session.out.answer(
                {"service": _json(service), "upstreams": []},
                view.of_service(service.document, session.out.look),
            )
            return Exit.NOT_WELL
        found = session.controllers.get(Upstreams, "/v1/upstreams")
        rows, overview = (
            found.document.upstreams,
            _overview(session, given.upstream, found.document.upstreams),
        )
        if given.upstream is not None:
            rows = [row for row in rows if row.name == given.upstream]
        if session.out.as_json:
            closely = {} if given.upstream is None else {"overview": overview and _json(overview)}
            listed = _json(found)["upstreams"]
            if given.upstream is not None:
                listed = [row for row in listed if row["name"] == given.upstream]
            session.out.document({"service": _json(service), "upstreams": listed, **closely})
        else:
            look = session.out.look
            lines = [*view.of_service(service.document, look), "", *view.of_upstreams(rows, look)]
            if overview is not None:
                lines += ["", *view.of_overview(overview.document, look)]
            session.out.lines(lines)
        return Exit.OK if view.well(service.document, rows) else Exit.NOT_WELL


def _overview(session: Session, named: str | None, rows: list[Row]) -> Answer[Overview] | None:
    """Return the upstream that is looked at closely; None: none, or before its first tick."""
    if named is None and len(rows) != 1:
        return None
    name = rows[0].name if named is None else options.name(named, "an upstream")
    if any(row.name == name and not row.ready for row in rows):
        return None
    try:
        return session.controllers.get(Overview, path("upstreams", name))
    except Failure as failure:
        if named is None and failure.status == Exit.UNKNOWN:
            return None  # deleted meanwhile
        raise


def _json(answer: Answer[Any]) -> Any:  # noqa: ANN401
    return json.loads(answer.body)
