"""When garbage is collected: after many new objects, as a tick needs it, and now and then.

A connection that has closed is asyncio's transport in a cycle with itself: seven objects and a kilobyte, of
which CPython takes notice only once there are `AFTER` new ones. At three connections a second that would be
in forty minutes, and seven megabytes.
"""

import asyncio
import gc
import time

# A tick makes ten objects a server, most of which last until the next one. To look through them after every
# 700, as Python does, takes 5 to 10 % of a tick and finds nothing.
AFTER = (50_000, 20, 20)

EVERY_S = 10.0

# Of the time: of one upstream of ten servers a collection takes 0.1 ms, of 2,000 of them 0.1 s.
MOST_SHARE = 0.001


async def collect_now_and_then() -> None:
    """Collect garbage each `EVERY_S`, or so seldom that it takes no more than `MOST_SHARE`."""
    gc.freeze()  # what is imported need not be looked through each time
    took_s = 0.0
    while True:
        await asyncio.sleep(max(EVERY_S, took_s / MOST_SHARE))
        began_s = time.thread_time()
        gc.collect()
        took_s = time.thread_time() - began_s
