"""Cases of long, expensive, open or unseen requests, and of unseen servers: small closed loops around a law.

Unless noted, there are three equal servers with 250 requests of 4 ms a second. Each case returns its figures
with bounds. The tests check the bounds, and `make law-cases` prints a table.
"""

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from steelyard_controller import laws
from steelyard_controller.laws.snapshot import Floats

from testing.fluid_model import Servers, Window

from .closed_loop import Course, FewRequests, LongRequests, Loop, run_at_once

WARM = 120
"""Ticks after which slow start is over and the evidence is four times its memory."""


class Figure(NamedTuple):
    """A figure of a case, its bounds, and its value under a law without errors."""

    of: str
    found: float
    low: float
    high: float
    truth: float


Figures = list[Figure]
Case = Course[Figures]


def _warm(
    law: laws.Law,
    load: float,
    capacity: tuple[float, ...] = (250.0, 250.0, 250.0),
    **fields: Any,
) -> Course[Loop[Servers]]:
    """Return a loop, with these of its fields, after WARM ticks."""
    servers = Servers(capacity=np.array(capacity))
    loop = Loop(law=law, servers=servers, demand=load * sum(capacity), **fields)
    yield [loop], WARM
    return loop


def idle_open_restart(law: laws.Law) -> Case:
    """2,000 idle connections at each; one server restarts and has none."""
    loop = yield from _warm(law, 0.5, open=np.full(3, 2000.0))
    loop.open = np.array([0.0, 2000.0, 2000.0])
    yield [loop], 60
    return [
        Figure("its share", loop.share(0), 0.32, 0.35, 1 / 3),
        Figure("its largest share", max(each[0] for each in loop.shares[WARM:]), 0.32, 0.4, 1 / 3),
    ]


def unequally_open(law: laws.Law) -> Case:
    """2,500, 2,000 and 1,500 idle connections."""
    loop = yield from _warm(law, 0.5, open=np.array([2500.0, 2000.0, 1500.0]))
    return [Figure("the first's share", loop.share(0), 0.32, 0.35, 1 / 3)]


def reports_stop(law: laws.Law) -> Case:
    """Reports stop, demand falls to a tenth, and a neighbour takes 30 % of one server; then they are back."""
    loop = yield from _warm(law, 0.5)
    loop.reported, loop.demand = False, loop.demand / 10
    loop.servers.taken = np.array([0.3, 0.0, 0.0])
    yield [loop], WARM
    unseen = loop.share(0)
    loop.reported = True
    yield [loop], 160
    return [
        Figure("its share meanwhile", unseen, 0.25, 0.335, 0.7 / 2.7),
        Figure("160 s after they are back", loop.share(0), 0.15, 0.3, 0.7 / 2.7),
    ]


def long_requests(law: laws.Law) -> Case:
    """Requests of 20 s on four servers that do twenty of them at once."""
    loop = Loop(law=law, servers=LongRequests(np.ones(4), np.full(4, 20.0)), demand=2.4)
    yield [loop], 600
    settled = np.array(loop.shares[120:])
    return [
        Figure("the least share", float(settled.min()), 0.18, 0.25, 0.25),
        Figure("the largest share", float(settled.max()), 0.25, 0.32, 0.25),
    ]


def few_expensive_requests(law: laws.Law) -> Case:
    """0.45 requests a second at two servers that do .1 and .8."""
    capacity = np.array([0.1, 0.8])
    loop = Loop(law=law, servers=LongRequests(capacity, 1.0 / capacity), demand=0.45)
    estimates = []
    for _ in range(300):
        (decision,) = yield [loop], 1
        estimates.append(decision.capacity_estimate)
    able = np.median(estimates[60:], axis=0)
    return [
        Figure("the small one's estimate", float(able[0]), 0.05, 0.25, 0.1),
        Figure("the large one's", float(able[1]), 0.6, 1.1, 0.8),
    ]


def few_requests_beside_others(law: laws.Law) -> Case:
    """Ten equal servers with 1 to 100 requests a second, others' load of 10 and 50 %, and lost messages."""
    drawn = itertools.product((1.0, 10.0, 100.0), ((0.1, 0.02), (0.5, 0.05)), (0.0, 0.2), range(2))
    loops = [
        Loop(
            law=law,
            servers=FewRequests(
                k=10, others=others, vary=vary, lost=lost, chance=np.random.default_rng(number)
            ),
            demand=demand,
        )
        for number, (demand, (others, vary), lost, _) in enumerate(drawn)
    ]
    yield loops, 300
    ratios = [float(loop.shares[-1].max() / loop.shares[-1].min()) for loop in loops]
    return [
        Figure("the largest weight over the least", max(ratios), 1.0, 2.5, 1.0),
        Figure("the same in the mean", float(np.mean(ratios)), 1.0, 1.25, 1.0),
    ]


