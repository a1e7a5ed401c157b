"""The throttle's arithmetic: when the tree runs and stands still, and what that comes to in the long run."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steelyard_loadtest.server.budget import SHORTEST_RUN_S, SLOT_S, full, next_step


def test_a_bucket_holds_one_slot_of_the_limit() -> None:
    assert full(0.15) == pytest.approx(0.003)


def test_an_idle_tree_runs_on_and_saves_no_more_than_a_full_bucket() -> None:
    step = next_step(limit_cores=0.2, balance_s=full(0.2), used_s=0, elapsed_s=60, processes=1)
    assert (step.run, step.wait_s, step.balance_s) == (True, SLOT_S / 2, full(0.2))


def test_a_tree_that_used_its_bucket_up_stands_still_until_it_is_full_again() -> None:
    step = next_step(limit_cores=0.2, balance_s=0.004, used_s=0.004, elapsed_s=0, processes=1)
    assert (step.run, step.balance_s) == (False, 0)
    assert step.wait_s == pytest.approx(SLOT_S)


def test_what_a_slot_overran_is_stood_still_for_as_well() -> None:
    step = next_step(limit_cores=0.2, balance_s=0.004, used_s=0.024, elapsed_s=0, processes=1)
    assert step.balance_s == pytest.approx(-0.020)
    assert step.wait_s == pytest.approx(0.024 / 0.2)


def test_a_full_bucket_is_run_down_by_one_busy_process_in_its_own_length() -> None:
    step = next_step(limit_cores=0.2, balance_s=0, used_s=0.004, elapsed_s=0.04, processes=1)
    assert (step.run, step.wait_s) == (True, SLOT_S / 2)  # it used less than it might: no need to hurry
    step = next_step(limit_cores=0.5, balance_s=full(0.5), used_s=0.002, elapsed_s=0.002, processes=1)
    assert step.run
    assert step.wait_s == pytest.approx(full(0.5) - 0.001)


def test_many_processes_empty_the_bucket_sooner_but_are_given_the_shortest_run() -> None:
    def wait_s(processes: int) -> float:
        return next_step(
            limit_cores=0.5, balance_s=full(0.5), used_s=0.002, elapsed_s=0.002, processes=processes
        ).wait_s

    assert wait_s(3) == pytest.approx(wait_s(1) / 3)
    assert wait_s(100) == SHORTEST_RUN_S
    assert wait_s(0) == wait_s(1)


def throttled(limit_cores: float, busy_cores: float, processes: int, late_s: Sequence[float]) -> list[bool]:
    """Play a tree that uses busy_cores whenever it may, under a timer that is late; check the share.

    Return whether it ran, step by step.
    """
    balance_s, used_s, elapsed_s = full(limit_cores), 0.0, 0.0
    all_used_s, all_elapsed_s, longest_run_s = 0.0, 0.0, 0.0
    ran = []
    for lateness_s in late_s:
        step = next_step(
            limit_cores=limit_cores,
            balance_s=balance_s,
            used_s=used_s,
            elapsed_s=elapsed_s,
            processes=processes,
        )
        ran.append(step.run)
        balance_s, elapsed_s = step.balance_s, step.wait_s + lateness_s
        used_s = elapsed_s * busy_cores if step.run else 0.0
        all_used_s += used_s
        all_elapsed_s += elapsed_s
        longest_run_s = max(longest_run_s, elapsed_s if step.run else 0.0)
        # What may be over at any moment: one bucket saved up, and one run that the timer ended too late.
        over_s = all_used_s - limit_cores * all_elapsed_s
        assert over_s <= full(limit_cores) + longest_run_s * busy_cores + 1e-9
    return ran


UNHURRIED = settings(deadline=None)  # hundreds of steps an example, on whatever machine this is
LIMITS = st.floats(0.05, 2.0)
LATE = st.lists(st.floats(0, 0.05), min_size=1, max_size=200)


@UNHURRIED
@given(limit=LIMITS, busy=st.floats(0, 8), processes=st.integers(1, 9), late_s=LATE)
def test_the_share_never_exceeds_the_limit_by_more_than_a_bucket_and_a_run(
    limit: float, busy: float, processes: int, late_s: list[float]
) -> None:
    throttled(limit, busy, processes, late_s)


@UNHURRIED
@given(limit=LIMITS, busy=st.floats(0, 8), processes=st.integers(1, 9), late_s=LATE)
def test_the_tree_never_starves_a_standstill_is_always_followed_by_a_run(
    limit: float, busy: float, processes: int, late_s: list[float]
) -> None:
    ran = throttled(limit, busy, processes, late_s)
    assert ran[0]
    assert all(earlier or later for earlier, later in pairwise(ran))


@UNHURRIED
@given(limit=LIMITS, part=st.floats(0, 0.99), late_s=LATE)
def test_a_tree_below_its_limit_is_never_stopped(limit: float, part: float, late_s: list[float]) -> None:
    assert all(throttled(limit, limit * part, 1, late_s))


@UNHURRIED
@given(limit=st.floats(0.05, 0.9), processes=st.integers(1, 4))
def test_a_busy_tree_gets_all_of_its_limit(limit: float, processes: int) -> None:
    balance_s, used_s, elapsed_s, all_used_s, all_elapsed_s = full(limit), 0.0, 0.0, 0.0, 0.0
    while all_elapsed_s < 20:
        step = next_step(
            limit_cores=limit, balance_s=balance_s, used_s=used_s, elapsed_s=elapsed_s, processes=processes
        )
        balance_s, elapsed_s = step.balance_s, step.wait_s
        used_s = elapsed_s * processes if step.run else 0.0
        all_used_s += used_s
        all_elapsed_s += elapsed_s
    # Over are at most the bucket that it began with and one run; under it is never, with a timer in time.
    over_s = all_used_s - limit * all_elapsed_s
    assert -1e-6 <= over_s <= full(limit) + SLOT_S / 2 * processes


@given(
    limit=LIMITS,
    balance=st.floats(-10, 10),
    used=st.floats(0, 10),
    elapsed=st.floats(0, 10),
    processes=st.integers(0, 9),
)
def test_every_step_takes_time(
    limit: float, balance: float, used: float, elapsed: float, processes: int
) -> None:
    step = next_step(
        limit_cores=limit, balance_s=balance, used_s=used, elapsed_s=elapsed, processes=processes
    )
    assert step.wait_s >= SHORTEST_RUN_S
    assert step.balance_s <= full(limit)
