"""The work of one request: a product of matrices, or a temporary file; and an emulated slow disk.

In plain Python on purpose: the locust study's server multiplies two 20x20 matrices in Python, and the point
is to be busy for a moment, not to be quick.
"""

import os
import tempfile
import time
from collections.abc import Callable
from random import Random

Matrix = list[list[float]]

SIZE = 20  # the study's size; about 0.5 ms of CPU on a 2020s core

CHUNK_BYTES = 1024**2

MOST_LATE_S = 0.1
"""Most time that an emulated disk catches up: some late sleeps, not a time in which the real one was slow."""


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


def traces_of_work(random: Random, times: int) -> float:
    """Multiply two random 20x20 matrices this many times; return the sum of the products' traces."""
    return sum(trace(multiply(random_matrix(random), random_matrix(random))) for _ in range(times))


def write_sync_read(size: int) -> float:
    """Write `size` bytes to a file without a name, fsync, read them back; return the seconds it took.

    Raises OSError if the disk is full or not writable.
    """
    started_s = time.monotonic()
    with tempfile.TemporaryFile() as file:
        for offset in range(0, size, CHUNK_BYTES):
            # Not zeros: some file systems and disks store those without writing.
            file.write(os.urandom(min(CHUNK_BYTES, size - offset)))
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        while file.read(CHUNK_BYTES):
            pass
    return time.monotonic() - started_s


class SlowDisk:
    """An emulated slow disk: one operation at a time, each taking 1/ops_per_s.

    An operation is a real `write_sync_read` on this machine's disk, of any size; the device then stays taken
    until its time is up. Nothing in the kernel is slowed down. The queue for one slow device is emulated, and
    if the real disk is slower, its own time counts. The queue is the caller's: a pool of one thread. `clock`
    and `sleep` are in seconds.
    """

    def __init__(
        self,
        ops_per_s: float,
        *,
        operation: Callable[[int], float] = write_sync_read,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._takes_s = 1 / ops_per_s
        self._operation, self._clock, self._sleep = operation, clock, sleep
        self._free_s = clock()

    def write_sync_read(self, size: int, asked_s: float) -> float:
        """Do an operation that was asked for at asked_s; return the seconds it took. Raises OSError."""
        started_s = self._clock()
        # Counted from when the device was free or asked, not from when the thread woke. On a busy machine a
        # sleep ends some ms late, and a disk with a full queue would do a fourth less than declared.
        begins_s = max(self._free_s, asked_s, started_s - MOST_LATE_S)
        self._free_s = begins_s + self._takes_s
        self._operation(size)
        left_s = self._free_s - self._clock()
        if left_s > 0:
            self._sleep(left_s)
        return self._clock() - started_s
