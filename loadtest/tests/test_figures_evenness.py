"""How evenly servers use the CPU that they might have."""

import pytest
from steelyard_loadtest.figures.evenness import median_utilization_ratio, utilization_ratio
from steelyard_loadtest.measurements.trials import Observed
from steelyard_loadtest.scenario.definition import Drift, Event, Server

SERVERS = (Server(name="a", cpu_cores=0.1), Server(name="b", cpu_cores=0.2))


def seen(t_s: float, server: str, used: float, neighbour: float = 0.0) -> Observed:
    """One server's second; both parts are of its limit."""
    return Observed(
        t_s=t_s, interval_s=1.0, server=server, served=1, share=0.5, cpu_utilization=used + neighbour,
        children_cpu_utilization=neighbour,
    )  # fmt: skip


def test_servers_of_any_size_that_use_equal_parts_are_even() -> None:
    even = [seen(t_s, name, 0.6) for t_s in (1, 2) for name in "ab"]
    assert utilization_ratio(even, SERVERS, []) == pytest.approx(1)
    assert median_utilization_ratio(even, SERVERS, []) == pytest.approx(1)


def test_the_largest_is_divided_by_the_mean_of_all() -> None:
    uneven = [seen(1, "a", 0.9), seen(1, "b", 0.3)]
    assert utilization_ratio(uneven, SERVERS, []) == pytest.approx(0.9 / 0.6)


def test_a_server_with_a_neighbour_is_even_when_it_uses_an_equal_part_of_the_rest() -> None:
    half_taken = [seen(1, "a", 0.3, neighbour=0.5), seen(1, "b", 0.6)]
    assert utilization_ratio(half_taken, SERVERS, []) == pytest.approx(1)
    as_before = [seen(1, "a", 0.5, neighbour=0.5), seen(1, "b", 0.5)]
    assert utilization_ratio(as_before, SERVERS, []) == pytest.approx(1 / 0.75)


def test_a_second_counts_by_the_cpu_that_its_limit_allows() -> None:
    # 0.15 cores in the first half of its period, 0.05 in the second.
    drifting = (Server(name="a", cpu_cores=0.1, drift=Drift(by=0.5, period_s=4)), SERVERS[1])
    moved = [seen(1.5, "a", 0.4), seen(3.5, "a", 0.8), seen(1.5, "b", 0.5), seen(3.5, "b", 0.5)]
    assert utilization_ratio(moved, drifting, []) == pytest.approx(1)


def test_the_median_of_seconds_contains_what_the_whole_time_evens_out() -> None:
    swinging = [seen(1, "a", 0.8), seen(1, "b", 0.4), seen(2, "a", 0.4), seen(2, "b", 0.8)]
    assert utilization_ratio(swinging, SERVERS, []) == pytest.approx(1)
    assert median_utilization_ratio(swinging, SERVERS, []) == pytest.approx(0.8 / 0.6)


def test_a_server_counts_while_it_takes_part() -> None:
    leave = Event(at_s=1, do="leave", server="b")
    gone = [seen(1, "a", 0.5), seen(1, "b", 0.5), seen(2, "a", 0.5), seen(2, "b", 0.0)]
    assert utilization_ratio(gone, SERVERS, [leave]) == pytest.approx(1)


def test_idle_servers_have_no_ratio() -> None:
    assert utilization_ratio([], SERVERS, []) is None
    idle = [seen(1, "a", 0.0), seen(1, "b", 0.0)]
    assert utilization_ratio(idle, SERVERS, []) is median_utilization_ratio(idle, SERVERS, []) is None
