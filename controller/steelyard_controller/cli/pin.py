"""`steelyard pin` and `unpin`: a share that a person fixes."""

import argparse
from math import isfinite

from steelyard_controller.cli import change, options
from steelyard_controller.cli.exits import UsageError
from steelyard_controller.cli.session import add_upstream, opened, upstream_of


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    pin = subparsers.add_parser(
        "pin",
        help="fix a peer's percentage of the weight",
        description="Fix a peer's weight to a percentage of its upstream's; the law shares out the rest.",
    )
    unpin = subparsers.add_parser(
        "unpin", help="let the law decide again", description="Let the law decide on a peer's weight again."
    )
    for parser, run in ((pin, _pin), (unpin, _unpin)):
        add_upstream(parser)
        parser.add_argument("peer", metavar="PEER")
        if parser is pin:
            parser.add_argument("percent", metavar="PERCENT", help="more than 0, less than 100")
        change.add_wait(parser)
        options.add(parser)
        parser.set_defaults(run=run)


def _pin(given: argparse.Namespace) -> int:
    return _set(given, _percent(given.percent))


def _unpin(given: argparse.Namespace) -> int:
    return _set(given, None)


def _set(given: argparse.Namespace, pin: float | None) -> int:
    peer = options.name(given.peer, "a peer")
    with opened(given) as session:
        upstream = upstream_of(session, given)
        before = change.declared(session, upstream, peer).document
        return change.change(session, upstream, before, {"pin": pin}, wait=given.wait)


def _percent(text: str) -> float:
    try:
        found = float(text.removesuffix("%"))
    except ValueError:
        found = -1.0
    if not (isfinite(found) and 0 < found < 100):
        raise UsageError(f"PERCENT {text}: give a number above 0 and below 100, such as 25")
    return found