def one_of_two_is_slow(law: laws.Law) -> Case:
    """Two servers, one of them idle and a hundred times as slow."""
    loop = yield from _warm(law, 0.2, (250.0, 250.0), late=np.array([100.0, 1.0]))
    return [Figure("its share", loop.share(0), 0.0, 0.1, 0.05)]


def _when_back(loop: Loop[Servers], low: float = 0.03, high: float = 0.08, truth: float = 0.05) -> Case:
    yield [loop], 1
    back = loop.share(0)
    yield [loop], 30
    return [
        Figure("its share when it is back", back, low, high, truth),
        Figure("30 s later", loop.share(0), 0.32, 0.35, 1 / 3),
    ]


def away(law: laws.Law) -> Case:
    """Away for 20 s: no requests, no samples."""
    loop = yield from _warm(law, 0.5)
    loop.away, loop.sampled = np.array([True, False, False]), np.array([False, True, True])
    yield [loop], 20
    loop.away, loop.sampled = np.zeros(3, dtype=np.bool_), np.ones(3, dtype=np.bool_)
    return (yield from _when_back(loop, 0.05, 0.2, 0.15))


def ejected(law: laws.Law) -> Case:
    """Ejected by the load balancers for 300 s, its agent alive."""
    loop = yield from _warm(law, 0.5)
    loop.away = np.array([True, False, False])
    yield [loop], 300
    loop.away = np.zeros(3, dtype=np.bool_)
    return (yield from _when_back(loop))


def restarted_within_a_tick(law: laws.Law) -> Case:
    """Restarted too quickly to be missed: no sample is late and no request fails."""
    loop = yield from _warm(law, 0.5, up_s=np.full(3, 1000.0))
    loop.up_s = np.array([0.4, 1000.0, 1000.0])
    return (yield from _when_back(loop))


def another_server(law: laws.Law) -> Case:
    """Another server takes an address, ten times as fast or as slow: with its age, and without an agent."""
    factors = {"a faster one": 10.0, "a slower one": 0.1}
    said: dict[str, Any] = {
        "its age is reported": {"up_s": np.full(4, 1000.0)},
        "it has no agent": {"sampled": np.array([False, True, True, True])},
    }
    chosen = list(itertools.product(factors, said))
    loops = [
        Loop(law=law, servers=Servers(capacity=np.full(4, 250.0)), demand=300.0, **said[how])
        for _, how in chosen
    ]
    yield loops, WARM
    for (factor, _), loop in zip(chosen, loops, strict=True):
        loop.servers.capacity = np.array([250.0 * factors[factor], 250.0, 250.0, 250.0])
        loop.up_s = loop.up_s * np.array([0.0, 1.0, 1.0, 1.0])
    ratios = []
    for _ in range(10):
        decisions = yield loops, 1
        able = [decision.capacity_estimate[0] for decision in decisions]
        ratios.append([one / loop.servers.capacity[0] for one, loop in zip(able, loops, strict=True)])
    figures: Figures = []
    for (factor, how), of_one in zip(chosen, np.array(ratios).T.tolist(), strict=True):
        furthest = max(of_one[2:], key=lambda ratio: max(ratio, 1.0 / ratio))
        title = f"{factor}, {how}: estimate over the truth, the furthest after 3 to 10 s"
        figures.append(Figure(title, furthest, 0.6, 1.6, 1.0))
    return figures


def no_agents_among_agents(law: laws.Law) -> Case:
    """Six servers, 1 : 2 : 4 twice, of which three have no agent."""
    loop = yield from _warm(law, 0.6, (100.0, 200.0, 400.0) * 2, sampled=np.repeat([False, True], 3))
    yield [loop], 60
    parts = {"small": 1 / 14, "middle": 1 / 7, "large": 2 / 7}
    return [
        Figure(f"share of the {size} one without an agent", loop.share(j), 0.8 * due, 1.25 * due, due)
        for j, (size, due) in enumerate(parts.items())
    ]


