"""A limit held by pauses: an answer waits until the used CPU time is paid."""

import time

import pytest
from steelyard_loadtest.server.pace import SLOT_S, Pace

SPINS = 100_000  # some ms


def spin() -> int:
    return sum(1 for _ in range(SPINS))


@pytest.mark.parametrize(("cores", "left"), [(0.2, 1.0), (0.2, 0.5), (0.05, 1.0)])
def test_the_time_of_all_work_is_at_least_what_its_cpu_costs_at_the_share(cores: float, left: float) -> None:
    used_s, began_s = time.process_time(), time.monotonic()
    pace = Pace(cores, lambda: left)
    assert [pace.after(spin) for _ in range(10)] == [SPINS] * 10
    # The time of this line is not paid, and the clocks are read one after the other.
    used_s = time.process_time() - used_s - 0.001
    assert time.monotonic() - began_s >= used_s / (cores * left) - SLOT_S


def test_a_server_without_a_limit_of_its_own_never_pauses() -> None:
    asked = list[int]()

    def left() -> float:
        asked.append(1)
        return 1.0

    assert Pace(None, left).after(pow, 2, 3) == 8
    assert asked == []


def test_what_the_work_raises_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        Pace(0.2, lambda: 1.0).after(divmod, 1, 0)
