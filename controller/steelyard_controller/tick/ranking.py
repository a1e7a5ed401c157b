"""What needs a look first: servers and upstreams, the worst first, and the part of them that is shown. Pure.

The one place that says what is worse than what. A server stands where its worst trouble stands in `troubles`;
among those whose requests fail by their failures, else by how far the weight is from its baseline, in tenths,
so that equals keep their places from tick to tick. Of upstreams those come first that wait for a tick, then
those of which a part does not work, those with silent load balancers, then by the worst trouble of their
servers and how many have it, those under high load, and the well by their furthest weight; where a fault of
Redis is everybody's, what comes next decides.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from steelyard_protocol.weight_table import TablePeer

from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome, shares, utilization

# Of the servers that a search finds in an upstream so many are named in the list of upstreams.
MOST_FOUND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a reader is shown: `limit` rows from `offset` on, of those that match, in an order.

    search     in a name or an address, or a state but `up`; of an upstream also in those of its servers
    order      `worst`, or one of `ORDERS`, with a minus before it the largest first; `auto`: as declared
               where all fit, else `worst`
    troubled   only those that need a look
    """

    search: str = ""
    order: str = "auto"
    troubled: bool = False
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Standing:
    """How an upstream is: by each thing that is wrong, the worst first, less is worse; and in words."""

    rank: tuple[tuple[float, float], ...]
    troubles: tuple[str, ...] = ()


def troubles(outcome: Outcome) -> dict[str, Bools]:
    """Return by trouble, the worst first, which servers have it."""
    ids, snapshot = [peer.id for peer in outcome.table.peers], outcome.snapshot
    state = np.array([peer.state for peer in outcome.table.peers])
    heard = [outcome.inbox.samples.get(id) for id in ids]
    silent = [outcome.is_silent(each) for each in heard]
    unheard = np.array([each is None for each in heard], dtype=np.bool_)
    unknown = [each is None and utilization(outcome, id) is None for id, each in zip(ids, heard, strict=True)]
    return {
        "requests fail": snapshot.failed > 0,
        "its agent is silent": np.array(silent, dtype=np.bool_) & ~unheard,
        "no sample yet": np.array(unknown, dtype=np.bool_),
        "down": state == "down",
        "is being stopped": snapshot.leaving,
        "draining": state == "drain",
        "pinned": ~np.isnan(snapshot.pinned),
    }


ORDERS: Mapping[str, Callable[[Outcome], Any]] = {
    "name": lambda outcome: _places(outcome),
    "share": lambda outcome: shares(outcome.table),
    "weight": lambda outcome: [peer.weight / peer.baseline for peer in outcome.table.peers],
    "busy": lambda outcome: [_busiest(outcome, peer.id) for peer in outcome.table.peers],
    "requests": lambda outcome: outcome.snapshot.completed,
    "failed": lambda outcome: outcome.snapshot.failed,
    "latency": lambda outcome: outcome.snapshot.latency_s,
    "flight": lambda outcome: outcome.snapshot.in_flight,
    "age": lambda outcome: [_age_s(outcome, peer.id) for peer in outcome.table.peers],
}
"""By what servers are sorted: a column of figures; those that are not known, NaN, come last either way."""


def rows(outcome: Outcome, view: View) -> tuple[list[int], int]:
    """Return the places in the table of the servers that a view shows, and how many match."""
    peers, wanted = outcome.table.peers, view.search.strip().lower()
    by_name = view.order.removeprefix("-")
    if view.order == "worst" or (view.order == "auto" and len(peers) > view.limit):
        order = _worst_first(outcome)
    elif by_name in ORDERS:
        column = np.asarray(ORDERS[by_name](outcome), dtype=float)
        order = np.argsort(column if by_name == view.order else -column, kind="stable")
    else:
        order = np.arange(len(peers))
    if view.troubled:
        order = order[np.logical_or.reduce([*troubles(outcome).values()])[order]]
    found = [row for row in order.tolist() if _matches(peers[row], wanted)]
    return found[view.offset : view.offset + view.limit], len(found)


