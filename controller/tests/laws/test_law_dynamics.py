"""Step responses in the fluid model: one server of four loses half its capacity, and gets it back.

The tests assert the figures of docs/research/law.md. `UNDERSHOOT` has those of the one target that the
published weight misses.
"""

from collections.abc import Generator, Mapping, Sequence
from functools import cache

import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import Floats, Snapshot

from testing.fluid_model import Servers, closed_loop, decisions, decisions_at_once

from .snapshots import snapshot

LOADS = (0.4, 0.6, 0.75, 0.9)
"""Load of the capacity that remains after one of four servers has lost half of its own."""

LATE = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 0), (2, 0))
"""Ticks by which samples and reports are late."""

BREAKS, MENDED, END = 60, 160, 260
SETTLED = 10
OVERSHOOT = 0.10
PEAK_TO_PEAK = 0.05

# Undershoot of the slowed server's weight below its target, in parts of the step, while its backlog is worked
# off (step 8). At load 0.4 there is none. Measured; see docs/research/law.md.
UNDERSHOOT = {0.4: 0.0, 0.6: 0.03, 0.75: 0.454, 0.9: 0.656}

Case = tuple[float, tuple[int, int]]
ALL_CASES: Sequence[Case] = [(load, late) for load in LOADS for late in LATE]

LASTED = (20, 40)
"""Seconds after which a server may have its capacity back."""

# Load beside a neighbour, and the least part of its right share that the server keeps.
NEIGHBOURS = {0.5: 0.35, 0.7: 0.6, 0.85: 0.75}

FAILING_CASES: Sequence[Case] = [(load, late) for load in (0.4, 0.75) for late in ((0, 0), (1, 1), (2, 2))]

every_case = pytest.mark.parametrize(("load", "late"), ALL_CASES, ids=str)


# The topic of a course, the load, and ticks by which samples and reports are late.
Key = tuple[str, float, tuple[int, int]]


@cache
def courses() -> Mapping[Key, Sequence[Decision]]:
    """Return the decisions of the default law in all courses, which step at once."""
    loops = {
        **{("responds", *case): losing_half(*case) for case in ALL_CASES},
        **{
            (f"recovers after {lasted}", *case): losing_half(
                *case, mended=BREAKS + lasted, end=BREAKS + lasted + 60
            )
            for case in ALL_CASES
            for lasted in LASTED
        },
        **{("beside a neighbour", load, (0, 0)): beside_a_neighbour(load) for load in NEIGHBOURS},
        **{("fails", *case): failing(*case) for case in FAILING_CASES},
        ("fades", 1.0, (0, 0)): fading(),
    }
    return dict(zip(loops, decisions_at_once(laws.create("steelyard"), [*loops.values()]), strict=True))


def losing_half(
    load: float, late: tuple[int, int], mended: int = MENDED, end: int = END
) -> Generator[Snapshot, Decision, None]:
    """Return four servers, of which server 0 loses half its capacity, and gets it back."""

    def event(tick: int, servers: Servers) -> None:
        if tick == BREAKS:
            servers.capacity = np.array([200.0, 400.0, 400.0, 400.0])
        if tick == mended:
            servers.capacity = np.full(4, 400.0)

    return closed_loop(
        Servers(capacity=np.full(4, 400.0)),
        ticks=end,
        demand=lambda _tick: load * 1400.0,
        late_samples=late[0],
        late_reports=late[1],
        event=event,
    )


def beside_a_neighbour(load: float) -> Generator[Snapshot, Decision, None]:
    """Return four servers; a neighbour takes half of server 0 for three minutes."""

    def event(tick: int, now: Servers) -> None:
        if tick in (60, 240):
            now.taken = np.array([0.5 if tick == 60 else 0.0, 0, 0, 0])

    return closed_loop(
        Servers(capacity=np.full(4, 400.0)), ticks=260, demand=lambda _tick: load * 1400.0, event=event
    )


