"""Ranks servers and upstreams, the worst first, and selects those to show. Pure.

This is the one place for "worse than". A server ranks by its worst trouble, in the order of `troubles`.
Servers with failing requests rank by their failures. All others rank by the distance of the weight from
its baseline, in tenths, so that equals keep their places from tick to tick.

Upstreams rank by their level, and among equals in this order:

1. those that wait for their first tick
2. those with a part that does not work
3. those with silent load balancers
4. by the worst trouble of their servers, and by the number of servers with it
5. those with little headroom, the least first
6. those under high load
7. by the furthest weight

Faults of the controller are not the upstreams', so they move none. Nor do the troubles that many upstreams
share (`Common`): a load balancer that has gone, and a takeover.

The level of an upstream says how much it needs a person:

fault     it waits for its first tick, a part of it does not work, requests fail or no server gets any
warning   figures are missing, or little headroom is left
notice    a person or Kubernetes has taken servers out or pinned them, or the law reports high load
well      none of these
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from steelyard_protocol.weight_table import TablePeer

from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.fault_causes import MANY
from steelyard_controller.laws.headroom import Headroom
from steelyard_controller.laws.presentation import in_percent
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome, headroom_of, shares, utilization

# The servers named for an upstream in the list of upstreams, if a search finds them there.
MOST_MATCHES = 3

# One failed request in thousands is a warning. From this part on, clients see them.
MANY_FAILED = 0.01

# The same part as for the alert in monitoring.
LITTLE_HEADROOM = 0.1

Level = Literal["fault", "warning", "notice", "well"]
LEVELS: tuple[Level, ...] = ("fault", "warning", "notice", "well")


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
class Common:
    """The troubles that many upstreams share, told once: silent load balancers, and waiting for a first tick.

    silent    the number of upstreams by load balancer that is silent at `MANY` or more
    waiting   the number of upstreams without a tick, if they are `MANY` or more
    """

    silent: Mapping[str, int]
    waiting: int = 0

    def lines(self) -> list[str]:
        """Return a line for each."""
        silent = [f"load balancer {lb}: silent at {count:,} upstreams" for lb, count in self.silent.items()]
        return silent + ([f"{self.waiting:,} upstreams: wait for their first tick"] if self.waiting else [])


WAITS, FAULTY, SILENT, PEERS, LAST = 0.0, 1.0, 2.0, 3.0, math.inf
"""The criteria of an upstream's rank; troubles of servers, headroom, high load and weights follow `PEERS`."""


@dataclass(frozen=True, slots=True)
class Standing:
    """An upstream's rank (lower is worse, the worst criterion first) and its troubles in words.

    `waits`: it has had no tick. `silent` are its silent load balancers, of `load_balancers`. `own_level` is
    the level without them.
    """

    rank: tuple[tuple[float, float], ...]
    faults: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    waits: bool = False
    silent: frozenset[str] = frozenset()
    load_balancers: int = 0
    own_level: Level = "well"
    headroom: Headroom = field(default_factory=Headroom)
    failed_per_s: float = 0.0

    @property
    def level(self) -> Level:
        """Return how much it needs a person."""
        if self.waits:
            return "fault"
        return "warning" if self.silent and self.own_level != "fault" else self.own_level

    @property
    def troubles(self) -> tuple[str, ...]:
        """Return the troubles, the worst first."""
        waits = ("waits for its first tick",) if self.waits else ()
        silent = f"{len(self.silent)} of {self.load_balancers} load balancers: silent"
        return (*waits, *self.faults, *((silent,) if self.silent else ()), *self.others)

    def without(self, common: Common) -> "Standing":
        """Return the standing by the upstream's own troubles."""
        if self.waits and common.waiting:
            return Standing(((LAST, 0),), own_level="notice")
        own = self.silent.difference(common.silent)
        if len(own) == len(self.silent):
            return self
        rank = [each for each in self.rank if each[0] != SILENT] + _silent_rank(own)
        return replace(self, rank=tuple(sorted(rank)), silent=own)


