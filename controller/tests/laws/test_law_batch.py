"""Upstreams that step together decide as each would alone."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.blend import Due, StepResult, step_upstreams
from steelyard_controller.laws.snapshot import Snapshot

from .snapshots import snapshot
from .test_law_properties import drawn

TICKS = 24

# With more than six peers, leaving some out changes the order of the sum, and its last digit.
SIZES = (3, 3, 1, 5, 0, 3, 5, 3)


def awkward(upstream: int, tick: int, drawn_one: Snapshot) -> Snapshot:
    """Return the snapshot with columns of some upstreams at some ticks only."""
    rows = np.arange(len(drawn_one.ids))
    changes: dict[int, dict[str, np.ndarray]] = {
        0: {"leaving": rows == 0},
        1: {"pinned": np.where(rows == 1, 70.0, np.nan)},
        2: {"eligible": rows == 1},
        3: {"completed": np.full(len(rows), np.nan)},
        4: {"utilization": np.full(drawn_one.utilization.shape, np.nan)},
    }
    return replace(drawn_one, **changes.get((upstream + tick // 6) % 8, {}))  # type: ignore[arg-type]


def upstreams() -> list[list[Snapshot]]:
    """Return the snapshots of each upstream; one of them is declared some ticks after the others."""
    some = [drawn(k, seed, ticks=TICKS, age=seed % 3) for seed, k in enumerate(SIZES)]
    return [
        [awkward(number, tick, replace(each, report_age_ticks=0)) for tick, each in enumerate(its)][
            number % 3 :
        ]
        for number, its in enumerate(some)
    ]


def figures(result: StepResult, law: str) -> Mapping[str, object]:
    """Return a law's whole decision and memory, with None for NaN."""
    decision, memory = result.decisions[law], result.memories[law]
    arrays = {
        "weights": decision.weights, "published": decision.published, "score": decision.score,
        "baseline": decision.published_baseline, "entropy_weights": decision.entropy_weights,
        **decision.columns, **decision.by_indicator,
    }  # fmt: skip
    shown = {name: np.where(np.isnan(each), -1.0, each).tolist() for name, each in arrays.items()}
    return {**shown, "alert": decision.alert, "ids": decision.ids, "memory": laws.encode_memory(law, memory)}


@pytest.mark.parametrize("law", laws.NAMES)
def test_upstreams_that_step_at_once_decide_as_each_does_alone(law: str) -> None:
    running = {law: laws.create(law)}
    others = {law: laws.create(law, {"S": 5000})}
    inputs = upstreams()
    alone: list[StepResult | None] = [None] * len(inputs)
    together: list[StepResult | None] = [None] * len(inputs)
    for tick in range(TICKS - 2):
        due = [
            Due(
                laws=others if number == 1 else running,
                memories={} if before is None else before.memories,
                snapshot=inputs[number][tick],
            )
            for number, before in enumerate(together)
        ]
        together = list(step_upstreams(due))
        for number, each in enumerate(due):
            before = alone[number]
            memories = {} if before is None else before.memories
            (alone[number],) = step_upstreams([msgspec.structs.replace(each, memories=memories)])
        assert [figures(each, law) for each in together if each] == [
            figures(each, law) for each in alone if each
        ]


def test_an_upstream_may_run_several_laws_and_the_next_one_none_of_them() -> None:
    many = {name: laws.create(name) for name in laws.NAMES}
    one = {"paper": laws.create("paper")}
    uneven = snapshot(cpu=(0.8, 0.4, 0.4))
    first, none, last = step_upstreams(
        [Due(laws=running, memories={}, snapshot=uneven) for running in (many, {}, one)]
    )
    assert (tuple(first.decisions), tuple(none.decisions), tuple(last.decisions)) == (
        laws.NAMES,
        (),
        ("paper",),
    )
    assert first.decisions["paper"].published.tolist() == last.decisions["paper"].published.tolist()
