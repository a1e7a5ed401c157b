"""The cases in which requests are long, dear, open or unseen, or a server is, lie within their bounds."""

from collections.abc import Callable

import pytest
from steelyard_controller import laws

from testing import law_cases
from testing.law_cases import CASES

MISSED = (
    law_cases.fixed_appetite,
    law_cases.fixed_appetites,
    law_cases.shared_appetites,
    law_cases.comes_and_goes,
)
"""Declared before the remedy."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.xfail(strict=True)] if case in MISSED else []) for case in CASES],
    ids=lambda case: case.__name__,
)
def test_every_figure_lies_within_its_bounds(case: Callable[[laws.Law], dict[str, float]]) -> None:
    found = case(laws.create("steelyard"))
    assert set(found) == set(CASES[case])
    for name, bound in CASES[case].items():
        assert bound.low <= found[name] <= bound.high, name