def expensive_requests_at_one(law: laws.Law) -> Case:
    """One server gets requests of four times the cost for a while (sessions): reported, and not reported."""
    told = yield from _warm(law, 0.2, (62.5, 250.0, 250.0), cost=np.array([4.0, 1.0, 1.0]))
    untold = yield from _warm(law, 0.2, (62.5, 250.0, 250.0), cost=np.full(3, np.nan))
    return [
        Figure("its share where costs are told", told.share(0), 0.32, 0.35, 1 / 3),
        Figure("and where not", untold.share(0), 0.1, 0.2, 1 / 3),
    ]


def neighbour_before_the_first_request(law: laws.Law) -> Case:
    """No request yet, and one server full of somebody else's work for 20 s."""
    servers = Servers(capacity=np.full(3, 250.0), taken=np.array([1.0, 0.0, 0.0]))
    loop = Loop(law=law, servers=servers, demand=0.0)
    yield [loop], 20
    return [Figure("its share", loop.share(0), 0.0, 0.06, 0.0)]


@dataclass(slots=True, kw_only=True)
class _Miscounted(Servers):
    """With a queue, requests in flight are counted a moment before or after those that ended."""

    off: float = 5.0

    def serve(self, arriving: Floats) -> Window:
        window = Servers.serve(self, arriving)
        self.off = -self.off
        off = np.where(self.queue > abs(self.off), self.off, 0.0)
        return replace(window, in_flight=window.in_flight + off)


@dataclass(slots=True, kw_only=True)
class _RoundRobin(Servers):
    """Behind a plain nginx upstream with equal servers: requests are counted when they end, not before.

    Requests of the queue have waited since the arrival of the last one.
    """

    waited_s: Floats = field(default_factory=lambda: np.zeros(1))

    def serve(self, arriving: Floats) -> Window:
        window = Servers.serve(self, np.full(len(arriving), arriving.mean()))
        self.waited_s = np.where(
            arriving.any(), window.latency_s, np.maximum(window.latency_s, self.waited_s)
        )
        return replace(window, in_flight=np.zeros(len(arriving)), latency_s=self.waited_s)


def a_queue_outlives_the_traffic(law: laws.Law) -> Case:
    """Traffic ends, and one server works off its queue long after the others are done."""
    loop = Loop(law=law, servers=_Miscounted(capacity=np.full(3, 250.0)), demand=375.0)
    yield [loop], WARM
    loop.demand *= 2.6
    yield [loop], 10
    loop.demand, loop.servers.taken = 0.0, np.array([0.9, 0.0, 0.0])
    (decision,) = yield [loop], 25
    return [Figure("the others' slow start", float(decision.columns["join"][1:].min()), 1.0, 1.0, 1.0)]


def an_uncounted_queue(law: laws.Law) -> Case:
    """The same behind nginx's own balancing: weights are not followed, and requests in flight not counted."""
    loop = Loop(law=law, servers=_RoundRobin(capacity=np.array([250.0, 250.0, 600.0])), demand=600.0)
    yield [loop], WARM
    loop.servers.taken = np.array([0.9, 0.0, 0.0])
    yield [loop], 20
    loop.demand, loop.servers.taken = 0.0, np.zeros(3)
    (decision,) = yield [loop], 25
    return [Figure("the others' slow start", float(decision.columns["join"][1:].min()), 1.0, 1.0, 1.0)]


def a_quiet_night(law: laws.Law) -> Case:
    """Speeds of 4 : 1, ten quiet minutes, and then the day's load."""
    loop = yield from _warm(law, 0.5, (400.0, 100.0))
    day, loop.demand = loop.demand, 0.0
    yield [loop], 600
    loop.demand = day
    quiet = loop.share(1)
    yield [loop], 1
    return [
        Figure("the slow one's share", quiet, 0.18, 0.22, 0.2),
        Figure("its queue, s", float(loop.servers.queue[1]) / 100.0, 0.0, 0.05, 0.0),
    ]


SIZES = (100.0, 200.0, 300.0)
"""Servers beside neighbours, in requests a second."""


def fixed_appetite(law: laws.Law) -> Case:
    """A neighbour always takes half of the second of three servers (1 : 2 : 3), for 300 s."""
    loop = yield from _warm(law, 0.3, SIZES)
    loop.servers.taken = np.array([0.0, 0.5, 0.0])
    yield [loop], 300
    return [Figure("its share", loop.share(1), 0.16, 0.24, 0.2)]


