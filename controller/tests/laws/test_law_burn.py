"""A neighbour that left: what it took is not taken for the cost of requests (step 6; `make law-burns`).

Before it came, a request cost 5 ms, and 20 came a window.
"""

import pytest
from steelyard_controller import laws
from steelyard_controller.laws.decision import Decision

from .snapshots import snapshot, steps

STEELYARD = laws.create("steelyard")
BURN = ((0.5, 20), (0.8, 20))


def after(*windows: tuple[float, ...], in_flight: float = 1.0, latency_s: float = 0.01) -> Decision:
    """Return the decision after a calm minute and these windows of the first server.

    A window has load and requests, and may have a latency of its own.
    """
    calm, *rest = (
        snapshot(
            cpu=(cpu, 0.1, 0.1),
            completed=(count, 20, 20),
            in_flight=in_flight,
            latency_s=(*(own or (latency_s,)), 0.01, 0.01),
        )
        for cpu, count, *own in ((0.1, 20), *windows)
    )
    return steps(STEELYARD, [calm] * 60 + rest)[1]


@pytest.mark.parametrize(("load", "requests"), [(0.0, 0), (0.01, 2), (0.03, 6)])
def test_a_server_is_worth_its_known_cost_as_soon_as_it_explains_its_load(load: float, requests: int) -> None:
    decision = after(*BURN, (load, requests))
    assert after(*BURN).capacity_estimate[0] < 100
    assert decision.columns["restarted"][0] == 1
    assert decision.capacity_estimate[0] == pytest.approx(200, rel=0.1)
    assert decision.columns["request_cost"][0] == pytest.approx(0.005, rel=0.1)


@pytest.mark.parametrize(("load", "requests"), [(0.0, 0), (0.01, 2)])
def test_a_window_after_requests_of_more_than_a_quarter_of_it_shows_nothing(
    load: float, requests: int
) -> None:
    decision = after(*BURN, (load, requests), latency_s=0.5)
    assert decision.columns["restarted"][0] == 0
    assert decision.capacity_estimate[0] < 130


def test_a_window_of_short_requests_after_a_queue_shows_that_the_neighbour_has_left() -> None:
    decision = after((0.5, 20, 0.3), (0.8, 20, 0.3), (0.0, 2, 0.001))
    assert decision.columns["restarted"][0] == 1
    assert decision.columns["request_cost"][0] == pytest.approx(0.005, rel=0.1)


def test_a_server_that_got_slower_is_not_free_with_fewer_requests() -> None:
    assert after(*BURN, *[(8 * 0.04, 8)] * 3).capacity_estimate[0] < 100


def test_requests_that_came_in_a_later_sample_s_time_do_not_make_a_server_free() -> None:
    # Twenty requests are reported, and the sample still shows the idle server before them.
    assert after((0.5, 0), *[(0.05, 0)] * 9, (0.0, 60)).capacity_estimate[0] < 300


def test_two_windows_after_a_burn_do_not_show_what_a_request_costs() -> None:
    # Five requests of .012 after an idle window: alone, they would say that a request costs .012.
    decision = after(*BURN, (0.0, 0), (0.06, 5), *[(0.025, 5)] * 3, in_flight=0.0)
    assert decision.columns["request_cost"][0] == pytest.approx(0.005, rel=0.15)
    assert decision.capacity_estimate[0] > 170
