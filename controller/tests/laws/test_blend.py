import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.blend import Due, blend, step_upstreams
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.explanation import explain

from .snapshots import Figures, snapshot, steps


def two(pinned: Figures = None) -> tuple[Decision, Decision]:
    """Return the decisions of static and steelyard with `a` at half the speed of the others."""
    inputs = [snapshot(cpu=(0.8, 0.4, 0.4), pinned=pinned)] * 60
    return steps(laws.create("static"), inputs)[1], steps(laws.create("steelyard"), inputs)[1]


def test_every_law_steps_on_the_same_snapshot_with_its_own_memory() -> None:
    running = {name: laws.create(name) for name in laws.NAMES}
    memories: dict[str, laws.Memory] = {}
    for _tick in range(20):
        due = Due(laws=running, memories=memories, snapshot=snapshot(cpu=(0.8, 0.4, 0.4)))
        (stepped,) = step_upstreams([due])
        memories = dict(stepped.memories)
    assert tuple(stepped.decisions) == laws.NAMES
    for name, law in running.items():
        _, alone = steps(law, [snapshot(cpu=(0.8, 0.4, 0.4))] * 20)
        assert stepped.decisions[name].weights.tolist() == alone.weights.tolist()


def test_a_blend_is_walked_up_from_0_to_100() -> None:
    before, after = two()
    shares = [blend(before, after, percent).weights[0] for percent in (0, 25, 50, 75, 100)]
    assert shares == pytest.approx(np.linspace(before.weights[0], after.weights[0], 5))


def test_0_and_100_are_the_decisions_themselves() -> None:
    before, after = two()
    assert blend(before, after, 0) is before
    assert blend(before, after, 100) is after


def test_a_blend_sums_to_s_and_is_quantized_like_any_decision() -> None:
    before, after = two()
    decision = blend(before, after, 30)
    assert decision.weights.sum() == pytest.approx(decision.total)
    assert decision.published.sum() == decision.total
    assert decision.law == "static+steelyard"


def test_a_blend_of_laws_with_different_totals_is_on_the_scale_of_the_second() -> None:
    inputs = [snapshot(baseline=(1, 2, 2))]
    small = steps(laws.create("static", {"S": 100}), inputs)[1]
    large = steps(laws.create("static", {"S": 5000}), inputs)[1]
    assert blend(small, large, 50).weights == pytest.approx([1000, 2000, 2000])


def test_pins_stay_where_they_are_at_every_percentage() -> None:
    before, after = two(pinned=(123, None, None))
    for percent in (10, 50, 90):
        decision = blend(before, after, percent)
        assert decision.weights[0] == 123
        assert decision.published[0] == 123
        assert decision.published.sum() == decision.total


@pytest.mark.parametrize("percent", [-1, 101, float("nan")])
def test_a_percentage_out_of_range_is_the_callers_bug(percent: float) -> None:
    with pytest.raises(ValueError, match="give 0 to 100"):
        blend(*two(), percent)


def test_decisions_about_different_peers_are_not_blended() -> None:
    _, other = steps(laws.create("static"), [snapshot(ids="ab")])
    with pytest.raises(ValueError, match="not about the same peers"):
        blend(two()[0], other, 50)


def test_a_blend_explains_both_of_its_laws() -> None:
    before, after = two()
    explanation = explain(blend(before, after, 40), 0)
    assert explanation.figures["weight_from"] == pytest.approx(before.weights[0])
    assert explanation.figures["weight_to"] == pytest.approx(after.weights[0])
    assert explanation.sentence == (
        "280: 40 % of the way from static (334: its baseline, which the law static keeps) "
        "to steelyard (200: does 125 requests per busy second, from 2637 observed requests)"
    )
