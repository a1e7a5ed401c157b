"""The load that fits a cluster."""

import pytest
from steelyard_loadtest.demo.rate import LOWEST_RATE, Cost, capacity, target_rate, users_for

# The demo's servers at a millisecond a request.
COSTS = [Cost(cpu_s_per_request=0.001, limit_cores=cores) for cores in (0.15, 0.15, 0.3)]


def test_capacity_is_the_sum_of_what_each_server_can_do() -> None:
    assert capacity(COSTS) == pytest.approx(600)
    assert capacity([*COSTS, Cost(cpu_s_per_request=0.002, limit_cores=0.2)]) == pytest.approx(700)


def test_the_rate_is_60_percent_of_capacity_in_tens() -> None:
    assert target_rate(COSTS) == 360
    assert target_rate([Cost(cpu_s_per_request=0.0011, limit_cores=0.6)]) == 330


def test_a_slow_machine_still_gets_some_load() -> None:
    assert target_rate([Cost(cpu_s_per_request=1.0, limit_cores=0.1)]) == LOWEST_RATE


@pytest.mark.parametrize(("rate", "users"), [(360, 180), (30, 15), (1, 10)])
def test_each_user_has_two_requests_a_second_to_send_and_there_are_at_least_ten(
    rate: float, users: int
) -> None:
    assert users_for(rate) == users
