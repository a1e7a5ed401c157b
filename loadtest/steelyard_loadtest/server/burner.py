"""One CPU burner: spins until its time is up or its parent has ended.

Run as `python burner.py SECONDS PARENT_PID CORES`, a separate process. As a thread it would compete with the
server for Python's lock, and the server would be slow for another reason than a neighbour. It only imports
what starts quickly, because imports take long under a limit of 0.15 cores.
"""

import os
import sys
import time


def spin(deadline_s: float, parent: int, cores: float) -> None:
    """Use this much CPU until the monotonic clock reads deadline_s, or `parent` has ended."""
    while time.monotonic() < deadline_s and os.getppid() == parent:
        began_s = time.process_time()
        for _ in range(20_000):  # about 0.5 ms, so both conditions are seen soon
            pass
        if cores < 1:
            time.sleep((time.process_time() - began_s) * (1 / cores - 1))


if __name__ == "__main__":
    spin(time.monotonic() + float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
