"""On what was measured: the command, the machine, the versions (I/O)."""

import datetime
import json
import os
import platform
import re
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

from steelyard_loadtest.machine.found import Found


def kept(out: Path, now: dict[str, str], *, new: bool) -> dict[str, str]:
    """Return the conditions that the figures in `out` were measured under: those of now, if any are new."""
    file = out / "conditions.json"
    if not new and file.exists():
        earlier: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        return earlier
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(now, indent=1), encoding="utf-8")
    return now


def conditions(arguments: Sequence[str], found: Found, network: str) -> dict[str, str]:
    """Return them by name, in the order in which they are shown."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    cores = f"{psutil.cpu_count()} × {model[1] if model else platform.machine()}"
    memory_gb = psutil.virtual_memory().total / 1e9
    versions = dict(found.versions) | {"locust": version("locust"), "Python": platform.python_version()}
    return {
        "Command": f"`steelyard-loadtest {shlex.join(arguments)}`",
        "Date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "Machine": f"{cores}, {memory_gb:.0f} GB, {platform.system()} {platform.release()}, {network}",
        # Above a few tenths, somebody else was at work.
        "Load average before": f"{os.getloadavg()[0]:.1f}",
        "Versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
    }
