"""The conditions of a measurement: the command, the machine, the versions of programs (I/O)."""

import datetime
import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import psutil

from steelyard_loadtest.reporting.publish import write_text

ANSWERS_WITHIN_S = 20.0
CONDITIONS = "conditions.json"
"""The file of a results folder."""

BETWEEN = "; "

UNKNOWN, MISSING = "of an unknown version", "missing"


def conditions(
    arguments: Sequence[str], versions: Mapping[str, str], *, on_machine: Sequence[str] = ()
) -> dict[str, str]:
    """Return command, date, machine, load average and versions by name, in the order of a report.

    on_machine: further facts about it, after cores, CPU model, memory and kernel.
    """
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    cores = f"{psutil.cpu_count()} × {model[1] if model else platform.machine()}"
    memory = f"{psutil.virtual_memory().total / 1e9:.0f} GB"
    kernel = f"{platform.system()} {platform.release()}"
    return {
        "Command": f"`steelyard-loadtest {shlex.join(arguments)}`",
        "Date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "Machine": ", ".join([cores, memory, kernel, *on_machine]),
        # Above a few tenths, other work was running.
        "Load average before": f"{os.getloadavg()[0]:.1f}",
        "Versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
    }


def version_of(command: Sequence[str], pattern: str = r"(\d+\.\d[\w.]*)") -> str:
    """Return the first group of `pattern` in a program's output about itself, on either stream."""
    try:
        match = re.search(pattern, _output_of(*command))
    except OSError:
        return MISSING
    return match[1] if match else UNKNOWN


@cache
def _output_of(*command: str) -> str:
    # An nginx is asked for its version, and for the folder of each set of modules.
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWERS_WITHIN_S)
    return done.stdout + done.stderr


def kept(out: Path, now: Mapping[str, str], *, new: bool) -> dict[str, str]:
    """Return the conditions of the figures in `out`, and the present ones beside them if any figure is new.

    The figures of a folder may be of several runs, on several days.
    """
    file = out / CONDITIONS
    earlier = recorded(out)
    if earlier and not new:
        return earlier
    both = joined(earlier, now)
    write_text(file, json.dumps(both, indent=1))
    return both


def recorded(out: Path) -> dict[str, str]:
    """Return the conditions of the figures in `out`; empty if there are none."""
    try:
        known: dict[str, str] = json.loads((out / CONDITIONS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return known


def joined(earlier: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the different values of each condition, in the order of time, with `; ` between them."""
    values = {name: earlier[name].split(BETWEEN) if name in earlier else [] for name in {**now, **earlier}}
    return {
        name: BETWEEN.join(dict.fromkeys([*own, *filter(None, now.get(name, "").split(BETWEEN))]))
        for name, own in values.items()
    }
