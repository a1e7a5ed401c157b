"""The figures of the upstreams that stepped together, as one of them reads them and as the next step does."""

import numpy as np
from steelyard_controller.laws.shared_columns import Part, joined

SHARED = {"W": np.arange(6.0).reshape(3, 2), "alert": np.array([0.0, 1.0, 0.0])}


def test_a_part_has_the_figures_of_its_upstream_by_name() -> None:
    part = Part(SHARED, 1)
    assert (part["W"].tolist(), part["alert"]) == ([2.0, 3.0], 1.0)
    assert (list(part), len(part), "W" in part, "X" in part) == (["W", "alert"], 2, True, False)
    assert part.get("X") is None


def test_the_parts_of_a_whole_step_are_joined_without_a_copy() -> None:
    assert joined([Part(SHARED, row) for row in range(3)]) is SHARED


def test_other_parts_are_joined_in_the_order_of_their_upstreams() -> None:
    others = {"W": np.full((1, 2), 9.0), "alert": np.array([1.0])}
    swapped = joined([Part(SHARED, row) for row in (2, 0)])
    assert (swapped["W"].tolist(), swapped["alert"].tolist()) == ([[4.0, 5.0], [0.0, 1.0]], [0.0, 0.0])
    mixed = joined([Part(others, 0), {name: of_all[1] for name, of_all in SHARED.items()}])
    assert (mixed["W"].tolist(), mixed["alert"].tolist()) == ([[9.0, 9.0], [2.0, 3.0]], [1.0, 1.0])
    assert joined([Part({}, 0), Part({}, 1)]) == {}
