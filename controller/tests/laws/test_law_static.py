import pytest
from steelyard_controller import laws

from .snapshots import snapshot, steps

STATIC = laws.create("static")


def test_weights_are_always_the_operators_baselines() -> None:
    storm = snapshot(cpu=(1.0, 0.1, 0.5), failed=(90, 0, 0), in_flight=(900, 0, 0), baseline=(1, 2, 7))
    _, decision = steps(STATIC, [storm] * 20)
    assert decision.weights == pytest.approx([100, 200, 700], rel=1e-12)
    assert decision.published.tolist() == [100, 200, 700]


def test_without_baselines_the_hardware_decides() -> None:
    sizes = [(2.0, 1e6, 100.0, 1e9), (4.0, 2e6, 200.0, 2e9), (2.0, 1e6, 100.0, 1e9)]
    _, decision = steps(STATIC, [snapshot(capacity=sizes)])
    assert decision.weights == pytest.approx([250, 500, 250], rel=1e-12)


def test_peers_without_a_baseline_get_the_worth_of_their_hardware_beside_the_others() -> None:
    sizes = [(2.0, 1e6, 100.0, 1e9), (4.0, 2e6, 200.0, 2e9), (4.0, 2e6, 200.0, 2e9)]
    _, decision = steps(STATIC, [snapshot(capacity=sizes, baseline=(10, 20, None))])
    assert decision.weights == pytest.approx([200, 400, 400], rel=1e-12)


def test_unknown_hardware_and_no_baseline_means_equal() -> None:
    _, decision = steps(STATIC, [snapshot(capacity=(None,) * 4)])
    assert decision.weights == pytest.approx([1000 / 3] * 3, rel=1e-12)
