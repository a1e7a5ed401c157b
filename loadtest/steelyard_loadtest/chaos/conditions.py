"""On what a run was made: the command, the machine, the versions (I/O)."""

import platform
import re
import subprocess
from collections.abc import Sequence

from steelyard_loadtest.chaos.load.running import TIMEOUT_S
from steelyard_loadtest.lab.conditions import conditions
from steelyard_loadtest.machine import found, network

ASK_S = 20.0

STORES = (("memcached", ["memcached", "-V"]), ("Redis", ["redis-server", "--version"]))


def known(arguments: Sequence[str], rate_per_s: float) -> dict[str, str]:
    """Return them by name, in the order in which they are shown. Raises SetupError without nginx."""
    programs = found.find(None)
    versions = {"nginx": programs.versions["nginx"].removeprefix("nginx/")}
    versions |= {name: _version(command) for name, command in STORES}
    versions["Python"] = platform.python_version()
    load = f"{rate_per_s:g} GET requests/s, open loop, each given {TIMEOUT_S:g} s, each answer checked"
    mine = {
        "Load": load,
        "Versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
    }
    return conditions(arguments, programs, f"{network.NETWORK_PRIVATE} for each host") | mine


def _version(command: Sequence[str]) -> str:
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ASK_S).stdout
    except OSError:
        return "missing"
    match = re.search(r"\d+\.\d[\w.]*", said)
    return match[0] if match else "of an unknown version"
