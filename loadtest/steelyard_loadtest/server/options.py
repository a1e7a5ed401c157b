"""The demo server's command line: what may be given, and what is refused."""

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path

from steelyard_loadtest.server.arguments import SLEEP_MS
from steelyard_loadtest.server.limits import LOWEST_CORES, MEANS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # a peer's name in every Steelyard format
# From one operation in ten seconds to more than the emulation's own sleep (0.1 ms late) can tell apart.
LOWEST_DISK_OPS, HIGHEST_DISK_OPS = 0.1, 5000


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser."""
    made = argparse.ArgumentParser(prog="python -m steelyard_loadtest.server", description=description)
    made.add_argument("--name", required=True, type=_name, help="the peer's name, sent as X-Served-By")
    made.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    made.add_argument("--port", required=True, type=_port, help="port to listen on; 0 takes a free one")
    cores = _number("a number of cores", LOWEST_CORES, os.cpu_count() or 1, " (this machine's)")
    made.add_argument("--cpu-limit", type=cores, metavar="CORES", help="CPU limit (default: none)")
    made.add_argument(
        "--limit-by",
        choices=MEANS,
        default="auto",
        help="cgroup: a quota, needs root; process: stop and continue signals; auto: cgroup where possible",
    )
    made.add_argument(
        "--delay-ms",
        type=_number("a number of milliseconds", 0, SLEEP_MS.highest),
        default=0.0,
        metavar="MS",
        help="/ does no CPU work and answers so much later (default: it works)",
    )
    made.add_argument(
        "--disk-ops",
        type=_number("a number of operations a second", LOWEST_DISK_OPS, HIGHEST_DISK_OPS),
        metavar="OPS_PER_S",
        help="/io queues for one emulated disk that does so many operations a second (default: the real)",
    )
    made.add_argument("--pid-file", type=Path, metavar="FILE", help="write the process id there")
    made.add_argument(
        "--count-file",
        type=Path,
        metavar="FILE",
        help="keep the number of requests answered there, as 8 bytes, little endian",
    )
    made.add_argument(
        "--orca-file",
        type=Path,
        metavar="FILE",
        help="send the load report that the agent keeps there (steelyard-agent --orca FILE) with each answer",
    )
    return made


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "1 to 64 letters, digits, dots, dashes or underscores, the first no mark"
        )
    return text


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 2**16):
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


def _number(what: str, lowest: float, highest: float, whose: str = "") -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"{what} from {lowest:g} to {highest:g}{whose}")
        return number

    return parse
