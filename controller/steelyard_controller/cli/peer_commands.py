"""`steelyard drain`, `undrain`, `state`, `pin`, `unpin`: the commands that change a peer.

Each prints its change, and with --wait the effect on the shares of the requests.
"""

import argparse
import math
import time
from collections.abc import Mapping
from typing import Any

from steelyard_controller.cli import connection_flags
from steelyard_controller.cli.api_client import Answer, path
from steelyard_controller.cli.api_documents import Declared, Overview, Service
from steelyard_controller.cli.command_session import Session, add_upstream_and_peer, opened, upstream_of
from steelyard_controller.cli.exit_status import Exit, Failure
from steelyard_controller.cli.views import peer_change as view

STATES = ("up", "drain", "down", "backup")

# A tick under way at the change still publishes the previous declaration.
TABLES_UNTIL_IT_SHOWS = 2

# Pause between two requests for the overview: a tenth of a usual tick.
POLL_S = 0.1


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands, in the order of --help."""
    drain = subparsers.add_parser(
        "drain",
        help="stop new requests for a peer",
        description="Stop new requests for a peer; running ones finish. Its state becomes `drain`.",
    )
    undrain = subparsers.add_parser(
        "undrain",
        help="send a drained peer requests again",
        description="Send a drained peer requests again. Its state becomes `up`.",
    )
    state = subparsers.add_parser(
        "state",
        help="set a peer's state",
        description="Set a peer's state: up; drain (no new requests); down (out of service); "
        "backup (used only while no other server is available).",
    )
    pin = subparsers.add_parser(
        "pin",
        help="fix a peer's percentage of the weight",
        description="Fix a peer's weight to a percentage of its upstream's; the law shares out the rest.",
    )
    unpin = subparsers.add_parser(
        "unpin", help="let the law decide again", description="Let the law decide on a peer's weight again."
    )
    for parser in (drain, undrain, state, pin, unpin):
        add_upstream_and_peer(parser)
        if parser is state:
            parser.add_argument("state", metavar="STATE", choices=STATES, help="|".join(STATES))
        if parser is pin:
            parser.add_argument("percent", metavar="PERCENT", help="Percentage above 0 and below 100")
        parser.add_argument(
            "--wait",
            action="store_true",
            help="Wait until a weight table has the change, and show the shares before and after",
        )
        run = _set_pin if parser in (pin, unpin) else _set_state
        connection_flags.add(parser, run=run, only_drained=False)
    drain.set_defaults(state="drain")
    undrain.set_defaults(state="up", only_drained=True)
    unpin.set_defaults(percent=None)


def _set_state(given: argparse.Namespace) -> int:
    peer = connection_flags.name(given.peer, "a peer")
    with opened(given) as session:
        upstream = upstream_of(session, given)
        before = _declared(session, upstream, peer).document
        if given.only_drained and before.state not in {"drain", "up"}:
            raise Failure(
                Exit.NOT_DONE,
                f"{upstream}/{peer} is not drained but {before.state}: "
                f"`steelyard state {upstream} {peer} up` gives it requests",
            )
        return _change(session, upstream, before, {"state": given.state}, wait=given.wait)


def _set_pin(given: argparse.Namespace) -> int:
    pin = None
    if given.percent is not None:
        advice = "give a number above 0 and below 100, such as 25"
        pin = connection_flags.number(
            "PERCENT",
            given.percent.removesuffix("%"),
            connection_flags.SMALLEST,
            math.nextafter(100, 0),
            advice,
        )
    peer = connection_flags.name(given.peer, "a peer")
    with opened(given) as session:
        upstream = upstream_of(session, given)
        before = _declared(session, upstream, peer).document
        return _change(session, upstream, before, {"pin": pin}, wait=given.wait)


def _declared(session: Session, upstream: str, peer: str) -> Answer[Declared]:
    """Return a peer as it is declared; raise `Failure`."""
    return session.controllers.get(Declared, path("upstreams", upstream, "peers", peer))


def _change(
    session: Session, upstream: str, before: Declared, patch: Mapping[str, Any], *, wait: bool
) -> int:
    """Patch a peer and print the change; return the exit status."""
    shares = _overview(session, upstream)
    where = path("upstreams", upstream, "peers", before.id)
    after = session.controllers.patch(Declared, where, patch).document
    done = (after.state, after.pin) != (before.state, before.pin)
    shown = _next_table(session, upstream) if wait and done else None
    if session.out.as_json:
        session.out.document(_declared(session, upstream, before.id).body)
        return Exit.NOT_WELL if wait and done and shown is None else Exit.OK
    look = session.out.look
    session.out.lines([view.of_change(upstream, before, after, look)])
    if not done:
        return Exit.OK
    if not wait:
        session.out.lines(view.forecast(before, shares, look))
        return Exit.OK
    if shown is None:
        raise Failure(
            Exit.NOT_WELL,
            f"the change is kept, but {upstream} has no new weight table yet: see `steelyard status`",
        )
    session.out.lines(view.alone(shown, look))
    if shares is not None:
        session.out.lines(view.of_shares(shares, shown, look))
    return Exit.OK


def _overview(session: Session, upstream: str) -> Overview | None:
    """Return the overview; None before the first tick."""
    try:
        return session.controllers.get(Overview, path("upstreams", upstream)).document
    except Failure as failure:
        if failure.status == Exit.UNREACHABLE:
            return None
        raise


def _next_table(session: Session, upstream: str) -> Overview | None:
    """Return the first overview whose table has the change made before this call; None: too late."""
    tick_s = session.controllers.get(Service, "/v1/service").document.tick_s
    first = _overview(session, upstream)
    give_up_s = time.monotonic() + (TABLES_UNTIL_IT_SHOWS + 1) * tick_s + session.controllers.timeout_s
    while time.monotonic() < give_up_s:
        now = _overview(session, upstream)
        if now is not None and (first is None or _is_later(first, now)):
            return now
        first = first or now
        time.sleep(min(POLL_S, tick_s / 10))
    return None


def _is_later(first: Overview, now: Overview) -> bool:
    """Return whether the tick of `now` began after `first` was read; a new leader's ticks have the change."""
    return now.term > first.term or now.generation >= first.generation + TABLES_UNTIL_IT_SHOWS
