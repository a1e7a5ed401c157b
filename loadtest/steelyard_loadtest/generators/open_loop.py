"""The open loop: requests at a constant total rate, with latencies from their due times.

Run by its path, with the arguments of `task`. Ended requests are in the record SWEEP_S later. A request
without an idle connection opens one. So neither a slow server nor a stalled generator reduces the load or
hides a wait (see `schedule`).

It takes 7 % of a core for 400 requests per second, 24 % for 2000 and 47 % for 5000 (measured as in
locust_users). Half of its latencies were below 0.25 ms then.
"""

import asyncio
import gc
import math
import random
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import uvloop

from steelyard_loadtest.generators.job import Task, parse_task
from steelyard_loadtest.generators.pool import Pool
from steelyard_loadtest.generators.recording import Recording
from steelyard_loadtest.generators.schedule import Pacer
from steelyard_loadtest.generators.tally import UNANSWERED
from steelyard_loadtest.machine.network import raise_files

LEAD_S = 0.05
"""Time from the start until the first request is due: everything is ready by then."""

SWEEP_S = 0.05
"""Interval of the search for requests past their time-out: a timer each would cost more than a request."""


class Sender:
    """Hands each request to one of the pools when it is due, and missed ones at once.

    Event loops wait with epoll, which counts whole milliseconds: an error of 10 % at 5 ms of latency. So the
    process's own timer wakes it, by a signal, to the tenth of a millisecond.
    """

    def __init__(self, pacer: Pacer, pools: Sequence[Pool]) -> None:
        self.began_s = time.monotonic() + LEAD_S
        self._pacer, self._pools = pacer, pools
        self._sent = 0
        asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, self._send)
        self._wake(self.began_s)

    @property
    def done(self) -> bool:
        """Return whether the last request has been sent."""
        return self._sent >= self._pacer.requests

    def _send(self) -> None:
        due = self._pacer.due_by(time.monotonic() - self.began_s)
        while self._sent < due:
            self._sent += 1
            random.choice(self._pools).send(self.began_s + self._pacer.due_s(self._sent - 1))
        if not self.done:
            self._wake(self.began_s + self._pacer.due_s(self._sent))

    def _wake(self, at_s: float) -> None:
        # At once if the moment has passed; 0 would mean never.
        signal.setitimer(signal.ITIMER_REAL, max(at_s - time.monotonic(), 1e-6))


async def run(load: Task, **how: Any) -> None:  # noqa: ANN401 - of Pool
    """Make the load, and leave its record in the load's folder; how: the pool's requests and connections."""
    recording = Recording(load.folder)
    pools = [Pool(url, recording.add, **how) for url in load.url.split()]
    sender = Sender(Pacer(rate_per_s=load.level, seconds=load.warm_up_s + load.seconds), pools)
    began_s = sender.began_s + load.warm_up_s
    until_s = began_s + load.seconds
    recording.announce(began_s)
    cpu_s = asyncio.create_task(_cpu_s(began_s, until_s))
    while not sender.done or (
        any(pool.under_way for pool in pools) and time.monotonic() < until_s + load.finish_s
    ):
        await asyncio.sleep(SWEEP_S)
        for pool in pools:
            pool.give_up(time.monotonic() - load.timeout_s)
        recording.flush()
    for pool in pools:
        pool.give_up(math.inf, UNANSWERED)
    recording.end(await cpu_s)


async def _cpu_s(began_s: float, until_s: float) -> float:
    await asyncio.sleep(began_s - time.monotonic())
    before_s = time.process_time()
    await asyncio.sleep(until_s - time.monotonic())
    return time.process_time() - before_s


def main(**how: Any) -> None:  # noqa: ANN401 - of Pool
    """Make the load of the command line."""
    raise_files()
    gc.freeze()  # the collector need not look through imported modules while requests wait
    uvloop.run(run(parse_task(sys.argv[1:]), **how))


if __name__ == "__main__":
    main()
