"""A server that is rarely asked: 150 drawn clusters of which one server becomes slow, and its shares then.

Four servers have 10 to 400 requests a second of capacity each, at loads of .3 to .8. At second 300 one of
them keeps .05 to .5 of its speed. Requests are single ones and take their turn at each server, by weights.
Arrivals are evenly spaced or by chance (Poisson).

`make law-rarely-asked` prints the distribution over all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from steelyard_controller import laws
from steelyard_controller.laws.snapshot import Floats

from testing.fluid_model import OTHER_INDICATORS, Window

from .closed_loop import Loop, ticks_at_once

SLOW_FROM_S, SETTLED_FROM_S, END_S = 300, 360, 660
"""The server becomes slow; its shares count from here; the end."""

DRAWN = 150
SWINGS = 3.0
"""A share swings if it is above this many times what is due, or below that part of it, ..."""
SWINGS_PART = 0.05
"""... in more than this part of the time."""


@dataclass(slots=True, kw_only=True)
class Queues:
    """Servers that do one request after another, each of the same work; requests are single ones.

    capacity   k, requests per busy second
    chance     generator of Poisson arrivals; None: arrivals are evenly spaced
    """

    capacity: Floats
    chance: np.random.Generator | None = None
    longest_s: float = 0.0
    _due: float = 0.0
    _credit: Floats = field(init=False)
    _ends: list[Floats] = field(init=False)
    _begun: list[Floats] = field(init=False)
    _second: int = 0

    def __post_init__(self) -> None:
        k = len(self.capacity)
        self._credit = (np.arange(k) + 0.5) / k
        self._begun = [np.zeros(0)] * k
        self._ends = [np.zeros(0)] * k

    def serve(self, arriving: Floats) -> Window:
        """Take the requests of one second."""
        at_s, shares = self._arrivals(float(arriving.sum())), arriving / arriving.sum()
        now, k = float(self._second), len(self.capacity)
        self._second += 1
        busy, done, latency_s, in_flight = np.zeros(k), np.zeros(k), np.full(k, np.nan), np.zeros(k)
        for j in range(k):
            # Smooth weighted round robin spaces the requests of each server evenly.
            turns = np.floor(self._credit[j] + shares[j] * np.arange(1, len(at_s) + 1))
            begun = at_s[np.flatnonzero(np.diff(turns, prepend=np.floor(self._credit[j])))]
            self._credit[j] = (self._credit[j] + shares[j] * len(at_s)) % 1.0
            took_s = 1.0 / self.capacity[j]
            free = self._ends[j][-1] if len(self._ends[j]) else 0.0
            order = np.arange(len(begun))
            ends = took_s * (order + 1) + np.maximum(np.maximum.accumulate(begun - took_s * order), free)
            # A request in flight keeps its end, although the server may have become slow meanwhile.
            all_begun, all_ends = np.append(self._begun[j], begun), np.append(self._ends[j], ends)
            served = np.minimum(all_ends, now + 1.0) - np.maximum(all_ends - took_s, now)
            busy[j] = min(1.0, np.maximum(served, 0.0).sum())
            ended = all_ends <= now + 1.0
            done[j], in_flight[j] = ended.sum(), (~ended).sum()
            if ended.any():
                each_s = (all_ends - all_begun)[ended]
                latency_s[j] = each_s.mean()
                if now >= SETTLED_FROM_S:
                    self.longest_s = max(self.longest_s, float((each_s - took_s).max()))
            self._begun[j], self._ends[j] = all_begun[~ended], all_ends[~ended]
        return Window(
            utilization=np.column_stack((busy, *(busy * part for part in OTHER_INDICATORS))),
            completed=done,
            failed=np.zeros(k),
            in_flight=in_flight,
            latency_s=latency_s,
        )

    def _arrivals(self, demand: float) -> Floats:
        if self.chance is not None:
            return self._second + np.sort(self.chance.random(self.chance.poisson(demand)))
        first = (1.0 - self._due) / demand
        at_s = np.arange(first, 1.0, 1.0 / demand)
        self._due = (self._due + demand) - len(at_s)
        return self._second + at_s


class Case(NamedTuple):
    """A drawn cluster: capacity of each of four servers, load, the slow one's part of its speed."""

    capacity: float
    load: float
    part: float
    by_chance: bool
    seed: int


class Outcome(NamedTuple):
    """The slow server from second 360 on: its share over what is due, restarts, and the longest wait."""

    case: Case
    low: float
    high: float
    swings: float
    restarts: float
    longest_s: float


def drawn(count: int = DRAWN) -> list[Case]:
    """Return drawn clusters, the same each time."""
    rng = np.random.default_rng(54)
    return [
        Case(
            capacity=float(np.exp(rng.uniform(np.log(10.0), np.log(400.0)))),
            load=float(rng.uniform(0.3, 0.8)),
            part=float(np.exp(rng.uniform(np.log(0.05), np.log(0.5)))),
            by_chance=bool(number % 2),
            seed=number,
        )
        for number in range(count)
    ]


def outcomes(law: laws.Law, cases: Sequence[Case]) -> list[Outcome]:
    """Return what becomes of each case."""
    loops = [
        Loop(
            law=law,
            servers=Queues(
                capacity=np.full(4, case.capacity),
                chance=np.random.default_rng(case.seed) if case.by_chance else None,
            ),
            demand=case.load * case.capacity * (3.0 + case.part),
        )
        for case in cases
    ]
    ticks_at_once(loops, SLOW_FROM_S)
    for loop, case in zip(loops, cases, strict=True):
        loop.servers.capacity = case.capacity * np.array([case.part, 1.0, 1.0, 1.0])
    ticks_at_once(loops, END_S - SLOW_FROM_S)
    return [_outcome(loop, case) for loop, case in zip(loops, cases, strict=True)]


def _outcome(loop: Loop[Queues], case: Case) -> Outcome:
    shares = np.array(loop.shares[SETTLED_FROM_S:])[:, 0] / (case.part / (3.0 + case.part))
    off = (shares > SWINGS) | (shares < 1.0 / SWINGS)
    low, high = np.percentile(shares, (2.5, 97.5))
    restarts = loop.memory().columns["restarts"][0]
    return Outcome(case, float(low), float(high), float(off.mean()), float(restarts), loop.servers.longest_s)


def main() -> None:
    """Print percentiles over the drawn clusters, and how many swing."""
    of_each = outcomes(laws.create(laws.NAMES[0]), drawn())
    names = {
        "low": "share over what is due, lowest 2.5 %",
        "high": "share over what is due, highest 2.5 %",
        "swings": f"part of the seconds with a share {SWINGS:g} times too large or too small",
        "restarts": "restarts of the evidence",
        "longest_s": "longest wait, s",
    }
    print("| the slow server, of 100 clusters: | 10 | 50 | 90 | the worst |\n|---|---:|---:|---:|---:|")
    for name, title in names.items():
        figures = np.array([getattr(each, name) for each in of_each])
        at = (90, 50, 10, 0) if name == "low" else (10, 50, 90, 100)
        print(f"| {title} | " + " | ".join(f"{each:.3g}" for each in np.percentile(figures, at)) + " |")
    print(f"{sum(each.swings > SWINGS_PART for each in of_each)} of {len(of_each)} swing")


if __name__ == "__main__":
    main()
