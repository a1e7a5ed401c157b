"""The cases of long, expensive, open or unseen requests are within their bounds."""

from collections.abc import Callable

import pytest
from steelyard_controller import laws

from .law_cases import CASES, Figures


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_figure_lies_within_its_bounds(case: Callable[[laws.Law], Figures]) -> None:
    for of, found, low, high, _ in case(laws.create("steelyard")):
        assert low <= found <= high, of
