"""Repeated work beside other work, in a thread of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from steelyard_loadtest.machine.errors import ProgramError


@contextmanager
def repeating(work: Callable[[], object], *, interval_s: float) -> Iterator[None]:
    """Do `work` each `interval_s` while the block runs; a failure is tried again.

    At the end it raises ProgramError if the work never succeeded. A bug in `work` ends it and is raised.
    """
    stopping, done, errors, mistakes = Event(), 0, list[Exception](), list[Exception]()

    def repeat() -> None:
        nonlocal done
        while True:
            try:
                work()
                done += 1
            except (OSError, ProgramError) as error:
                errors[:] = [error]
            except Exception as error:
                mistakes.append(error)
                return
            if stopping.wait(interval_s):
                return

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
    if mistakes:
        raise mistakes[0]
    if not done:
        raise ProgramError(f"the repeated work never succeeded: {errors[0]}")
