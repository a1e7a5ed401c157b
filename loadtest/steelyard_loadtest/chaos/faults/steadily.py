"""Do something again and again beside the load, until told to stop (I/O: a thread)."""

from collections.abc import Callable, Mapping
from threading import Event, Thread

from steelyard_loadtest.machine.errors import ProgramError


class Steadily:
    """Does `work` each `interval_s` from now on. What goes wrong once is tried again."""

    def __init__(self, work: Callable[[], None], *, interval_s: float) -> None:
        self._work, self._interval_s = work, interval_s
        self._stopping = Event()
        self._done = 0
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it. Raises ProgramError when the work was never done."""
        self._stopping.set()
        self._thread.join()
        if self._done == 0:
            raise ProgramError(f"what the fault does was never done: {self._error}")

    @staticmethod
    def stop_in(notes: Mapping[str, object]) -> None:
        """End the one that a fault's beginning left in its notes, if it came so far. Raises ProgramError."""
        for noted in notes.values():
            if isinstance(noted, Steadily):
                noted.stop()

    def _run(self) -> None:
        while True:
            try:
                self._work()
                self._done += 1
            except (OSError, ProgramError) as error:
                self._error = error
            if self._stopping.wait(self._interval_s):
                return
