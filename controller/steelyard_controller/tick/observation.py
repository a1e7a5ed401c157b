"""The input of the laws of several upstreams at once, from the values of a tick. Pure."""

from collections.abc import Sequence

from steelyard_controller.messages.inbox import Inbox, Receipt, receive_all
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.snapshot_builder import Place, build_batches
from steelyard_controller.tick.stages import Begun, Observed, TakenUp
from steelyard_controller.tick.window_pairing import WindowPairing, due_samples


def observe(begun: Sequence[tuple[Cycle, Begun]], now_s: float) -> list[Observed | Exception]:
    """Take up the messages of several upstreams, pair their windows, and build their snapshots.

    The upstreams keep the results when all of them are there. One that fails to has its exception: if it were
    raised, the others would take up the same messages again.
    """
    if not begun:
        return []
    tick_s = begun[0][0].tick_s
    inboxes = _inboxes([each.receipt for _, each in begun])
    tried = _inboxes([each.announced for _, each in begun])
    received = [
        cycle.receive(each, inbox, first, now_s=now_s)
        for (cycle, each), inbox, first in zip(begun, inboxes, tried, strict=True)
    ]
    pairings, due = due_samples(
        [each.pairing for _, each in begun],
        [each.snapshot.inbox.samples for each in received],
        [each.inbox.reports.values() for each in received],
        now_s=now_s,
        tick_s=tick_s,
    )
    places = build_batches([each.snapshot for each in received], due, now_s=now_s, tick_s=tick_s)
    return [
        _kept(cycle, each, its, pairing, place, now_s)
        for (cycle, each), its, pairing, place in zip(begun, received, pairings, places, strict=True)
    ]


def _kept(
    cycle: Cycle, begun: Begun, received: TakenUp, pairing: WindowPairing, place: Place, now_s: float
) -> Observed | Exception:
    try:
        return cycle.keep(begun, received, pairing, place, now_s=now_s)
    except Exception as error:
        return error


def _inboxes(receipts: Sequence[Receipt | None]) -> list[Inbox | None]:
    """Return the inbox after each receipt; None: there is nothing to receive."""
    given = [each for each in receipts if each is not None]
    inboxes = iter(receive_all(given) if given else ())
    return [None if each is None else next(inboxes) for each in receipts]
