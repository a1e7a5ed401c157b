"""Windows with more and fewer requests distinguish a neighbour from more expensive ones (cases: `law_cases`).

100 requests a window at half load: a request costs 5 ms. Then the first server's load is .8, and it gets 40.
"""

import pytest
from steelyard_controller import laws
from steelyard_controller.laws.decision import Decision

from .snapshots import snapshot, steps

STEELYARD = laws.create("steelyard")


def decided(*windows: tuple[float, float, int], latency_s: float = 0.01) -> Decision:
    """Return the decision after windows of the first server: its load, its requests, and their number."""
    each = [
        snapshot(cpu=(load, 0.5, 0.5), completed=(requests, 100, 100), latency_s=latency_s)
        for load, requests, count in ((0.5, 100, 60), (0.8, 100, 1), *windows)
        for _ in range(count)
    ]
    return steps(STEELYARD, each)[1]


@pytest.mark.parametrize("windows", [5, 200])
def test_a_load_that_stays_while_requests_become_fewer_is_not_ours(windows: int) -> None:
    decision = decided((0.3 + 40 * 0.005, 40, windows))
    assert decision.columns["not_ours"][0] == pytest.approx(0.3, abs=0.02)
    assert decision.capacity_estimate[0] == pytest.approx(0.7 / 0.005, rel=0.05)


def test_a_load_that_goes_with_the_requests_is_dearer_requests() -> None:
    decision = decided((40 * 0.008, 40, 20))
    assert decision.columns["contrast"][0] > 0.5
    assert decision.columns["marginal_cost"][0] == pytest.approx(0.008, rel=0.01)
    assert decision.columns["not_ours"][0] < 0.02
    assert decision.capacity_estimate[0] == pytest.approx(1 / 0.008, rel=0.05)


def test_a_load_that_is_gone_no_longer_counts_as_others() -> None:
    decision = decided((0.5, 40, 30), (0.2, 40, 3))
    assert decision.columns["known_not_ours"][0] < 0.01
    assert decision.capacity_estimate[0] == pytest.approx(200, rel=0.1)


def test_a_neighbour_that_takes_more_is_seen_beside_its_known_load() -> None:
    decision = decided((0.5, 40, 30), (0.7, 40, 1), (0.6, 20, 10))
    assert decision.columns["known_not_ours"][0] == pytest.approx(0.5, abs=0.03)


def test_equal_windows_and_long_requests_have_no_contrast() -> None:
    assert decided((0.8, 100, 20)).columns["contrast"][0] == pytest.approx(0.0, abs=1e-9)
    assert decided((0.5, 40, 20), latency_s=20.0).columns["contrast"][0] < 0.01


def test_a_halved_quota_doubles_the_load_that_is_known_not_to_be_ours() -> None:
    memory, before = steps(
        STEELYARD,
        [snapshot(cpu=(load, 0.5, 0.5), completed=(n, 100, 100)) for load, n in [(0.5, 100)] * 60]
        + [snapshot(cpu=(0.8, 0.5, 0.5), completed=100)]
        + [snapshot(cpu=(0.4, 0.5, 0.5), completed=(20, 100, 100))] * 30,
    )
    _, after = steps(
        STEELYARD,
        [
            snapshot(
                cpu=(0.8, 0.5, 0.5),
                completed=(20, 100, 100),
                capacity=[(2.0, 1, 1, 1)] + [(4.0, 1, 1, 1)] * 2,
            )
        ],
        memory,
    )
    known = [each.columns["known_not_ours"][0] for each in (before, after)]
    assert known[0] == pytest.approx(0.3, abs=0.02)
    assert known[1] == pytest.approx(2 * known[0], rel=0.05)