def troubles(outcome: Outcome) -> dict[str, Bools]:
    """Return the servers with each trouble, the worst trouble first."""
    ids, snapshot = [peer.id for peer in outcome.table.peers], outcome.snapshot
    state = np.array([peer.state for peer in outcome.table.peers])
    samples = [outcome.inbox.samples.get(id) for id in ids]
    silent = [outcome.fails_to_send(each) for each in samples]
    unheard = np.array([each is None for each in samples], dtype=np.bool_)
    unknown = [
        missing and each is None and utilization(outcome, id) is None
        for id, each, missing in zip(ids, samples, silent, strict=True)
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
        return Standing(((WAITS, 0),), waits=True)
    servers, decision, snapshot = len(outcome.table.peers), outcome.decision, outcome.snapshot
    count = {trouble: int(has_it.sum()) for trouble, has_it in troubles(outcome).items()}
    texts = [f"{number} of {servers} servers: {trouble}" for trouble, number in count.items() if number]
    reports = outcome.inbox.reports
    silent = frozenset(lb for lb in outcome.load_balancers if outcome.fails_to_send(reports.get(lb)))
    ranks = [(FAULTY, -float(len(outcome.degraded)))] if outcome.degraded else []
    ranks += _silent_rank(silent)
    ranks += [(PEERS + level, -number / servers) for level, number in enumerate(count.values()) if number]
    furthest = float(_moves(outcome).max(initial=0.0))
    ranks.append((PEERS + len(count) + 1 + (not decision.alert), -furthest))
    room = headroom_of(outcome)
    little = _little_headroom(room)
    if little and room.left_per_s is not None and room.could_carry_per_s:
        ranks.append((PEERS + len(count), room.left_per_s / room.could_carry_per_s))
    others = (*texts, *little, *(["high load"] if decision.alert else []))
    return Standing(
        tuple(sorted(ranks)),
        faults=outcome.degraded,
        others=others,
        silent=silent,
        load_balancers=len(outcome.load_balancers),
        own_level=_level(outcome, room, count),
        headroom=room,
        failed_per_s=float(np.nansum(snapshot.failed)) / snapshot.tick_s if count["requests fail"] else 0.0,
    )


def _silent_rank(silent: Collection[str]) -> list[tuple[float, float]]:
    return [(SILENT, -float(len(silent)))] if silent else []


def _level(outcome: Outcome, room: Headroom, count: Mapping[str, int]) -> Level:
    is_out = count["down"] + count["draining"] == len(outcome.table.peers)
    if outcome.degraded or is_out or (count["requests fail"] and _many_fail(outcome)):
        return "fault"
    missing = count["its agent is silent"] or count["no sample yet"]
    if count["requests fail"] or missing or _little_headroom(room):
        return "warning"
    return "notice" if outcome.decision.alert or any(count.values()) else "well"


def _many_fail(outcome: Outcome) -> bool:
    failed, completed = np.nansum(outcome.snapshot.failed), np.nansum(outcome.snapshot.completed)
    return bool(failed > MANY_FAILED * (failed + completed))


def _little_headroom(room: Headroom) -> tuple[str, ...]:
    """Return the trouble of an upstream with little headroom; none: it has enough, or it is unknown."""
    if room.left_per_s is None or room.ratio is None or room.ratio >= LITTLE_HEADROOM:
        return ()
    if room.left_per_s < 0:
        return (f"lacks servers for {-room.left_per_s:.0f} requests/s",)
    return (f"{in_percent(room.ratio)} headroom left",)


class Standings(dict[str, tuple[Outcome | None, Standing]]):
    """The standing of each upstream, computed once for an outcome however many clients ask for it."""

    def of(self, cycle: Cycle) -> Standing:
        """Return the standing of an upstream."""
        outcome, known = cycle.outcome, self.get(cycle.name)
        if known is None or known[0] is not outcome:
            known = self[cycle.name] = (outcome, standing(outcome))
        return known[1]

    def of_all(self, cycles: Mapping[str, Cycle]) -> tuple[dict[str, Standing], Common]:
        """Return each upstream's standing by its own troubles, and the troubles that many of them share."""
        all_standings = {name: self.of(cycle) for name, cycle in cycles.items()}
        silent = Counter(lb for standing in all_standings.values() for lb in standing.silent)
        waiting = sum(standing.waits for standing in all_standings.values())
        common = Common(
            silent={lb: count for lb, count in sorted(silent.items()) if count >= MANY},
            waiting=waiting if waiting >= MANY else 0,
        )
        return {name: standing.without(common) for name, standing in all_standings.items()}, common


@dataclass(frozen=True, slots=True)
class Listed:
    """An upstream in a list; `matches` are its matching servers if its name does not match."""

    cycle: Cycle
    standing: Standing
    matches: tuple[str, ...]


def upstreams(
    cycles: Mapping[str, Cycle], view: View, own_standings: Mapping[str, Standing]
) -> tuple[list[Listed], int]:
    """Return the upstreams of a view, by name or worst first, and the number of matching ones."""
    wanted, matching = view.search.strip().lower(), list[Listed]()
    for name in sorted(cycles, key=natural):
        cycle, named = cycles[name], wanted in name.lower()
        matches = () if named else _matching_servers(cycle, wanted)
        stands = own_standings[name]
        if (named or matches) and (stands.troubles or not view.troubled):
            matching.append(Listed(cycle, stands, matches))
    if view.order == "worst" or (view.order == "auto" and len(cycles) > view.limit):
        matching.sort(key=lambda each: (LEVELS.index(each.standing.level), each.standing.rank))
    return matching[view.offset : view.offset + view.limit], len(matching)


def totals(cycles: Mapping[str, Cycle], own_standings: Mapping[str, Standing]) -> dict[str, Any]:
    """Return the sums over all upstreams, their number by level, and the one with the least headroom."""
    rooms = {name: each.headroom.ratio for name, each in own_standings.items()}
    known = {name: ratio for name, ratio in rooms.items() if ratio is not None}
    tightest = min(known, key=lambda name: (known[name], natural(name)), default=None)
    outcomes = [cycle.outcome for cycle in cycles.values() if cycle.outcome is not None]
    return {
        **{level: sum(each.level == level for each in own_standings.values()) for level in LEVELS},
        "servers": sum(len(outcome.table.peers) for outcome in outcomes),
        "requests_per_s": sum(outcome.carries_per_s or 0.0 for outcome in outcomes),
        "failed_per_s": sum(each.failed_per_s for each in own_standings.values()),
        "tightest": None if tightest is None else {"name": tightest, "headroom": known[tightest]},
    }


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
