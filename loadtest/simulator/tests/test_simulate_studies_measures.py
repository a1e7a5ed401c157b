"""Distances of shares: misplaced traffic, moved traffic, and swing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_simulator.studies.measures import expected_of_random, misplaced, moved, shares, swing

FIGURES = st.lists(st.floats(0.01, 100), min_size=4, max_size=4)


def test_misplaced_is_the_part_that_must_go_elsewhere() -> None:
    # The second server gets 10 points too many, the third too few.
    given_shares = np.array([[0.5, 0.4, 0.1]])
    assert misplaced(given_shares, np.array([[0.5, 0.3, 0.2]])) == pytest.approx(0.1)


@given(FIGURES, FIGURES)
def test_misplaced_is_within_0_and_1_and_the_same_both_ways(one: list[float], other: list[float]) -> None:
    p, q = shares(np.array([one])), shares(np.array([other]))
    assert 0.0 <= misplaced(p, q) <= 1.0
    assert misplaced(p, q) == pytest.approx(misplaced(q, p))
    assert misplaced(p, p) == 0.0


def test_a_row_of_nothing_has_no_shares() -> None:
    assert np.isnan(shares(np.array([[0.0, 0.0], [1.0, 3.0]]))).tolist() == [[True, True], [False, False]]


def test_moved_is_the_mean_step_between_ticks() -> None:
    assert moved(np.array([[0.5, 0.5], [0.6, 0.4], [0.6, 0.4]])) == pytest.approx(0.05)
    assert math.isnan(moved(np.array([[1.0]])))


def test_swing_of_a_sine_is_its_amplitude() -> None:
    phase = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    table = np.column_stack([0.5 + 0.2 * np.sin(phase), 0.5 - 0.2 * np.sin(phase)])
    assert swing(table) == pytest.approx(0.2)


def test_shares_that_stand_still_do_not_swing() -> None:
    assert swing(np.tile([0.3, 0.7], (50, 1))) == pytest.approx(0.0, abs=1e-12)


def test_expected_of_random_is_what_multinomial_counts_miss() -> None:
    wanted = np.array([0.1, 0.2, 0.3, 0.4])
    counts = np.random.default_rng(1).multinomial(500, wanted, size=4000)
    assert misplaced(shares(counts.astype(float)), wanted) == pytest.approx(
        expected_of_random(wanted, 500), rel=0.03
    )
