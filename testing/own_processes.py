"""The processes that a test has started: is one left of them?"""

import contextlib

import psutil

from testing import warm_start


def own_descendants() -> set[psutil.Process]:
    """Return this process's descendants, without the forking processes.

    A forking process is the child of the first worker that needs it, and forks for all workers of the run.
    """
    own: set[psutil.Process] = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if not any(warm_start.SERVE in argument for argument in child.cmdline()):
                own |= {child, *child.children(recursive=True)}
    return own
