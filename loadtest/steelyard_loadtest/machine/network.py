"""The place of measurements: a network of its own, some of the CPUs, enough descriptors."""

import contextlib
import fcntl
import os
import random
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from steelyard_loadtest.machine.errors import SetupError

INSIDE = "STEELYARD_LOADTEST_NETWORK"
"""Set in the environment of the process that runs in the private network."""

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1

FILES = 65_536
"""A connection to each of 10,000 servers and back, with a reserve."""

NETWORK_PRIVATE = "a private network namespace"
NETWORK_SHARED = "this machine's network"


def enter(arguments: Sequence[str], *, mounts: bool = False) -> str:
    """Start this program again in a private network namespace; return the network's name once in it.

    If that is not allowed, print it and continue in the machine's own network. mounts: private mounts as
    well; these are required, so it raises SetupError instead.
    """
    namespaces = ["--net", "--mount"] if mounts else ["--net"]
    if os.environ.get(INSIDE):
        if mounts:
            require_private()
        raise_loopback()
        return NETWORK_PRIVATE
    why = _why_not(namespaces)
    if why is not None:
        if mounts:
            raise SetupError(f"{why}; this makes a host of each part: run it as root, or with sudo")
        print(f"{why}; continuing in this machine's network, where others may interfere", file=sys.stderr)
        return NETWORK_SHARED
    command = ["unshare", *namespaces, "--", sys.executable, "-m", "steelyard_loadtest", *arguments]
    os.execvpe(command[0], command, os.environ | {INSIDE: "1"})  # noqa: S606
    raise AssertionError("not reached")


def require_private() -> None:
    """Raise SetupError if this network leads anywhere: hosts may only be made in an empty one."""
    # One line is the heading. An unused namespace has no other line; any machine's network has.
    if len(Path("/proc/self/net/route").read_text().splitlines()) > 1:
        raise SetupError("hosts are made in a network of their own (as root: unshare --net --mount COMMAND)")


def free_ports(count: int) -> list[int]:
    """Return TCP ports that were free a moment ago, below those for outgoing connections.

    They begin anywhere, because their users listen only later: another program that asks meanwhile would get
    the same lowest ones.
    """
    ports: list[int] = []
    first, last = 20_001, 32_000
    begin = random.randrange(first, last)
    for port in (*range(begin, last), *range(first, begin)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("0.0.0.0", port))  # noqa: S104 - as the servers' wildcard will
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"no {count} free ports")


def raise_files() -> int:
    """Let this process and its children open as many files as allowed; return the number."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def divide_cpus() -> tuple[set[int], set[int]]:
    """Return the CPU for the proxy, the last one, and those for everything else; a single CPU is both."""
    mine = sorted(os.sched_getaffinity(0))
    return ({mine[-1]}, set(mine[:-1])) if len(mine) > 1 else (set(mine), set(mine))


def raise_loopback() -> None:
    """Bring the loopback interface of this network up."""
    # The same as `ip link set lo up`, for machines without `ip`.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        _, flags = struct.unpack("16sh22x", fcntl.ioctl(control, SIOCGIFFLAGS, request))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def _why_not(namespaces: Sequence[str]) -> str | None:
    if os.geteuid() != 0:
        return "a private network namespace needs root"
    try:
        done = subprocess.run(["unshare", *namespaces, "true"], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no private network namespace ({error})"
    return None if done.returncode == 0 else f"no private network namespace ({done.stderr.strip()})"
