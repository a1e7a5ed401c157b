"""The scale study: its grid, the simulation at each point, a run's figures, and its page (scale_page.md)."""

import argparse
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
from steelyard_controller.laws.snapshot import Floats
from steelyard_loadtest.reporting.publish import Page
from steelyard_loadtest.templates import render_file
from steelyard_protocol import weight_table, wire

from steelyard_simulator.model import Balancing, Case, Draw, OpenClients, RunResult, Server, Step, Work
from steelyard_simulator.studies import measures
from steelyard_simulator.studies import scale_messages as messages
from steelyard_simulator.studies.measures import Figures, Measures, Runs, misplaced, shares

SPEEDS = (2.0, 3.0, 4.0, 5.0)
"""Speeds of the servers, in turn: hardware of four years, known to the baseline weights."""

# A server of mean speed then does 14 requests a second and gets 10.5, enough for a law to learn from. 10,000
# servers then take 105,000 requests a simulated second and not a million.
WORK_S = 0.25
LOAD = 0.75

# Every tick one server in a hundred becomes slower or faster, equally many of each. So no table is right for
# long, and the total capacity stays the same.
CHANGED_PART, SLOWER, FASTER = 0.01, 0.7, 1.3

# The queues of the start are gone after some ten services; then the same number of ticks is counted.
WARMUP_TICKS, MEASURED_TICKS = 10, 10

# The pace of `share_in_flight` at 2 % of a core: an exchange covers 400 servers, and more take turns.
EXCHANGE_S, ASKED = 0.009, 400

REQUESTS_PER_SERVER_S = LOAD * sum(SPEEDS) / len(SPEEDS) / WORK_S


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ScaleTrial:
    """One point of the scale study. Points sort by size."""

    servers: int
    load_balancers: int
    picker: str
    exchanged: bool = False
    """Whether the load balancers exchange their requests in flight."""
    subset_size: int = 0

    def case(self) -> Case:
        """Return the simulation: servers of four speeds at three quarters of their capacity."""
        ticks = WARMUP_TICKS + MEASURED_TICKS
        speeds = itertools.cycle(SPEEDS)
        return Case(
            servers=tuple(
                Server(speed=speed, baseline=speed, steps=tuple(steps))
                for speed, steps in zip(speeds, _changes(self.servers, ticks), strict=False)
            ),
            clients=OpenClients(rate_per_s=REQUESTS_PER_SERVER_S * self.servers),
            work=Work(cpu=Draw(mean_s=WORK_S, shape="exponential")),
            duration_s=float(ticks),
            warmup_s=float(WARMUP_TICKS),
            balancing=Balancing(law="steelyard", picker=self.picker),
            balancers=self.load_balancers,
            exchange_s=self.exchanged * EXCHANGE_S * math.ceil((self.subset_size or self.servers) / ASKED),
            subset_size=self.subset_size,
        )


def _changes(servers: int, ticks: int) -> list[list[Step]]:
    """Return every server's changes: each tick the next hundredth, four slower and four faster in turn."""
    each = max(1, round(servers * CHANGED_PART))
    changes: list[list[Step]] = [[] for _ in range(servers)]
    for tick in range(1, ticks):
        for one in range(each):
            number = ((tick - 1) * each + one) % servers
            factor = FASTER if number // len(SPEEDS) % 2 else SLOWER
            # In the middle of a tick, so that a window holds both speeds, as in reality.
            changes[number].append(Step(at_s=tick + 0.5, factor=factor))
    return changes


SIZES = (100, 300, 1000, 3000, 10_000)
LOAD_BALANCERS = (1, 4, 16, 64, 256)
QUICK_SIZES, QUICK_LOAD_BALANCERS = (100, 200, 500), (1, 16, 64)

DEFAULT_PICKER, PLAIN_PICKER = "vnswrr2", "vnswrr"

MOST_PLAIN = 1000
"""The plain picker shows that shares follow the weights, and larger sizes only repeat this. With more servers
an exchange takes too many turns to be of use."""

SUBSET = 100
"""Servers of a subset, for sizes of at least twenty subsets."""

LARGEST = 10_000
LARGEST_LOAD_BALANCERS = (1, 16, 256)
"""A run of the largest size takes minutes; the ends and the middle show the curve."""


def trials(sizes: Sequence[int], load_balancers: Sequence[int]) -> list[ScaleTrial]:
    """Return the points of the study, the largest first, so that no core waits for one of them at the end."""
    return [
        ScaleTrial(servers=servers, load_balancers=n, picker=picker, exchanged=exchanged, subset_size=subset)
        for servers in sorted(sizes, reverse=True)
        for n in sorted(load_balancers, reverse=True)
        for picker, exchanged in ((DEFAULT_PICKER, False), (DEFAULT_PICKER, True), (PLAIN_PICKER, False))
        for subset in (0, SUBSET)
        if (servers <= MOST_PLAIN or (picker == DEFAULT_PICKER and (subset or not exchanged)))
        and (not subset or (picker == DEFAULT_PICKER and servers >= 20 * subset and n > 1))
        and (servers < LARGEST or n in LARGEST_LOAD_BALANCERS)
    ]


def seeds_of(trial: ScaleTrial, most: int) -> int:
    """Return the number of seeds of a point: two thirds above 1000 servers, which are a sample themselves."""
    return most if trial.servers <= MOST_PLAIN else min(most, max(2, round(most * 2 / 3)))


