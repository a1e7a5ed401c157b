"""Ranks servers and upstreams, the worst first, and selects those to show. Pure.

This is the one place for "worse than". A server ranks by its worst trouble, in the order of `troubles`.
Servers with failing requests rank by their failures. All others rank by the distance of the weight from
its baseline, in tenths, so that equals keep their places from tick to tick.

Upstreams rank in this order:

1. those that wait for their first tick
2. those with a part that does not work
3. those with silent load balancers
4. by the worst trouble of their servers, and by the number of servers with it
5. those under high load
6. by the furthest weight

A fault of Redis concerns every upstream, so then the next criterion decides.
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

# The servers named for an upstream in the list of upstreams, if a search finds them there.
MOST_MATCHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The part that a reader is shown: `limit` rows from `offset` on among the matching ones, in an order.

    search     text in a name or an address, or a state other than `up`; it also finds an upstream by its
               servers
    order      `worst`, or one of `ORDERS`; a leading minus puts the largest first; `auto`: the declared
               order if all fit, else `worst`
    troubled   only those with a trouble
    """

    search: str = ""
    order: str = "auto"
    troubled: bool = False
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Standing:
    """An upstream's rank (lower is worse, the worst criterion first) and its troubles in words."""

    rank: tuple[tuple[float, float], ...]
    troubles: tuple[str, ...] = ()


def troubles(outcome: Outcome) -> dict[str, Bools]:
    """Return the servers with each trouble, the worst trouble first."""
    ids, snapshot = [peer.id for peer in outcome.table.peers], outcome.snapshot
    state = np.array([peer.state for peer in outcome.table.peers])
    samples = [outcome.inbox.samples.get(id) for id in ids]
    silent = [outcome.is_silent(each) for each in samples]
    unheard = np.array([each is None for each in samples], dtype=np.bool_)
    unknown = [
        each is None and utilization(outcome, id) is None for id, each in zip(ids, samples, strict=True)
    ]
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
"""The sort keys of servers: a column of figures each; unknown ones, NaN, come last either way."""


def rows(outcome: Outcome, view: View) -> tuple[list[int], int]:
    """Return the places in the table of the servers of a view, and the number of matching servers."""
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
    typed = outcome.typed_addresses
    matching = [row for row in order.tolist() if _matches(peers[row], wanted, typed)]
    return matching[view.offset : view.offset + view.limit], len(matching)


def standing(outcome: Outcome | None) -> Standing:
    """Return the standing of an upstream after its last tick; None: it has had no tick."""
    if outcome is None:
        return Standing(((0, 0),), ("waits for its first tick",))
    servers, decision = len(outcome.table.peers), outcome.decision
    count = {trouble: int(has_it.sum()) for trouble, has_it in troubles(outcome).items()}
    texts = [f"{number} of {servers} servers: {trouble}" for trouble, number in count.items() if number]
    silent = [lb for lb in outcome.load_balancers if outcome.is_silent(outcome.inbox.reports.get(lb))]
    ranks = [(1.0, -float(len(outcome.degraded)))] if outcome.degraded else []
    if silent:
        ranks.append((2.0, -float(len(silent))))
        texts.insert(0, f"{len(silent)} of {len(outcome.load_balancers)} load balancers: silent")
    ranks += [(3.0 + level, -number / servers) for level, number in enumerate(count.values()) if number]
    furthest = float(_moves(outcome).max(initial=0.0))
    ranks.append((3.0 + len(count) + (not decision.alert), -furthest))
    high = ["high load"] if decision.alert else []
    return Standing(tuple(sorted(ranks)), (*outcome.degraded, *texts, *high))


class Standings(dict[str, tuple[Outcome | None, Standing]]):
    """The standing of each upstream, computed once for an outcome however many clients ask for it."""

    def of(self, cycle: Cycle) -> Standing:
        """Return the standing of an upstream."""
        outcome, known = cycle.outcome, self.get(cycle.name)
        if known is None or known[0] is not outcome:
            known = self[cycle.name] = (outcome, standing(outcome))
        return known[1]


@dataclass(frozen=True, slots=True)
class Listed:
    """An upstream in a list; `matches` are its matching servers if its name does not match."""

    cycle: Cycle
    standing: Standing
    matches: tuple[str, ...]


def upstreams(cycles: Mapping[str, Cycle], view: View, standings: Standings) -> tuple[list[Listed], int]:
    """Return the upstreams of a view, by name or worst first, and the number of matching ones."""
    wanted, matching = view.search.strip().lower(), list[Listed]()
    for name in sorted(cycles, key=natural):
        cycle, named = cycles[name], wanted in name.lower()
        matches = () if named else _matching_servers(cycle, wanted)
        stands = standings.of(cycle)
        if (named or matches) and (stands.troubles or not view.troubled):
            matching.append(Listed(cycle, stands, matches))
    if view.order == "worst" or (view.order == "auto" and len(cycles) > view.limit):
        matching.sort(key=lambda each: each.standing.rank)
    return matching[view.offset : view.offset + view.limit], len(matching)


def natural(text: str) -> list[Any]:
    """Return a sort key for names in natural order: server-9 before server-10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", text.lower())]


def _worst_first(outcome: Outcome) -> Any:  # noqa: ANN401 - an array of places
    has_trouble = np.array([*troubles(outcome).values(), np.ones(len(outcome.table.peers), dtype=np.bool_)])
    level = has_trouble.argmax(axis=0)
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


def _matches(peer: Peer | TablePeer, wanted: str, typed: Mapping[str, str]) -> bool:
    """Return whether a name, an address as shown or in its canonical spelling, or a state matches."""
    return (
        wanted in peer.id.lower()
        or wanted in peer.address.lower()
        or (peer.id in typed and wanted in typed[peer.id].lower())
        or wanted == peer.state != "up"
    )


def _matching_servers(cycle: Cycle, wanted: str) -> tuple[str, ...]:
    outcome = cycle.outcome
    peers: Sequence[Peer | TablePeer] = (
        cycle.declaration.upstream.peers if outcome is None else outcome.table.peers
    )
    typed: Mapping[str, str] = {} if outcome is None else outcome.typed_addresses
    return tuple(peer.id for peer in peers if _matches(peer, wanted, typed))[:MOST_MATCHES]
