"""Work of a known size, for comparison with the agent's figures.

I/O only. Each kind of work is its own process, and measures its work in another
way than the agent does.

    python known_work.py hold BYTES                 memory
    python known_work.py cache FILE BYTES           a file in the page cache, all of it on the disk too
    python known_work.py write FILE PER_S BYTES     writes of BYTES, past the page cache
    python known_work.py send BROADCAST BYTES_PER_S UDP datagrams; bytes as an interface counts them

Each prints a line once it is at work, and its result at SIGTERM, as JSON. The last two count their work, and
the result has a look at the count after each step.
"""

import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Look = tuple[float, float]
"""Seconds since 1970, and the count of the work then."""

Report = dict[str, Any]

PAGE_BYTES = 4096
CHUNK_BYTES = 1024 * 1024

# A file of a fixed size is written over and over: a new block would be work for the journal too.
FILE_BYTES = 16 * CHUNK_BYTES

DATAGRAM_BYTES = 1400
# An interface counts the frame: Ethernet 14, IPv4 20 and UDP 8 bytes more.
FRAME_BYTES = DATAGRAM_BYTES + 42
DISCARD_PORT = 9

# Datagrams go in small bursts: a sleep for each would cost more than the sending.
BURST_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A process at work. After its end, `seen` has the looks at its count, and `report` has other figures."""

    process: "subprocess.Popen[str]"
    report: Report
    seen: list[Look]


@contextmanager
def script(*arguments: str, prefix: Sequence[str] = ()) -> Iterator[Work]:
    """Run this file with arguments while the context lasts, steady from its first moment on."""
    command = [*prefix, sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        work = Work(process=process, report={}, seen=[])
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError(f"{' '.join(arguments)} did not start")
            yield work
            process.terminate()
            report = json.loads(process.stdout.readline())
            work.seen.extend((at_s, count) for at_s, count in report.pop("seen", ()))
            work.report.update(report)
        finally:
            process.kill()


def _paced(interval_s: float, step: Callable[[], float]) -> list[Look]:
    """Call `step` at every interval from now until SIGTERM; return the looks at the count that it returns.

    Step n is due at n x interval, so that the mean rate holds, however long a step takes.
    """
    seen = [(time.time(), 0.0)]
    print("at it", flush=True)
    due_s = time.monotonic()
    while signal.sigtimedwait([signal.SIGTERM], max(0.0, due_s - time.monotonic())) is None:
        count = step()
        seen.append((time.time(), count))
        due_s += interval_s
    return [*seen, (time.time(), seen[-1][1])]


def _hold(size: str) -> Report:
    held = bytearray(int(size))
    held[::PAGE_BYTES] = b"\x01" * len(range(0, len(held), PAGE_BYTES))  # a page is there once written
    print("at it", flush=True)
    signal.sigwait([signal.SIGTERM])
    return {"bytes": len(held)}


def _cache(path: str, size: str) -> Report:
    with Path(path).open("wb") as file:
        for _ in range(int(size) // CHUNK_BYTES):
            file.write(bytes(CHUNK_BYTES))
        file.flush()
        os.fsync(file)  # a page not yet on the disk cannot be reclaimed at once
    print("at it", flush=True)
    signal.sigwait([signal.SIGTERM])
    return {"bytes": int(size)}


def _write(path: str, per_s: str, size: str) -> Report:
    Path(path).write_bytes(b"\x01" * FILE_BYTES)
    file = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
    os.fsync(file)
    block = mmap.mmap(-1, int(size))  # aligned to a page, as O_DIRECT wants it
    count, waited_s = 0, 0.0

    def step() -> float:
        nonlocal count, waited_s
        begun_s = time.monotonic()
        os.pwrite(file, block, count * int(size) % FILE_BYTES)
        waited_s += time.monotonic() - begun_s
        count += 1
        return count

    seen = _paced(1 / float(per_s), step)
    return {"seen": seen, "busy": waited_s / (seen[-1][0] - seen[0][0])}


def _send(address: str, bytes_per_s: str) -> Report:
    burst = max(1, round(float(bytes_per_s) * BURST_S / FRAME_BYTES))
    datagram, sent = bytes(DATAGRAM_BYTES), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        # To a broadcast address: it needs no listener, and nobody reports an unreachable port.
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        udp.connect((address, DISCARD_PORT))

        def step() -> float:
            nonlocal sent
            for _ in range(burst):
                udp.send(datagram)
            sent += burst
            return sent * FRAME_BYTES

        return {"seen": _paced(burst * FRAME_BYTES / float(bytes_per_s), step)}


def main() -> None:
    """Do one kind of work until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    kind, *arguments = sys.argv[1:]
    kinds: dict[str, Callable[..., Report]] = {
        "hold": _hold,
        "cache": _cache,
        "write": _write,
        "send": _send,
    }
    print(json.dumps(kinds[kind](*arguments)), flush=True)


if __name__ == "__main__":
    main()