def standing(outcome: Outcome | None) -> Standing:
    """Return how an upstream is after its last tick; None: it has had none."""
    if outcome is None:
        return Standing(((0, 0),), ("waits for its first tick",))
    servers, decision = len(outcome.table.peers), outcome.decision
    count = {what: int(having.sum()) for what, having in troubles(outcome).items()}
    said = [f"{number} of {servers} servers: {what}" for what, number in count.items() if number]
    silent = [lb for lb in outcome.load_balancers if outcome.is_silent(outcome.inbox.reports.get(lb))]
    ranks = [(1.0, -float(len(outcome.degraded)))] if outcome.degraded else []
    if silent:
        ranks.append((2.0, -float(len(silent))))
        said.insert(0, f"{len(silent)} of {len(outcome.load_balancers)} load balancers: silent")
    ranks += [(3.0 + level, -number / servers) for level, number in enumerate(count.values()) if number]
    furthest = float(_moves(outcome).max(initial=0.0))
    ranks.append((3.0 + len(count) + (not decision.alert), -furthest))
    high = ["high load"] if decision.alert else []
    return Standing(tuple(sorted(ranks)), (*outcome.degraded, *said, *high))


class Standings(dict[str, tuple[Outcome | None, Standing]]):
    """The standing of each upstream, made once for an outcome however many ask for it."""

    def of(self, cycle: Cycle) -> Standing:
        """Return how an upstream is."""
        outcome, known = cycle.outcome, self.get(cycle.name)
        if known is None or known[0] is not outcome:
            known = self[cycle.name] = (outcome, standing(outcome))
        return known[1]


@dataclass(frozen=True, slots=True)
class Listed:
    """An upstream in a list; `found` are servers of it that match where its name does not."""

    cycle: Cycle
    standing: Standing
    found: tuple[str, ...]


def upstreams(cycles: Mapping[str, Cycle], view: View, standings: Standings) -> tuple[list[Listed], int]:
    """Return the upstreams that a view shows, in the order of their names or worst first; how many match."""
    wanted, matching = view.search.strip().lower(), list[Listed]()
    for name in sorted(cycles, key=natural):
        cycle, named = cycles[name], wanted in name.lower()
        found = () if named else _found(cycle, wanted)
        stands = standings.of(cycle)
        if (named or found) and (stands.troubles or not view.troubled):
            matching.append(Listed(cycle, stands, found))
    if view.order == "worst" or (view.order == "auto" and len(cycles) > view.limit):
        matching.sort(key=lambda each: each.standing.rank)
    return matching[view.offset : view.offset + view.limit], len(matching)


def natural(text: str) -> list[Any]:
    """Return what names sort by as people count: server-9 before server-10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", text.lower())]


def _worst_first(outcome: Outcome) -> Any:  # noqa: ANN401 - an array of places
    having = np.array([*troubles(outcome).values(), np.ones(len(outcome.table.peers), dtype=np.bool_)])
    level = having.argmax(axis=0)
    return np.lexsort((-np.where(level == 0, outcome.snapshot.failed, _moves(outcome)), level))


def _moves(outcome: Outcome) -> Floats:
    decision = outcome.decision
    return np.abs(np.log(decision.published / decision.published_baseline)).round(1)


def _places(outcome: Outcome) -> Floats:
    ids = [peer.id for peer in outcome.table.peers]
    return np.argsort(sorted(range(len(ids)), key=lambda row: natural(ids[row]))).astype(float)


def _busiest(outcome: Outcome, id: str) -> float:
    used = utilization(outcome, id) or {}
    known = [used.get(name) for name in outcome.decision.indicators]
    return max((value for value in known if value is not None), default=np.nan)


def _age_s(outcome: Outcome, id: str) -> float:
    received = outcome.inbox.samples.get(id)
    return np.nan if received is None else outcome.now_s - received.arrived_s


def _matches(peer: Peer | TablePeer, wanted: str) -> bool:
    return wanted in peer.id.lower() or wanted in peer.address.lower() or wanted == peer.state != "up"


def _found(cycle: Cycle, wanted: str) -> tuple[str, ...]:
    outcome = cycle.outcome
    peers: Sequence[Peer | TablePeer] = (
        cycle.declaration.upstream.peers if outcome is None else outcome.table.peers
    )
    return tuple(peer.id for peer in peers if _matches(peer, wanted))[:MOST_FOUND]