def failing(load: float, late: tuple[int, int]) -> Generator[Snapshot, Decision, None]:
    """Return four servers, of which server 0 fails at once, from tick 60 to tick 160."""

    def event(tick: int, servers: Servers) -> None:
        if tick in (60, 160):
            servers.failing = np.array([1.0 if tick == 60 else 0.0, 0, 0, 0])

    return closed_loop(
        Servers(capacity=np.full(4, 400.0)),
        ticks=260,
        demand=lambda _tick: load * 1600.0,
        late_samples=late[0],
        late_reports=late[1],
        event=event,
    )


def fading() -> Generator[Snapshot, Decision, None]:
    """Return four servers whose traffic fades from tick 100 to tick 300, and ends."""
    return closed_loop(
        Servers(capacity=np.full(4, 400.0)),
        ticks=450,
        demand=lambda tick: 1000.0 * max(0.0, 1.0 - max(0, tick - 100) / 200),
        baseline=(400, 200, 200, 200),
    )


def response(load: float, late: tuple[int, int]) -> Sequence[Decision]:
    """Return the decisions while a server loses half its capacity, and gets it back."""
    return courses()["responds", load, late]


def shares(run: Sequence[Decision], what: str) -> Floats:
    """Return server 0's share in the weights or in the estimates, by tick."""
    if what == "weights":
        return np.array([each.weights[0] / each.total for each in run])
    return np.array([each.capacity_estimate[0] / each.capacity_estimate.sum() for each in run])


def settling(share: Floats, target: float) -> int:
    """Return after how many ticks the share stays within 5 % of the target."""
    outside = np.flatnonzero(np.abs(share / target - 1) > 0.05)
    return int(outside[-1]) + 1 if len(outside) else 0


def overshoot(share: Floats, before: float, target: float) -> float:
    """Return the overshoot of the share beyond the target, in parts of the step."""
    return float(np.max((target - share) / (before - target), initial=0.0))


@every_case
@pytest.mark.parametrize("what", ["weights", "estimates"])
def test_a_loss_settles_within_10_ticks(load: float, late: tuple[int, int], what: str) -> None:
    assert settling(shares(response(load, late), what)[BREAKS:MENDED], 1 / 7) <= SETTLED


@every_case
@pytest.mark.parametrize("what", ["weights", "estimates"])
def test_a_gain_settles_within_10_ticks(load: float, late: tuple[int, int], what: str) -> None:
    assert settling(shares(response(load, late), what)[MENDED:], 1 / 4) <= SETTLED


@every_case
@pytest.mark.parametrize("lasted", LASTED)
def test_a_server_that_soon_recovers_is_detected(load: float, late: tuple[int, int], lasted: int) -> None:
    back = BREAKS + lasted
    share = shares(courses()[f"recovers after {lasted}", load, late], "weights")
    # Within five ticks it has four fifths of its right share, whatever was learnt from its loss.
    assert (share[back + 5 + max(late) :] > 0.8 * 0.25).all()


@pytest.mark.parametrize("load", NEIGHBOURS)
def test_a_neighbour_with_a_fixed_appetite_does_not_starve_its_server(load: float) -> None:
    share = shares(courses()["beside a neighbour", load, (0, 0)], "weights")
    assert share[70:240].min() > NEIGHBOURS[load] / 7
    assert share[240:].max() <= 1.1 / 4
    assert share[245:].min() > 0.8 / 4


@every_case
def test_the_estimate_does_not_overshoot(load: float, late: tuple[int, int]) -> None:
    share = shares(response(load, late), "estimates")
    assert overshoot(share[BREAKS:MENDED], 1 / 4, 1 / 7) <= OVERSHOOT
    assert overshoot(share[MENDED:], 1 / 7, 1 / 4) <= OVERSHOOT


@every_case
def test_the_weight_does_not_overshoot_without_a_backlog(load: float, late: tuple[int, int]) -> None:
    share = shares(response(load, late), "weights")
    assert overshoot(share[MENDED:], 1 / 7, 1 / 4) <= OVERSHOOT
    if load == 0.4:
        assert overshoot(share[BREAKS:MENDED], 1 / 4, 1 / 7) <= OVERSHOOT


