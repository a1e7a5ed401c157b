"""How late answers are, as ordered while they are on their way."""

import asyncio


class Lateness:
    """A delay that can be changed at any time, also for what waits already.

    delay_s: None holds everything back until it is a number again.
    """

    def __init__(self) -> None:
        self.delay_s: float | None = 0.0
        self._changed = asyncio.Event()

    def set(self, delay_s: float | None) -> None:
        """Let what comes, and what waits, be so late."""
        self.delay_s = delay_s
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, came_s: float) -> None:
        """Return when what came at that time of the event loop's clock is due."""
        while True:
            changed = self._changed
            left_s = None
            if self.delay_s is not None:
                left_s = came_s + self.delay_s - asyncio.get_running_loop().time()
                if left_s <= 0:
                    return
            try:
                await asyncio.wait_for(changed.wait(), left_s)
            except TimeoutError:
                return
