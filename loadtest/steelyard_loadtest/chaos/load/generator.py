"""The load's own process: the open loop with numbered requests, whose record can be read while it goes on.

Run by its path, with the arguments of `task`; it ends by itself, or when it is killed.
"""

import asyncio
import gc
import sys
import time
from urllib.parse import urlsplit

import uvloop

from steelyard_loadtest.chaos.load.connection import Strict
from steelyard_loadtest.chaos.load.questions import Numbered
from steelyard_loadtest.lab.generators.open_loop import SWEEP_S, Sender
from steelyard_loadtest.lab.generators.pacer import Pacer
from steelyard_loadtest.lab.generators.pool import Pool
from steelyard_loadtest.lab.generators.recording import Recording
from steelyard_loadtest.lab.generators.task import Task, parse_task
from steelyard_loadtest.machine.network import raise_files


async def run(load: Task) -> None:
    """Make the load; what has ended is in the record SWEEP_S later."""
    recording = Recording(load.folder)
    at = urlsplit(load.url)
    questions = Numbered(at.netloc, at.path or "/")
    pool = Pool(load.url, recording.add, questions=questions, connection=Strict)
    sender = Sender(Pacer(rate_per_s=load.level, seconds=load.seconds), pool)
    recording.announce(sender.began_s)
    while not sender.done or pool.under_way:
        await asyncio.sleep(SWEEP_S)
        pool.give_up(time.monotonic() - load.timeout_s)
        recording.flush()
    recording.end(time.process_time())


if __name__ == "__main__":
    raise_files()
    gc.freeze()  # what is imported need not be looked through for garbage while requests wait
    uvloop.run(run(parse_task(sys.argv[1:])))