@every_case
def test_below_its_target_the_weight_is_only_while_a_backlog_is_worked_off(
    load: float, late: tuple[int, int]
) -> None:
    run = response(load, late)[BREAKS:MENDED]
    share = shares(run, "weights")
    undershoot = (1 / 7 - share) / (1 / 4 - 1 / 7)
    assert undershoot.max() <= UNDERSHOOT[load] + 0.005
    backlog_s = np.array([each.columns["backlog_s"][0] - each.columns["mean_backlog_s"][0] for each in run])
    assert (backlog_s[undershoot > OVERSHOOT] > 0.03).all()
    # Only the factors make the difference: without them the weight is the estimate.
    taken_off = np.array([(each.columns["backlog"] * each.columns["slow"]).tolist() for each in run])
    weights = np.array([each.weights for each in run]) / taken_off
    assert overshoot(weights[:, 0] / weights.sum(axis=1), 1 / 4, 1 / 7) <= OVERSHOOT


@every_case
def test_the_slowness_guard_takes_no_fresh_queue_for_a_fault(load: float, late: tuple[int, int]) -> None:
    # It judges by the load of the window or of the last five seconds, whichever is more.
    if late[0] <= late[1]:
        slow = [each.columns["slow"][0] for each in response(load, late)[BREAKS:MENDED]]
        assert min(slow) > 0.99


@every_case
def test_no_other_server_gets_much_more_than_its_share_meanwhile(load: float, late: tuple[int, int]) -> None:
    run = response(load, late)
    others = np.array([each.weights[1:].max() / each.total for each in run])
    # In parts of their own share; above 0.10 only at load 0.75 and 0.9 with late reports.
    assert others.max() <= (1 + 0.116) * 2 / 7


@every_case
def test_there_is_no_sustained_oscillation(load: float, late: tuple[int, int]) -> None:
    share = shares(response(load, late), "weights")
    for tail in (share[MENDED - 60 : MENDED], share[END - 60 :]):
        assert np.ptp(tail) / tail.mean() <= PEAK_TO_PEAK


@pytest.mark.parametrize("load", LOADS)
def test_queues_are_empty_again(load: float) -> None:
    assert response(load, (2, 2))[MENDED - 1].columns["backlog_s"].max() < 0.01


def test_capacities_are_remembered_as_traffic_fades() -> None:
    share = shares(courses()["fades", 1.0, (0, 0)], "weights")
    assert share[100] == pytest.approx(0.25, rel=0.01)
    assert share[100:] == pytest.approx(0.25, rel=0.01)


@pytest.mark.parametrize(("load", "late"), FAILING_CASES, ids=str)
def test_a_server_that_fails_fast_ends_at_the_floor_and_comes_back(
    load: float, late: tuple[int, int]
) -> None:
    run = courses()["fails", load, late]
    share = shares(run, "weights")
    # It is idle and answers at once: a law by load alone would give it everything.
    assert (np.diff(share[64:120]) <= 0).all()
    assert run[159].columns["clamp_floor"].tolist() == [1, 0, 0, 0]
    assert share[159] == pytest.approx(0.02 / 4, rel=0.05)
    assert share[200] > 0.9 * 0.25
    assert share[-1] == pytest.approx(0.25, rel=0.001)


