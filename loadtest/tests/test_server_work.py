"""The work of one request: matrices, and the emulated slow disk on the test's own clock."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.server.work import (
    MOST_LATE_S,
    SIZE,
    SlowDisk,
    multiply,
    random_matrix,
    trace,
    traces_of_work,
)


def test_the_product_of_two_known_matrices_is_right() -> None:
    assert multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]) == [[19, 22], [43, 50]]


def test_a_row_times_a_column_is_one_number_and_the_other_way_a_table() -> None:
    assert multiply([[1, 2, 3]], [[4], [5], [6]]) == [[32]]
    assert multiply([[1], [2]], [[3, 4]]) == [[3, 4], [6, 8]]


@given(st.integers(1, 6), st.integers())
def test_the_identity_changes_nothing(size: int, seed: int) -> None:
    matrix = random_matrix(Random(seed), size)
    identity = [[1.0 if row == column else 0.0 for column in range(size)] for row in range(size)]
    assert multiply(matrix, identity) == multiply(identity, matrix) == matrix


def test_sizes_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        multiply([[1, 2]], [[1, 2]])


def test_the_trace_is_the_diagonal_s_sum() -> None:
    assert trace([[1, 9, 9], [9, 2, 9], [9, 9, 3]]) == 6


def test_a_random_matrix_is_square_and_its_numbers_lie_from_0_to_1() -> None:
    matrix = random_matrix(Random(1))
    assert [len(row) for row in matrix] == [SIZE] * SIZE
    assert all(0 <= number < 1 for row in matrix for number in row)


def test_one_request_is_the_trace_of_the_product_of_two_random_matrices() -> None:
    random = Random(7)
    assert traces_of_work(Random(7), 1) == trace(multiply(random_matrix(random), random_matrix(random)))


class Time:
    """A clock; a sleep is `late_s` longer than asked for."""

    def __init__(self, late_s: float = 0.0) -> None:
        self.now_s = 100.0
        self._late_s = late_s

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds + self._late_s


def disk(time: Time, *, ops_per_s: float, real_s: float = 0.0) -> Callable[[int, float], float]:
    def operation(_size: int) -> float:
        time.now_s += real_s
        return real_s

    slow = SlowDisk(ops_per_s, operation=operation, clock=time.clock, sleep=time.sleep)
    return slow.write_sync_read


@pytest.mark.parametrize("real_s", [0.0, 0.02, 0.05])
def test_an_operation_takes_the_device_for_its_time_whatever_the_real_disk_took_of_it(real_s: float) -> None:
    time = Time()
    assert disk(time, ops_per_s=20, real_s=real_s)(1024, time.now_s) == pytest.approx(0.05)


def test_a_real_disk_that_is_slower_is_not_hidden() -> None:
    time = Time()
    assert disk(time, ops_per_s=20, real_s=0.2)(1024, time.now_s) == pytest.approx(0.2)


def test_a_full_queue_is_worked_off_at_the_rate_though_each_sleep_ends_late() -> None:
    time = Time(late_s=0.01)
    write = disk(time, ops_per_s=20)
    asked_s = time.now_s
    for _ in range(100):
        write(1024, asked_s)
    assert time.now_s - asked_s == pytest.approx(100 / 20 + 0.01)


def test_an_idle_disk_saves_up_nothing() -> None:
    time = Time()
    write = disk(time, ops_per_s=20)
    write(1024, time.now_s)
    time.now_s += 60
    assert write(1024, time.now_s) == pytest.approx(0.05)


def test_what_the_real_disk_held_up_is_caught_up_no_further_than_its_bound() -> None:
    time = Time()
    held_up_s = [3.0]

    def operation(_size: int) -> float:
        time.now_s += held_up_s.pop() if held_up_s else 0.0
        return 0.0

    slow = SlowDisk(20, operation=operation, clock=time.clock, sleep=time.sleep)
    asked_s = time.now_s
    slow.write_sync_read(1024, asked_s)
    after_s = time.now_s
    for _ in range(20):
        slow.write_sync_read(1024, asked_s)
    assert time.now_s - after_s == pytest.approx(20 / 20 - MOST_LATE_S)
