from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.laws.equations import (
    adjusted_weights,
    entropy_weights,
    hardware_shares,
    load_classes,
    residual_score,
    score_shares,
    spread,
)

from .snapshots import golden

NAN = float("nan")
EQUAL = np.full(4, 0.25)


def close(value: object, expected: object) -> None:
    # The goldens are printed to nine places.
    np.testing.assert_allclose(np.array(value, dtype=float), np.array(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", golden("equations"), ids=lambda case: case["name"])
def test_golden(case: dict[str, Any]) -> None:
    utilization, capacity = np.array(case["utilization"]), np.array(case["capacity"])
    apart = spread(utilization)
    weights = entropy_weights(apart.entropy)
    baseline = 1000.0 * hardware_shares(weights, capacity)
    score = residual_score(weights, 1.0 - utilization)
    high, low = load_classes(score, case["H"], case["L"])
    close(apart.normalized, case["normalized"])
    close(apart.proportions, case["proportions"])
    close(apart.entropy, case["entropy"])
    close(weights, case["entropy_weights"])
    close(baseline / 1000, np.array(case["baseline_weights"]) / 1000)
    close(score, case["score"])
    close(score_shares(score), case["shares"])
    assert (high.tolist(), low.tolist()) == (case["high_load"], case["low_load"])
    printed = adjusted_weights(baseline, score_shares(score), high | low)
    close(printed / 1000, np.array(case["paper_weights"]) / 1000)


def test_an_indicator_that_is_constant_gets_no_weight() -> None:
    busy = np.array([[0.1, 0.5, 0.2, 0.3], [0.7, 0.5, 0.2, 0.4], [0.2, 0.5, 0.2, 0.9]])
    apart = spread(busy)
    assert apart.entropy[1:3].tolist() == [1.0, 1.0]
    assert entropy_weights(apart.entropy)[1:3].tolist() == [0.0, 0.0]


def test_a_range_that_is_only_rounding_is_constant() -> None:
    busy = np.full((3, 4), 0.3)
    busy[0] += 1e-12
    assert spread(busy).entropy.tolist() == [1.0] * 4


def test_constant_indicators_weigh_the_same() -> None:
    assert entropy_weights(spread(np.full((3, 4), 0.3)).entropy).tolist() == [0.25] * 4


def test_one_peer_is_not_compared() -> None:
    apart = spread(np.array([[0.7, 0.2, 0.1, 0.5]]))
    assert apart.entropy.tolist() == [1.0] * 4
    assert apart.proportions.tolist() == [[1.0] * 4]


def test_nobody_at_all_is_not_an_error() -> None:
    apart = spread(np.empty((0, 4)))
    assert entropy_weights(apart.entropy).tolist() == [0.25] * 4
    assert hardware_shares(EQUAL, np.empty((0, 4))).size == 0


def test_an_indicator_is_compared_over_the_peers_that_measure_it() -> None:
    busy = np.array([[0.1, NAN, 0.2, 0.3], [0.7, 0.5, 0.2, 0.4], [0.2, 0.1, 0.2, 0.9]])
    with_all, of_two = spread(busy), spread(busy[1:, 1:2])
    assert with_all.entropy[1] == of_two.entropy[0]
    assert with_all.normalized[:, 1].tolist() == [0.0, 1.0, 0.0]


def test_an_indicator_of_a_single_peer_makes_no_difference() -> None:
    busy = np.array([[0.1, NAN, 0.2, 0.3], [0.7, 0.5, 0.2, 0.4]])
    assert spread(busy).entropy[1] == 1.0


def test_credit_scales_what_an_indicator_may_claim() -> None:
    weights = entropy_weights(np.array([0.5, 0.5, 1.0, 1.0]), np.array([1.0, 0.25, 1.0, 1.0]))
    close(weights, [0.8, 0.2, 0.0, 0.0])


def test_hardware_that_nobody_has_is_shared_equally() -> None:
    capacity = np.array([[2.0, 0, 0, 1.0], [2.0, 0, 0, 3.0]])
    close(hardware_shares(EQUAL, capacity), [0.4375, 0.5625])


def test_a_peer_of_unknown_hardware_is_an_average_one() -> None:
    capacity = np.array([[2.0, 1, 1, 1], [4.0, 2, 2, 2], [NAN] * 4])
    shares = hardware_shares(EQUAL, capacity)
    close(shares, [2 / 9, 4 / 9, 1 / 3])


def test_a_peer_is_judged_by_the_hardware_it_knows() -> None:
    capacity = np.array([[2.0, NAN, 1, 1], [2.0, 5.0, 1, 1]])
    close(hardware_shares(EQUAL, capacity), [0.5, 0.5])


def test_the_score_is_over_the_indicators_a_peer_measures() -> None:
    weights = np.array([0.4, 0.4, 0.1, 0.1])
    score = residual_score(weights, np.array([[0.2, NAN, 0.7, 0.7], [NAN] * 4]))
    close(score[0], (0.4 * 0.2 + 0.1 * 0.7 + 0.1 * 0.7) / 0.6)
    assert np.isnan(score[1])


def test_scores_of_zero_share_equally() -> None:
    close(score_shares(np.zeros(4)), [0.25] * 4)


def test_low_load_matters_only_while_a_high_node_exists() -> None:
    high, low = load_classes(np.array([0.5, 0.9]), 0.3, 0.4)
    assert not high.any()
    assert not low.any()
    high, low = load_classes(np.array([0.1, 0.9]), 0.3, 0.4)
    assert (high.tolist(), low.tolist()) == ([True, False], [False, True])


def test_eq_8_as_printed_shrinks_an_adjusted_node_against_an_untouched_one() -> None:
    baseline, shares = np.full(4, 250.0), np.full(4, 0.25)
    adjusted = np.array([True, False, False, False])
    close(adjusted_weights(baseline, shares, adjusted), [62.5, 250, 250, 250])
    close(adjusted_weights(baseline, shares, adjusted, scale=4), [250] * 4)


UTILIZATIONS = st.lists(
    st.lists(st.none() | st.floats(0, 2), min_size=4, max_size=4), min_size=1, max_size=12
)


@given(UTILIZATIONS)
def test_entropy_is_within_0_and_1_and_the_weights_sum_to_1(rows: list[list[float | None]]) -> None:
    busy = np.array([[NAN if value is None else value for value in row] for row in rows])
    apart = spread(busy)
    weights = entropy_weights(apart.entropy)
    assert ((apart.entropy >= 0) & (apart.entropy <= 1)).all()
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    score = residual_score(weights, 1.0 - np.minimum(busy, 1.0))
    known = ~np.isnan(score)
    assert known.tolist() == (~np.isnan(busy)).any(axis=1).tolist()
    assert ((score[known] >= -1e-12) & (score[known] <= 1 + 1e-12)).all()
    if known.any():
        assert score_shares(score)[known].sum() == pytest.approx(1)
