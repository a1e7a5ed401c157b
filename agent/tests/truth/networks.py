"""Two network namespaces with a cable between them: a network without other senders.

I/O only, Linux only, root only, and `ip` of iproute2.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

# From the block that RFC 5737 reserves for examples: no real network is shadowed by it.
BROADCAST = "192.0.2.255"


def why_no_ip() -> str | None:
    """Return why there is no `ip`; None if there is."""
    return None if shutil.which("ip") else "ip (Debian: iproute2) is not installed"


def why_not() -> str | None:
    """Return why no network namespaces can be made here; None if they can."""
    if os.geteuid() != 0:
        return "making a network namespace needs root"
    if why_no_ip() is not None:
        return why_no_ip()
    try:
        with cable():
            return None
    except subprocess.CalledProcessError as error:
        return f"no network namespaces can be made here: {error.stderr.strip()}"


@contextmanager
def cable() -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Connect two new namespaces; give for each the prefix of a command to run in it.

    nsenter changes the network only: `ip netns exec` also mounts a /sys without the cgroups.
    """
    ends = [f"steelyard-truth-{os.getpid()}-{end}" for end in "ab"]
    with ExitStack() as undo:
        for end in ends:
            _ip("netns", "add", end)
            undo.callback(_ip, "netns", "delete", end)
        peer = ("peer", "name", "cable", "netns", ends[1])
        _ip("link", "add", "cable", "netns", ends[0], "type", "veth", *peer)
        for number, end in enumerate(ends, 1):
            _ip("-n", end, "address", "add", f"192.0.2.{number}/24", "broadcast", BROADCAST, "dev", "cable")
            _ip("-n", end, "link", "set", "cable", "up")
        one, other = (["nsenter", f"--net=/run/netns/{end}", "--"] for end in ends)
        yield one, other


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
