from typing import Any

import numpy as np
import pytest
from steelyard_controller import laws

from .snapshots import golden, snapshot, steps

IDS = ("a", "b", "c")


@pytest.mark.parametrize("case", golden("equations"), ids=lambda case: case["name"])
def test_golden(case: dict[str, Any]) -> None:
    law = laws.create("paper", {"H": case["H"], "L": case["L"]})
    ids = [f"server-{j}" for j in range(len(case["capacity"]))]
    _, decision = steps(law, [snapshot(ids=ids, utilization=case["utilization"], capacity=case["capacity"])])
    for name in ("normalized", "proportions"):
        table = np.column_stack([decision.columns[f"{name}_{each}"] for each in case["indicators"]])
        np.testing.assert_allclose(table, case[name], atol=1e-9)
    expected = {
        "score": decision.score,
        "shares": decision.columns["share"],
        "entropy": decision.by_indicator["entropy"],
        "entropy_weights": decision.entropy_weights,
        "baseline_weights": decision.baseline,
        "paper_weights": decision.columns["paper_weight"],
    }
    for name, value in expected.items():
        np.testing.assert_allclose(value, case[name], rtol=1e-9, atol=1e-9, err_msg=name)
    assert (decision.columns["high_load"] > 0).tolist() == case["high_load"]
    assert (decision.columns["low_load"] > 0).tolist() == case["low_load"]
    assert decision.weights.sum() == pytest.approx(1000)


def test_idle_indicators_dilute_the_score_so_that_the_printed_threshold_never_triggers() -> None:
    rows = [[1.0, 0.0, 0.0, 0.3], [0.2, 0.0, 0.0, 0.31], [0.2, 0.1, 0.0, 0.3], [0.2, 0.0, 0.1, 0.3]]
    _, decision = steps(laws.create("paper"), [snapshot(ids="abcd", utilization=rows)] * 20)
    assert not decision.alert
    assert decision.weights == pytest.approx(decision.baseline, rel=1e-9)


def test_the_idlest_node_gets_less_than_a_busy_one() -> None:
    # CPU .95 .55 .5 .2 .1 with H .3, L .6: untouched nodes keep 200, the idle ones shrink to F of theirs.
    cpu = (0.95, 0.55, 0.5, 0.2, 0.1)
    rows = [[each, 0.2, 0.1, 0.3] for each in cpu]
    law = laws.create("paper", {"H": 0.3, "L": 0.6})
    _, decision = steps(law, [snapshot(ids="abcde", utilization=rows)])
    assert decision.columns["paper_weight"] == pytest.approx([3.7, 200, 200, 59.3, 66.7], abs=0.05)
    assert decision.weights[4] / decision.total == pytest.approx(0.126, abs=0.001)


def test_scale_by_k_compares_like_with_like() -> None:
    rows = [[each, 0.2, 0.1, 0.3] for each in (0.95, 0.55, 0.5, 0.2, 0.1)]
    law = laws.create("paper", {"H": 0.3, "L": 0.6, "scale_by_k": 1})
    _, decision = steps(law, [snapshot(ids="abcde", utilization=rows)])
    assert decision.weights[4] == decision.weights.max()


def test_after_an_alert_the_weights_return_by_a_fixed_part_of_the_gap() -> None:
    law = laws.create("paper", {"H": 0.3, "decay": 0.2})
    # The two servers differ in cpu only, so it has all the weight.
    rows = [[0.9, 0.2, 0.1, 0.3], [0.5, 0.2, 0.1, 0.3]]
    memory, alert = steps(law, [snapshot(ids="ab", utilization=rows)])
    rows[0][0] = 0.6
    _, calm = steps(law, [snapshot(ids="ab", utilization=rows)], memory)
    before, after = alert.columns["paper_weight"], calm.columns["paper_weight"]
    assert (alert.alert, calm.alert) == (True, False)
    assert before[0] < 100
    assert after == pytest.approx(before + 0.2 * (calm.baseline - before), rel=1e-12)


def test_a_sample_counts_for_three_ticks_then_the_peer_is_one_of_the_others() -> None:
    law = laws.create("paper", {"H": 0.3})
    busy = [[0.95, 0.2, 0.1, 0.3], [0.5, 0.2, 0.1, 0.3], [0.5, 0.2, 0.1, 0.3]]
    memory, _ = steps(law, [snapshot(utilization=busy)])
    silent: list[list[float] | None] = [None, *busy[1:]]
    memory, held = steps(law, [snapshot(utilization=silent)] * 3, memory)
    assert held.alert
    _, forgotten = steps(law, [snapshot(utilization=silent)], memory)
    assert np.isnan(forgotten.score[0])
    assert not forgotten.alert


def test_a_score_of_zero_is_still_no_drain() -> None:
    law = laws.create("paper", {"H": 0.3})
    rows = [[1.0, 1.0, 1.0, 1.0], [0.1, 0.2, 0.1, 0.3]]
    _, decision = steps(law, [snapshot(ids="ab", utilization=rows)])
    assert decision.weights[0] > 0
    assert decision.published.min() >= 1