def figures_of(case: Case, result: RunResult) -> Figures:
    """Sum up a run from the end of its warm-up.

    published_error   part of the traffic that the published weights send to the wrong server: distance to
                      the true capacities at the moment of publishing
    achieved_error    part of the requests that went elsewhere than the published weights
    random_error      the same for independent random picks by these weights
    moved             part of the traffic that a table moves against its predecessor, a tick
    rows_changed      part of a table's rows whose weight changed in a tick
    rows_changed_5    the same, counting only changes of more than 5 %
    """
    ticks = result.ticks
    after = ticks.t_s > case.warmup_s
    weights = ticks.weights[after]
    picks = ticks.picks[after].sum(axis=0)
    # A table published at the end of a tick applies to the next one, so the last table ruled no counted
    # request.
    ruling = np.flatnonzero(after) - 1
    ruled = ticks.weights[ruling[ruling >= 0]].mean(axis=0)
    return {
        "published_error": misplaced(weights, shares(measures.capacities(case, ticks.t_s[after]))),
        "achieved_error": misplaced(shares(picks.astype(float))[None, :], ruled[None, :]),
        "random_error": measures.expected_of_random(ruled, int(picks.sum())),
        "moved": measures.moved(weights),
        "rows_changed": _changed(weights, 0.0),
        "rows_changed_5": _changed(weights, 0.05),
        "p99_ms": measures.percentile_ms(result, 99),
    }


def _changed(weights: Floats, by_more_than: float) -> float:
    ratio = weights[1:] / weights[:-1]
    # Shares are quotients of integers; a part in 10^9 is rounding.
    return float(np.mean(np.abs(ratio - 1.0) > max(by_more_than, 1e-9)))


def axes(options: argparse.Namespace) -> tuple[Sequence[int], Sequence[int]]:
    """Return the requested numbers of servers and of load balancers."""
    sizes, load_balancers = (QUICK_SIZES, QUICK_LOAD_BALANCERS) if options.quick else (SIZES, LOAD_BALANCERS)
    return options.servers or sizes, options.load_balancers or load_balancers


def page(options: argparse.Namespace, runs: Runs, command: str) -> Page:
    """Return the tables and the limits that follow from them."""
    averages = measures.averaged(runs)
    ours, plain = (_points(averages, picker) for picker in (DEFAULT_PICKER, PLAIN_PICKER))
    random = _span([each["random_error"].mean for each in plain.values()], 1) if plain else "unknown"
    measured = (
        ("Published weights at the wrong server, % of the traffic", ours, "published_error", 100, 1),
        ("Traffic that moves each tick, %", ours, "moved", 100, 1),
        (f"Requests elsewhere than published, %, picker `vnswrr` (independent random picks: {random})",
         plain, "achieved_error", 100, 1),
        ("p99, ms, picker `vnswrr2`", ours, "p99_ms", 1, 0),
        ("p99, ms, picker `vnswrr2`, load balancers share what is in flight, at 2 % of a core each",
         _points(averages, DEFAULT_PICKER, exchanged=True), "p99_ms", 1, 0),
        (f"p99, ms, picker `vnswrr2`, subsets of {SUBSET}",
         _points(averages, DEFAULT_PICKER, subset=SUBSET), "p99_ms", 1, 0),
        (f"p99, ms, picker `vnswrr2`, subsets of {SUBSET}, and what is in flight is shared",
         _points(averages, DEFAULT_PICKER, exchanged=True, subset=SUBSET), "p99_ms", 1, 0),
        ("p99, ms, picker `vnswrr`: the weights alone", plain, "p99_ms", 1, 0),
    )  # fmt: skip
    tables = [
        measures.table_of(title, "servers", measures.texts(points, measure, scale, digits))
        for title, points, measure, scale, digits in measured
        if points
    ]
    sizes, load_balancers = axes(options)
    out_mb_per_s = {
        at: f"{messages.out_of_memcached(*at, REQUESTS_PER_SERVER_S * at[0]) / 1e6:.3g}"
        for at in itertools.product(sizes, load_balancers)
    }
    tables.append(measures.table_of("Out of Memcached, MB/s", "servers", out_mb_per_s))
    whole = messages.most_servers_in_an_item()
    values = {
        "command": command, "tables": tables, "whole": whole,
        "bytes": len(weight_table.to_json(messages.uneven_table(whole))),
        "most_mb": wire.MAX_TABLE_BYTES // wire.MAX_BYTES, "most": messages.most_servers_in_a_table(),
        "full": {
            servers: messages.most_load_balancers(
                servers, REQUESTS_PER_SERVER_S, messages.GIGABIT_BYTES_PER_S
            )
            for servers in sizes
        },
        "changed": [
            _span([each[name].mean for each in ours.values()])
            for name in ("rows_changed", "rows_changed_5")
            if ours
        ],
    }  # fmt: skip
    text = render_file(Path(__file__).with_name("scale_page.md"), values)
    return Page(text=lambda _: text, plots={})


def _points(
    averages: Mapping[ScaleTrial, Measures], picker: str, *, exchanged: bool = False, subset: int = 0
) -> dict[tuple[int, int], Measures]:
    """Return the measures by servers and load balancers, both ascending."""
    return {
        (at.servers, at.load_balancers): its
        for at, its in sorted(averages.items(), key=itemgetter(0))
        if (at.picker, at.exchanged, at.subset_size) == (picker, exchanged, subset)
    }


def _span(parts: Sequence[float], digits: int = 0) -> str:
    low, high = f"{100 * min(parts):.{digits}f}", f"{100 * max(parts):.{digits}f}"
    return f"{low} %" if low == high else f"{low} to {high} %"
