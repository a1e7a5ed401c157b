"""`steelyard weights`: the weight table as nginx gets it."""

import argparse

from steelyard_controller.cli import options
from steelyard_controller.cli.client import path
from steelyard_controller.cli.documents import Table
from steelyard_controller.cli.exits import Exit
from steelyard_controller.cli.session import add_upstream, opened, upstream_of
from steelyard_controller.cli.views import weights as view


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "weights",
        help="the weight table as nginx gets it",
        description="Show an upstream's weight table as it was published: "
        "GET /v1/upstreams/UPSTREAM/weights. The longest bar is the largest share.",
    )
    add_upstream(parser)
    options.add(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    with opened(given) as session:
        upstream = upstream_of(session, given)
        found = session.controllers.get(Table, path("upstreams", upstream, "weights"))
        session.out.answer(found.body, view.of_table(found.document, session.out.look))
        return Exit.OK