def test_200_random_ticks_keep_every_invariant() -> None:
    rng = np.random.default_rng(7)
    ids = tuple(f"p{j}" for j in range(8))
    running = {name: laws.create(name) for name in laws.NAMES}
    memories = {name: law.start() for name, law in running.items()}
    for tick in range(200):
        present = [peer for peer in ids if rng.random() < 0.9] or ["p0"]
        rng.shuffle(present)
        k = len(present)
        blind = rng.random((k, 4)) < 0.1
        table = np.where(blind, np.nan, np.minimum(rng.exponential(0.5, (k, 4)), 64.0))
        silent, quiet = rng.random(k) < 0.2, rng.random() < 0.1
        rows = [None if silent[j] else [None if np.isnan(u) else u for u in table[j]] for j in range(k)]
        now = snapshot(
            ids=present,
            t_s=float(tick),
            utilization=rows,
            completed=None if quiet else rng.poisson(50, k).tolist(),
            failed=rng.poisson(5, k).tolist(),
            in_flight=rng.poisson(20, k).tolist(),
            latency_s=rng.exponential(0.1, k).tolist(),
            sample_age_ticks=rng.integers(0, 10, k).tolist(),
            report_age_ticks=int(rng.integers(0, 3)),
            leaving=[peer for peer in present if rng.random() < 0.05],
            eligible=[peer for peer in present if rng.random() < 0.9],
            pinned=[float(rng.integers(1, 300)) if rng.random() < 0.05 else None for _ in present],
        )
        for name, law in running.items():
            memories[name], decision = law.step(memories[name], now)
            assert decision.ids == tuple(present)
            assert decision.weights.sum() == pytest.approx(decision.total)
            assert decision.weights.min() > 0
            assert decision.published.min() >= 1
            assert decision.published.sum() == decision.total
            assert decision.entropy_weights.sum() == pytest.approx(1)
            assert laws.decode_memory(law, laws.encode_memory(name, memories[name])) is not None


# The law of the paper, as printed. With every indicator alike and every node below H, eqs 6-8 are
# share' = (1 - load k share) / sum, whose eigenvalue is -load/(1 - load): stable below half load only.


def disturbed_paper(load: float) -> Floats:
    """Return server 0's share under the law `paper` after a tick of a tenth less capacity at tick 10."""

    def event(tick: int, servers: Servers) -> None:
        servers.capacity = np.array([360.0 if tick == 10 else 400.0, 400.0, 400.0, 400.0])

    loop = closed_loop(
        Servers(capacity=np.full(4, 400.0), others=np.ones(3)),
        ticks=100,
        demand=lambda _tick: load * 1600.0,
        event=event,
    )
    run = decisions(laws.create("paper", {"H": 0.99, "L": 1.0}), loop)
    return shares(list(run), "weights")


@pytest.mark.parametrize("load", [0.3, 0.4])
def test_the_papers_law_calms_down_below_half_load(load: float) -> None:
    share = disturbed_paper(load)
    assert (share[11] - 0.25) / (share[10] - 0.25) == pytest.approx(-load / (1 - load), rel=0.05)
    assert np.ptp(share[-20:]) / 0.25 < 0.01


@pytest.mark.parametrize("load", [0.55, 0.6, 0.75, 0.9])
def test_the_papers_law_oscillates_above_half_load(load: float) -> None:
    share = disturbed_paper(load)
    assert np.ptp(share[-20:]) / 0.25 > 1.0


@pytest.mark.parametrize("load", [0.6, 0.75, 0.9])
def test_the_papers_law_oscillates_when_one_server_loses_half_its_capacity(load: float) -> None:
    def event(tick: int, servers: Servers) -> None:
        if tick == BREAKS:
            servers.capacity = np.array([200.0, 400.0, 400.0, 400.0])

    loop = closed_loop(
        Servers(capacity=np.full(4, 400.0)), ticks=MENDED, demand=lambda _tick: load * 1400.0, event=event
    )
    tail = shares(list(decisions(laws.create("paper", {"H": 0.7}), loop)), "weights")[-40:]
    assert np.ptp(tail) / tail.mean() > 0.5


@pytest.mark.parametrize("load", LOADS)
def test_the_papers_law_never_acts_at_its_own_threshold(load: float) -> None:
    def event(tick: int, servers: Servers) -> None:
        if tick in (BREAKS, MENDED):
            servers.capacity = np.array([200.0 if tick == BREAKS else 400.0, 400.0, 400.0, 400.0])

    loop = closed_loop(
        Servers(capacity=np.full(4, 400.0)), ticks=END, demand=lambda _tick: load * 1400.0, event=event
    )
    run = list(decisions(laws.create("paper"), loop))
    assert not any(each.alert for each in run)
    assert np.ptp(shares(run, "weights")) < 1e-12
