"""The demo server's command line: its flags and their bounds."""

import argparse
import os
import re
from functools import partial
from pathlib import Path

from steelyard_loadtest.server.bounds import number, whole
from steelyard_loadtest.server.cpu_limit import LOWEST_CORES
from steelyard_loadtest.server.request_checks import SLEEP_MS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # a peer's name in every Steelyard format
# From one operation in ten seconds to more than the emulation's own sleep (0.1 ms late) can distinguish.
LOWEST_DISK_OPS, HIGHEST_DISK_OPS = 0.1, 5000


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser."""
    made = argparse.ArgumentParser(prog="python -m steelyard_loadtest.server", description=description)
    flag = made.add_argument
    flag("--name", required=True, type=_name, help="the peer's name, sent as X-Served-By")
    flag("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    flag("--port", required=True, type=whole(0, 65_535, "port"), help="port to listen on; 0 takes a free one")
    cores = number(LOWEST_CORES, os.cpu_count() or 1, "cores", " (this machine's)")
    limit = "CPU limit (default none)"
    flag("--cpu-limit", type=cores, metavar="CORES", help=limit)
    by = "what holds the limit; quota: pauses if no control group can be made (default: %(default)s)"
    flag("--limit-by", choices=("quota", "pauses"), default="quota", help=by)
    delay_ms = number(0, SLEEP_MS.highest, "milliseconds")
    delay = "delay of answers to /, instead of CPU work (default: it works)"
    flag("--delay-ms", type=delay_ms, default=0.0, metavar="MS", help=delay)
    ops = number(LOWEST_DISK_OPS, HIGHEST_DISK_OPS, "operations a second")
    disk = "operations a second of one emulated disk for /io (default: the real disk)"
    flag("--disk-ops", type=ops, metavar="OPS_PER_S", help=disk)
    workers = "maximum of requests at a time, while others wait; /metrics shows them (default: no bound)"
    flag("--workers", type=whole(1, 9999, "workers"), metavar="N", help=workers)
    file = partial(flag, type=Path, metavar="FILE")
    file("--pid-file", help="file for the process id")
    file("--count-file", help="file for the number of answered requests, 8 bytes, little endian")
    file("--orca-file", help="the agent's load report, sent with each answer (steelyard-agent --orca FILE)")
    return made


def _name(text: str) -> str:
    if NAME.fullmatch(text):
        return text
    raise argparse.ArgumentTypeError(
        "1 to 64 letters, digits, dots, dashes or underscores, the first no mark"
    )
