"""The cases in which requests are long, dear, open or unseen, or a server is, lie within their bounds."""

from collections.abc import Callable

import pytest
from steelyard_controller import laws

from testing.law_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_figure_lies_within_its_bounds(case: Callable[[laws.Law], dict[str, float]]) -> None:
    found = case(laws.create("steelyard"))
    assert set(found) == set(CASES[case])
    for name, bound in CASES[case].items():
        assert bound.low <= found[name] <= bound.high, name