def fixed_appetite_by_chance(law: laws.Law) -> Case:
    """The same with Poisson arrivals."""

    @dataclass(slots=True, kw_only=True)
    class Scattered(Servers):
        def serve(self, arriving: Floats) -> Window:
            return Servers.serve(self, chance.poisson(arriving).astype(float))

    chance = np.random.default_rng(30)
    loop = Loop(law=law, servers=Scattered(capacity=np.array(SIZES)), demand=0.3 * sum(SIZES))
    yield [loop], WARM
    loop.servers.taken = np.array([0.0, 0.5, 0.0])
    yield [loop], 300
    of_one = np.array(loop.shares)[:, 1]
    return [
        Figure("its mean share in the first minute", float(of_one[WARM : WARM + 60].mean()), 0.16, 0.24, 0.2),
        Figure("and in the last", float(of_one[-60:].mean()), 0.16, 0.24, 0.2),
    ]


def fixed_appetites(law: laws.Law) -> Case:
    """The same at loads of .3, .6 and .8, neighbours that take .3, .5 and .7 of one server, or of two."""
    return (yield from _least_of_what_is_due(law, ((0.0, 1.0, 0.0), (1.0, 1.0, 0.0)), shared=False))


def shared_appetites(law: laws.Law) -> Case:
    """The same at one server, whose CPU is shared: neighbours give way down to a half."""
    return (yield from _least_of_what_is_due(law, ((0.0, 1.0, 0.0),), shared=True))


def _least_of_what_is_due(law: laws.Law, neighbours: tuple[tuple[float, ...], ...], *, shared: bool) -> Case:
    """Return the least part of the right share beside neighbours, and the longest queue."""
    cases = list(itertools.product(neighbours, (0.3, 0.5, 0.7), (0.3, 0.6, 0.8)))
    all_taken = [take * np.array(at) for at, take, _ in cases]
    all_left = [np.array(SIZES) * (1.0 - taken) for taken in all_taken]
    loops = [
        Loop(law=law, servers=Servers(capacity=np.array(SIZES), shared=shared), demand=load * left.sum())
        for (_, _, load), left in zip(cases, all_left, strict=True)
    ]
    yield loops, WARM
    for loop, taken in zip(loops, all_taken, strict=True):
        loop.servers.taken = taken
    queues_s = []
    for _ in range(15):
        yield loops, 10
        queues_s += [float((loop.servers.queue / SIZES).max()) for loop in loops]
    parts = [float(loop.share(1) * left.sum() / left[1]) for loop, left in zip(loops, all_left, strict=True)]
    return [
        Figure("the least part of what is due", min(parts), 0.8, 1.3, 1.0),
        Figure("the longest queue, s", max(queues_s), 0.0, 0.1, 0.0),
    ]


def comes_and_goes(law: laws.Law) -> Case:
    """A neighbour takes half of the second of three servers for 20 s, and leaves it for 20 s; eight times."""
    loop = yield from _warm(law, 0.3, SIZES)
    for _ in range(8):
        for taken in (0.5, 0.0):
            loop.servers.taken = np.array([0.0, taken, 0.0])
            yield [loop], 20
    # Each stretch counts after its first five seconds.
    of_one = np.array(loop.shares[WARM:])[:, 1].reshape(8, 2, 20)[..., 5:].mean(axis=(0, 2))
    return [
        Figure("its mean share meanwhile", float(of_one[0]), 0.16, 0.24, 0.2),
        Figure("and between", float(of_one[1]), 0.31, 0.35, 1 / 3),
    ]


CASES: tuple[Callable[[laws.Law], Case], ...] = (
    *(
        idle_open_restart,
        unequally_open,
        reports_stop,
        long_requests,
        few_expensive_requests,
        few_requests_beside_others,
        one_of_two_is_slow,
    ),
    *(away, ejected, restarted_within_a_tick, expensive_requests_at_one, neighbour_before_the_first_request),
    *(another_server, no_agents_among_agents),
    *(a_queue_outlives_the_traffic, an_uncounted_queue, a_quiet_night, fixed_appetite),
    *(fixed_appetite_by_chance, fixed_appetites, shared_appetites, comes_and_goes),
)


def main() -> int:
    """Print a row for each figure; the exit status is 1 if one is out of its bounds."""
    law, met = laws.create(laws.NAMES[0]), True
    print("| case | of what | figure | in truth | bounds |\n|---|---|---:|---:|---|")
    for case, figures in zip(CASES, run_at_once([case(law) for case in CASES]), strict=True):
        for of, found, low, high, truth in figures:
            within = low <= found <= high
            met &= within
            print(
                f"| {(case.__doc__ or '').rstrip('.')} | {of} | {found:.3g} | {truth:.3g} "
                f"| {low:g} to {high:g}{'' if within else ': **missed**'} |"
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
