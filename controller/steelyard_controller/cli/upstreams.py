"""`steelyard upstreams`: which upstreams there are."""

import argparse

from steelyard_controller.cli import options
from steelyard_controller.cli.documents import Upstreams
from steelyard_controller.cli.exits import Exit
from steelyard_controller.cli.session import opened
from steelyard_controller.cli.views import status as view


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "upstreams", help="which upstreams there are", description="List the upstreams: GET /v1/upstreams."
    )
    options.add(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    with opened(given) as session:
        found = session.controllers.get(Upstreams, "/v1/upstreams")
        session.out.answer(found.body, view.of_upstreams(found.document.upstreams, session.out.look))
        return Exit.OK
