"""Changes a peer, and says what that changed and what it does to the shares."""

import argparse
import time
from collections.abc import Mapping
from typing import Any

from steelyard_controller.cli.client import Answer, path
from steelyard_controller.cli.documents import Declared, Overview, Service
from steelyard_controller.cli.exits import Exit, Failure
from steelyard_controller.cli.session import Session
from steelyard_controller.cli.views import change as view

# A tick that was under way at the change still publishes what was declared before.
TABLES_UNTIL_IT_SHOWS = 2

# Between two looks: a tenth of a usual tick.
LOOK_S = 0.1


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Add --wait."""
    parser.add_argument(
        "--wait",
        action="store_true",
        help="until a weight table has it, and show the shares before and after",
    )


def declared(session: Session, upstream: str, peer: str) -> Answer[Declared]:
    """Return a peer as it is declared; raise `Failure`."""
    return session.controllers.get(Declared, path("upstreams", upstream, "peers", peer))


def change(session: Session, upstream: str, before: Declared, patch: Mapping[str, Any], *, wait: bool) -> int:
    """Patch a peer and say what changed; return the exit status."""
    shares = _overview(session, upstream)
    where = path("upstreams", upstream, "peers", before.id)
    after = session.controllers.patch(Declared, where, patch).document
    done = (after.state, after.pin) != (before.state, before.pin)
    shown = _next_table(session, upstream) if wait and done else None
    if session.out.as_json:
        session.out.document(declared(session, upstream, before.id).body)
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
            f"the change is kept, but {upstream} has no new weight table yet: `steelyard status` says why",
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
    """Return the first overview whose table surely has what was declared before this call; None: too late."""
    tick_s = session.controllers.get(Service, "/v1/service").document.tick_s
    first = _overview(session, upstream)
    give_up_s = time.monotonic() + (TABLES_UNTIL_IT_SHOWS + 1) * tick_s + session.controllers.timeout_s
    while time.monotonic() < give_up_s:
        now = _overview(session, upstream)
        if now is not None and (first is None or _is_later(first, now)):
            return now
        first = first or now
        time.sleep(min(LOOK_S, tick_s / 10))
    return None


def _is_later(first: Overview, now: Overview) -> bool:
    """Tell whether `now` was begun after `first` was read; another leader begins with what is kept."""
    return now.term > first.term or now.generation >= first.generation + TABLES_UNTIL_IT_SHOWS
