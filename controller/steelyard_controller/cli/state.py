"""`steelyard drain`, `undrain` and `state`: which servers get requests."""

import argparse

from steelyard_controller.cli import change, options
from steelyard_controller.cli.exits import Exit, Failure
from steelyard_controller.cli.session import add_upstream, opened, upstream_of

STATES = ("up", "drain", "down", "backup")


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    drain = subparsers.add_parser(
        "drain",
        help="no new requests for a peer",
        description="Give a peer no new requests; those under way go on. Its state becomes `drain`.",
    )
    undrain = subparsers.add_parser(
        "undrain",
        help="requests for a drained peer again",
        description="Give a drained peer requests again. Its state becomes `up`.",
    )
    state = subparsers.add_parser(
        "state",
        help="set a peer's state",
        description="Set a peer's state: up; drain (no new requests); down (taken as dead); "
        "backup (used only while no other server can be).",
    )
    for parser, run in ((drain, _drain), (undrain, _undrain), (state, _state)):
        add_upstream(parser)
        parser.add_argument("peer", metavar="PEER")
        if parser is state:
            parser.add_argument("state", metavar="STATE", choices=STATES, help="|".join(STATES))
        change.add_wait(parser)
        options.add(parser)
        parser.set_defaults(run=run)


def _drain(given: argparse.Namespace) -> int:
    return _set(given, "drain")


def _state(given: argparse.Namespace) -> int:
    return _set(given, given.state)


def _undrain(given: argparse.Namespace) -> int:
    return _set(given, "up", only_drained=True)


def _set(given: argparse.Namespace, state: str, *, only_drained: bool = False) -> int:
    peer = options.name(given.peer, "a peer")
    with opened(given) as session:
        upstream = upstream_of(session, given)
        before = change.declared(session, upstream, peer).document
        if only_drained and before.state not in {"drain", "up"}:
            raise Failure(
                Exit.NOT_DONE,
                f"{upstream}/{peer} is not drained but {before.state}: "
                f"`steelyard state {upstream} {peer} up` gives it requests",
            )
        return change.change(session, upstream, before, {"state": state}, wait=given.wait)
