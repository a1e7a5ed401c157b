from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.laws.quantize import quantize

from .snapshots import golden

WEIGHTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=40)


def unit_by_unit(weights: list[float], total: int, floor: int) -> list[int]:
    """The definition, one unit at a time, for comparison."""
    k, total = len(weights), max(total, len(weights) * floor)
    scale = sum(np.array(weights)) or 0.0
    exact = [w / scale * total if scale > 0 else total / k for w in weights]
    published = [max(int(np.floor(x)), floor) for x in exact]
    left = total - sum(published)
    by_remainder = sorted(range(k), key=lambda j: (-(exact[j] - np.floor(exact[j])), j))
    for j in by_remainder[: max(left, 0)]:
        published[j] += 1
    while sum(published) > total:
        published[published.index(max(published))] -= 1
    return published


@pytest.mark.parametrize("case", golden("quantize"))
def test_golden(case: dict[str, Any]) -> None:
    weights = np.array(case["weights"], dtype=float)
    assert quantize(weights, case["total"], case["floor"]).tolist() == case["quantized"]


@given(WEIGHTS, st.integers(1, 3000), st.integers(1, 3))
def test_it_is_the_unit_by_unit_definition(weights: list[float], total: int, floor: int) -> None:
    assert quantize(np.array(weights), total, floor).tolist() == unit_by_unit(weights, total, floor)


@given(WEIGHTS, st.integers(1, 3000))
def test_the_sum_is_the_total_and_no_weight_is_below_the_floor(weights: list[float], total: int) -> None:
    published = quantize(np.array(weights), total)
    assert published.sum() == max(total, len(weights))
    assert published.min() >= 1


def test_equal_remainders_go_to_the_first() -> None:
    assert quantize(np.ones(4), 10).tolist() == [3, 3, 2, 2]


def test_no_peers_no_weights() -> None:
    assert quantize(np.empty(0), 10).tolist() == []


def test_ten_thousand_peers_one_of_which_pays_for_all_the_others() -> None:
    weights = np.full(10_000, 1e-9)
    weights[77] = 1.0
    published = quantize(weights, 20_000)
    assert published[77] == 10_001
    assert (np.delete(published, 77) == 1).all()
