"""The work of one request: the product of two random square matrices.

Pure; the random numbers come from the caller. In plain Python on purpose: the
locust study's server multiplies two 20x20 matrices in Python, and the point is
to be busy for a moment, not to be quick.
"""

from random import Random

Matrix = list[list[float]]

SIZE = 20  # the study's size; about 0.5 ms of CPU on a 2020s core


def random_matrix(random: Random, size: int = SIZE) -> Matrix:
    """Fill a size x size matrix with numbers in [0, 1)."""
    return [[random.random() for _ in range(size)] for _ in range(size)]


def multiply(left: Matrix, right: Matrix) -> Matrix:
    """Multiply two matrices whose inner sizes agree."""
    columns = list(zip(*right, strict=True))
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in left]


def trace(matrix: Matrix) -> float:
    """Sum the diagonal."""
    return sum(row[position] for position, row in enumerate(matrix))


def one_request_of_work(random: Random) -> float:
    """Multiply two random 20x20 matrices and give the product's trace."""
    return trace(multiply(random_matrix(random), random_matrix(random)))
