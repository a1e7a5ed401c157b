"""Laws with more indicators than the four: declared, undeclared and changed ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steelyard_controller import laws
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.equations import entropy_weights, hardware_weights, residual_score, spread
from steelyard_controller.laws.explanation import sentence_writer
from steelyard_controller.laws.snapshot import INDICATORS, Snapshot

from .snapshots import figures, snapshot, steps

EVERY_LAW = pytest.mark.parametrize("name", laws.NAMES)
FIVE = (*INDICATORS, "workers")

Column = tuple[float | None, ...] | float | None


def with_further(base: Snapshot, **further: Column) -> Snapshot:
    """Return the snapshot with a column for each further indicator."""
    added = [figures(values, len(base.ids)) for values in further.values()]
    return replace(
        base,
        indicators=(*base.indicators, *further),
        knees=np.full(len(base.indicators) + len(further), np.nan),
        utilization=np.column_stack([base.utilization, *added]),
    )


def of_columns(base: Snapshot, *names: str) -> Snapshot:
    """Return the snapshot with these indicators alone."""
    places = [base.indicators.index(name) for name in names]
    return replace(base, indicators=names, knees=base.knees[places], utilization=base.utilization[:, places])


def shares(decision: Decision) -> list[float]:
    return [float(weight) / decision.total for weight in decision.weights]


def test_equations_1_to_4_and_6_over_five_indicators() -> None:
    busy = np.array([[0.2, 0.1, 0.0, 0.3, 1.0], [0.4, 0.1, 0.0, 0.3, 0.0], [0.8, 0.1, 0.0, 0.3, 0.0]])
    apart = spread(busy)
    # cpu: Y = 0, 1/3, 1, p = 0, 1/4, 3/4; workers: all of Y at one server, so E = 0; others: no difference.
    cpu = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)) / np.log(3)
    assert apart.entropy.tolist() == pytest.approx([cpu, 1, 1, 1, 0])
    weights = entropy_weights(apart.entropy)
    assert weights.tolist() == pytest.approx([(1 - cpu) / (2 - cpu), 0, 0, 0, 1 / (2 - cpu)])
    assert residual_score(weights, 1 - busy).tolist() == pytest.approx(
        [0.8 * weights[0], 0.6 * weights[0] + weights[4], 0.2 * weights[0] + weights[4]]
    )


def test_indicators_without_differences_have_equal_weights_at_any_number() -> None:
    assert entropy_weights(spread(np.full((3, 7), 0.4)).entropy).tolist() == pytest.approx([1 / 7] * 7)


def test_the_hardware_is_judged_by_the_weights_of_its_own_indicators() -> None:
    weights = hardware_weights(np.array([0.5, 0.2, 0.3]), ("mem", "cpu", "workers"))
    assert weights.tolist() == [0.2, 0.0, 0.0, 0.5]


@EVERY_LAW
@settings(max_examples=25)
@given(st.lists(st.tuples(*[st.floats(0, 1)] * 3), min_size=1, max_size=6))
def test_an_indicator_that_nobody_reports_moves_nothing(name: str, course: list[tuple[float, ...]]) -> None:
    law = laws.create(name)
    four = [snapshot(cpu=cpu, completed=(80, 100, 120)) for cpu in course]
    _, without = steps(law, four)
    _, beside = steps(law, [with_further(each, workers=None, queue=None) for each in four])
    assert beside.weights.tolist() == pytest.approx(without.weights.tolist())
    assert beside.score.tolist() == pytest.approx(without.score.tolist(), nan_ok=True)
    assert beside.alert == without.alert
    assert sum(beside.entropy_weights) == pytest.approx(1)


def test_a_server_with_a_full_pool_and_an_idle_cpu_gets_its_capacity() -> None:
    # Each had 100 requests in the window; a's pool of workers was full, the others' to a fifth.
    four = [snapshot(cpu=0.2, completed=100.0)] * 40
    five = [with_further(each, workers=(1.0, 0.2, 0.2)) for each in four]
    law = laws.create("steelyard")
    _, blind = steps(law, four)
    _, seeing = steps(law, five)
    assert shares(blind) == pytest.approx([1 / 3] * 3, abs=0.01)
    # 100 requests a second are the whole capacity of a, and a fifth of b's and c's.
    assert shares(seeing) == pytest.approx([1 / 11, 5 / 11, 5 / 11], abs=0.02)
    assert seeing.alert
    assert "its tightest indicator is workers, with 0 % left" in sentence_writer(seeing)(0)
    assert "workers" not in sentence_writer(seeing)(1)


def test_an_indicator_of_some_peers_counts_for_these_alone() -> None:
    four = [snapshot(cpu=0.5, completed=100.0)] * 40
    law = laws.create("steelyard")
    _, without = steps(law, four)
    _, some = steps(law, [with_further(each, workers=(0.9, None, None)) for each in four])
    assert some.capacity_estimate[1:].tolist() == pytest.approx([200, 200], rel=0.01)
    assert without.capacity_estimate.tolist() == pytest.approx([200, 200, 200], rel=0.01)
    assert some.capacity_estimate[0] == pytest.approx(111, rel=0.01)


def test_below_its_declared_knee_an_indicator_is_no_load() -> None:
    law = laws.create("steelyard")
    four = snapshot(cpu=0.5)
    full = with_further(four, cache=(0.9, 0.5, 0.5))
    knee = replace(full, knees=figures([None, None, None, None, 0.9], 5))
    _, without = steps(law, [four] * 5)
    _, below = steps(law, [knee] * 5)
    _, load = steps(law, [full] * 5)
    assert below.columns["load"].tolist() == without.columns["load"].tolist()
    assert load.columns["load"][0] == 0.9
    assert below.by_indicator["knee"].tolist() == [0, 0, 0, 0.8, 0.9]


def test_a_declared_knee_of_memory_wins_over_the_parameter() -> None:
    law = laws.create("steelyard", {"knee_mem": 0.5})
    base = snapshot()
    _, decision = law.step(law.start(), replace(base, knees=figures([None, None, None, 0.2], 4)))
    assert decision.by_indicator["knee"].tolist() == [0, 0, 0, 0.2]
    _, decision = law.step(law.start(), base)
    assert decision.by_indicator["knee"].tolist() == [0, 0, 0, 0.5]


@EVERY_LAW
def test_an_upstream_may_do_without_the_four(name: str) -> None:
    law = laws.create(name)
    base = with_further(snapshot(cpu=0.2), workers=(1.0, 0.2, 0.2), queue=0.0)
    _, decision = steps(law, [of_columns(base, "workers", "queue")] * 20)
    assert decision.indicators == ("workers", "queue")
    assert decision.entropy_weights.sum() == pytest.approx(1)
    assert np.isfinite(decision.weights).all()
    if name in ("steelyard", "cswrr"):  # the paper's weights oscillate
        assert decision.weights[0] < 0.6 * decision.weights[1]


@EVERY_LAW
def test_a_memory_is_written_with_its_law_version_peers_and_indicators(name: str) -> None:
    memory, _ = steps(laws.create(name), [snapshot()] * 3)
    written: dict[str, Any] = laws.encode_memory(name, memory)
    assert set(written) == {"law", "version", "indicators", "ids", "columns", "scalars"}
    if name == "steelyard":
        assert written["version"] == 5
        assert {each for each in written["scalars"] if each.startswith("W_")} == {
            f"W_{each}" for each in INDICATORS
        }


@EVERY_LAW
def test_a_memory_of_other_indicators_survives_the_store(name: str) -> None:
    law = laws.create(name)
    course = [with_further(snapshot(cpu=(0.9, 0.5, 0.3)), workers=(0.2, 0.9, None))] * 8
    memory, _ = steps(law, course)
    restored = laws.decode_memory(law, laws.encode_memory(name, memory))
    assert restored is not None
    assert restored.indicators == FIVE
    _, one = steps(law, course, memory)
    _, other = steps(law, course, restored)
    assert one.weights.tolist() == other.weights.tolist()


def test_a_memory_that_names_an_indicator_twice_or_none_is_damaged() -> None:
    memory, _ = steps(laws.create("steelyard"), [with_further(snapshot(), workers=0.5)] * 2)
    written = laws.encode_memory("steelyard", memory)
    assert laws.decode_memory("steelyard", written) is not None
    for names in (["cpu", "cpu", "net", "io", "mem"], [], "cpu", [1], ["cpu"], [*FIVE, "queue"], None):
        assert laws.decode_memory("steelyard", {**written, "indicators": names}) is None


def test_when_an_indicator_is_declared_beside_others_nothing_known_is_lost() -> None:
    law = laws.create("steelyard")
    course = [snapshot(cpu=(0.9, 0.5, 0.3))] * 40
    memory, before = steps(law, course)
    _, with_it = law.step(memory, with_further(course[0], workers=None))
    _, without = law.step(memory, course[0])
    assert with_it.entropy_weights[:4].tolist() == pytest.approx(without.entropy_weights.tolist())
    assert with_it.entropy_weights[4] == 0
    assert with_it.weights.tolist() == pytest.approx(without.weights.tolist())
    assert with_it.columns["restarts"].tolist() == before.columns["restarts"].tolist()


def test_when_an_indicator_is_taken_away_the_others_share_its_part() -> None:
    law = laws.create("steelyard")
    course = [with_further(snapshot(cpu=(0.9, 0.5, 0.3)), workers=(0.1, 0.9, 0.5))] * 40
    memory, before = steps(law, course)
    after, decision = law.step(memory, of_columns(course[0], "cpu", "workers"))
    assert after.indicators == ("cpu", "workers")
    assert decision.entropy_weights.sum() == pytest.approx(1)
    part = before.entropy_weights[[0, 4]]
    assert decision.entropy_weights.tolist() == pytest.approx((part / part.sum()).tolist(), abs=0.02)
    # The smoothed figures stay with the names.
    assert decision.columns["smoothed_workers"].tolist() == pytest.approx([0.9, 0.1, 0.5])


def test_a_new_indicator_gets_its_part_as_it_differs_between_servers() -> None:
    law = laws.create("steelyard")
    memory, _ = steps(law, [snapshot(cpu=0.5)] * 20)
    course = [with_further(snapshot(cpu=0.5), workers=(0.9, 0.1, 0.1))] * 120
    _, decision = steps(law, course, memory)
    assert decision.entropy_weights[4] > 0.7


def test_a_snapshot_refuses_columns_that_do_not_fit_its_indicators() -> None:
    base = snapshot()
    with pytest.raises(ValueError, match=r"utilization has shape \(3, 4\), not \(3, 5\)"):
        replace(base, indicators=FIVE, knees=np.full(5, np.nan))
    with pytest.raises(ValueError, match="no indicator, or one occurs twice"):
        replace(base, indicators=("cpu", "cpu", "io", "mem"))
