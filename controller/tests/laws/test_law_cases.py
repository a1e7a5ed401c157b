"""The cases of long, expensive, open or unseen requests are within their bounds."""

from collections.abc import Mapping
from functools import cache

import pytest
from steelyard_controller import laws

from .closed_loop import run_at_once
from .law_cases import CASES, Figures


@cache
def found_in() -> Mapping[str, Figures]:
    """Return the figures of each case."""
    law = laws.create("steelyard")
    figures = run_at_once([case(law) for case in CASES])
    return {case.__name__: its for case, its in zip(CASES, figures, strict=True)}


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_every_figure_lies_within_its_bounds(case: str) -> None:
    for of, found, low, high, _ in found_in()[case]:
        assert low <= found <= high, of
