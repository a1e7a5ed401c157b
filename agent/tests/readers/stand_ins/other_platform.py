"""Runs the agent as on another platform than Linux: `python other_platform.py darwin --once`.

Modules that the platform's Python lacks are hidden from the agent, and /proc and /sys may not be opened.
Its psutil is a stand-in with the surface that psutil documents for the platform. Each of its readings is
`STEP_S` of busy time after the previous one.
"""

import itertools
import os
import signal
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import cast

import steelyard_agent.__main__  # noqa: F401 - so that all its imports are done before they are hidden

STEP_S = 0.4

HIDDEN = {
    os: ("sysconf", "sched_getaffinity", "O_CLOEXEC", "O_NONBLOCK", "getuid", "geteuid", "fork", "uname"),
    signal: ("SIGHUP", "SIGUSR1", "SIGUSR2", "pthread_sigmask", "sigtimedwait", "sigwait", "sigwaitinfo"),
    time: ("clock_gettime", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC"),
}
LINUX_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "uvloop")

# The parts of a reading's busy time, as shares of STEP_S, and times that are not busy or counted twice.
CPU_TIMES = {
    "darwin": {"user": 0.5, "nice": 0.25, "system": 0.25, "idle": 9},
    "freebsd14": {"user": 0.5, "nice": 0.125, "system": 0.25, "idle": 9, "irq": 0.125},
    "win32": {"user": 0.5, "system": 0.5, "idle": 9, "interrupt": 0.25, "dpc": 0.125},
}


def psutil_of(platform: str) -> SimpleNamespace:
    """Return the stand-in for psutil on the platform."""
    readings = itertools.count(1)
    loopback = {"darwin": "lo0", "freebsd14": "lo0", "win32": "Loopback Pseudo-Interface 1"}[platform]

    def cpu_times() -> SimpleNamespace:
        so_far_s = next(readings) * STEP_S
        return SimpleNamespace(**{name: share * so_far_s for name, share in CPU_TIMES[platform].items()})

    def net_io_counters(*, pernic: bool, nowrap: bool) -> dict[str, SimpleNamespace]:
        assert (pernic, nowrap) == (True, False)
        counted = SimpleNamespace(bytes_sent=10, bytes_recv=20)
        return {loopback: counted, "em0": counted, "tap0": counted}

    def nic(speed: int, flags: str) -> SimpleNamespace:
        return SimpleNamespace(speed=speed, flags="" if platform == "win32" else flags)

    def disk_io_counters(*, perdisk: bool, nowrap: bool = False) -> dict[str, SimpleNamespace]:
        assert (perdisk, nowrap) == (True, False)
        counted = SimpleNamespace(read_time=5, write_time=5)
        if platform == "freebsd14":
            counted.busy_time = 5
        return {"ada0": counted}

    return SimpleNamespace(
        LINUX=False,
        FREEBSD=platform == "freebsd14",
        Error=Exception,
        Process=object,
        STATUS_ZOMBIE="zombie",
        STATUS_DEAD="dead",
        cpu_count=lambda: 4,
        cpu_times=cpu_times,
        virtual_memory=lambda: SimpleNamespace(total=16 * 2**30, available=12 * 2**30),
        net_io_counters=net_io_counters,
        net_if_stats=lambda: {
            loopback: nic(0, "up,loopback,running"),
            "em0": nic(1000, "up,running"),
            "tap0": nic(0, "up"),
        },
        disk_io_counters=disk_io_counters,
    )


def forbid_linux_files(event: str, arguments: tuple[object, ...]) -> None:
    """Let nothing below /proc and /sys be opened."""
    if event in {"open", "os.listdir", "os.scandir"} and str(arguments[0]).startswith(("/proc", "/sys")):
        raise OSError(f"{arguments[0]}: there is no such folder on this platform")


def main() -> int:
    platform = sys.argv.pop(1)
    for module, names in HIDDEN.items():
        for name in names:
            delattr(module, name)
    for name in list(sys.modules):
        if name.partition(".")[0] in {"steelyard_agent", "steelyard_protocol", "psutil", "_psutil_linux"}:
            del sys.modules[name]
    absent = cast(ModuleType, None)  # an import of it then fails
    sys.modules.update(dict.fromkeys(LINUX_MODULES, absent))
    sys.modules["psutil"] = cast(ModuleType, psutil_of(platform))
    sys.platform = platform
    sys.addaudithook(forbid_linux_files)
    from steelyard_agent.__main__ import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
