"""The demo server's command line: what may be given, and what is refused."""

import argparse
import os
import re
from functools import partial
from pathlib import Path

from steelyard_loadtest.server.bounds import number, whole
from steelyard_loadtest.server.cpu_limit import LOWEST_CORES
from steelyard_loadtest.server.request_checks import SLEEP_MS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # a peer's name in every Steelyard format
# From one operation in ten seconds to more than the emulation's own sleep (0.1 ms late) can tell apart.
LOWEST_DISK_OPS, HIGHEST_DISK_OPS = 0.1, 5000


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser."""
    made = argparse.ArgumentParser(prog="python -m steelyard_loadtest.server", description=description)
    flag = made.add_argument
    flag("--name", required=True, type=_name, help="the peer's name, sent as X-Served-By")
    flag("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    flag("--port", required=True, type=whole(0, 65_535, "port"), help="port to listen on; 0 takes a free one")
    cores = number(LOWEST_CORES, os.cpu_count() or 1, "cores", " (this machine's)")
    told = "CPU limit, by a control group's quota as root, else by pauses after work (default: none)"
    flag("--cpu-limit", type=cores, metavar="CORES", help=told)
    delay_ms = number(0, SLEEP_MS.highest, "milliseconds")
    told = "/ does no CPU work and answers so much later (default: it works)"
    flag("--delay-ms", type=delay_ms, default=0.0, metavar="MS", help=told)
    ops = number(LOWEST_DISK_OPS, HIGHEST_DISK_OPS, "operations a second")
    told = "/io queues for one emulated disk that does so many operations a second (default: the real)"
    flag("--disk-ops", type=ops, metavar="OPS_PER_S", help=told)
    told = "at most so many requests at a time, the others wait; /metrics says how many (default: no bound)"
    flag("--workers", type=whole(1, 9999, "workers"), metavar="N", help=told)
    file = partial(flag, type=Path, metavar="FILE")
    file("--pid-file", help="write the process id there")
    told = "keep the number of requests answered there, as 8 bytes, little endian"
    file("--count-file", help=told)
    told = "send the load report that the agent keeps there (steelyard-agent --orca FILE) with each answer"
    file("--orca-file", help=told)
    return made


def _name(text: str) -> str:
    if NAME.fullmatch(text):
        return text
    raise argparse.ArgumentTypeError(
        "1 to 64 letters, digits, dots, dashes or underscores, the first no mark"
    )
