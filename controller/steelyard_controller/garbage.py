"""Garbage collection at long intervals, and not while a tick makes its objects.

A closed connection leaves asyncio's transport in a reference cycle: seven objects and a kilobyte. With few
servers, it would take hours until there are as many new objects as `THRESHOLDS` has.
"""

import asyncio
import gc
import time

# The new objects before Python collects by itself, for gc.set_threshold. A tick makes ten objects a server,
# and most of them last until the next tick. With 50,000 new objects, collecting during a tick takes 7 % of a
# tick of 10,000 servers, and frees nothing. The remains of a flood of connections are some 70 MB until then.
THRESHOLDS = (500_000, 20, 20)

EVERY_S = 10.0

# The largest share of the time. A collection takes 0.1 ms for one upstream of ten servers, 0.1 s for 2,000.
MOST_SHARE = 0.001


async def collect_periodically() -> None:
    """Collect garbage every `EVERY_S`, or less often so that it takes at most `MOST_SHARE` of the time."""
    gc.freeze()  # Imported modules need no inspection.
    took_s = 0.0
    while True:
        await asyncio.sleep(max(EVERY_S, took_s / MOST_SHARE))
        began_s = time.thread_time()
        gc.collect()
        took_s = time.thread_time() - began_s
