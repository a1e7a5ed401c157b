"""`steelyard explain`: why a peer has its weight."""

import argparse

from steelyard_controller.cli import options
from steelyard_controller.cli.client import path
from steelyard_controller.cli.documents import Explanation
from steelyard_controller.cli.exits import Exit
from steelyard_controller.cli.session import add_upstream, opened, upstream_of
from steelyard_controller.cli.views import explain as view


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "explain",
        help="why a peer has its weight",
        description="Say why a peer has its weight, then every figure behind it: "
        "GET /v1/upstreams/UPSTREAM/peers/PEER/explain.",
    )
    add_upstream(parser)
    parser.add_argument("peer", metavar="PEER")
    options.add(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    peer = options.name(given.peer, "a peer")
    with opened(given) as session:
        upstream = upstream_of(session, given)
        found = session.controllers.get(Explanation, path("upstreams", upstream, "peers", peer, "explain"))
        session.out.answer(found.body, view.of_explanation(upstream, found.document, session.out.look))
        return Exit.OK
