"""The work of one request."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.server.matrices import SIZE, multiply, one_request_of_work, random_matrix, trace


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
    assert one_request_of_work(Random(7)) == trace(multiply(random_matrix(random), random_matrix(random)))
