"""When garbage is collected: now and then, and not while a tick makes its objects.

A connection that has closed is asyncio's transport in a cycle with itself: seven objects and a kilobyte. To
wait until there are `AFTER` new objects would be to wait for hours where there are few servers.
"""

import asyncio
import gc
import time

# A tick makes ten objects a server, most of which last until the next one. To look through them while it
# makes them takes 7 % of a tick of 10,000 servers at 50,000 objects, and finds nothing. What a flood of
# connections leaves until then is some 70 MB.
AFTER = (500_000, 20, 20)

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
