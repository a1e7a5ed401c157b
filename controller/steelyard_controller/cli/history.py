"""`steelyard history`: how the shares went."""

import argparse
from math import isfinite

from steelyard_controller.cli import options
from steelyard_controller.cli.client import path
from steelyard_controller.cli.documents import History
from steelyard_controller.cli.exits import Exit, UsageError
from steelyard_controller.cli.session import add_upstream, opened, upstream_of
from steelyard_controller.cli.views import history as view


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "history",
        help="how the shares went",
        description="Show how each peer's share went: GET /v1/upstreams/UPSTREAM/history. "
        "Each course is drawn from 0 to its own most.",
    )
    add_upstream(parser)
    parser.add_argument("--seconds", default="900", help="how far back (900)")
    parser.add_argument("--step", default="1", metavar="SECONDS", help="between two moments (1)")
    options.add(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    seconds, step_s = _number("--seconds", given.seconds), _number("--step", given.step)
    with opened(given) as session:
        upstream = upstream_of(session, given)
        found = session.controllers.get(
            History, path("upstreams", upstream, "history"), seconds=seconds, step_s=step_s
        )
        session.out.answer(found.body, view.of_history(found.document, session.out.look))
        return Exit.OK


def _number(flag: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not (isfinite(found) and found > 0):
        raise UsageError(f"{flag} {text}: give seconds, more than 0")
    return found
