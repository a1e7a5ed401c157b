"""The agent's figures beside work of a known size: `python -m agent.tests.truth`.

Needs root, stress-ng and iproute2. Figures that this machine cannot compare are
named with the reason, and the rest is compared. `--page FILE` writes the table
into a page.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from steelyard_loadtest.reporting import markdown

from . import cgroups, networks, stress, truth_cases, truth_table
from .truth_table import Row

Case = Callable[[], Row]

PERCENTAGES = (10, 30, 50, 80)
QUOTAS = ((0.5, 1), (1.6, 2))
"""Cores, and the workers that use them: stress-ng takes whole percentages of a core only."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit status is 0 if every figure is within the points allowed."""
    parser = argparse.ArgumentParser(description="The agent's figures beside work of a known size.")
    parser.add_argument("--page", type=Path, help="a page to write the table into, between its marks")
    options = parser.parse_args(arguments)
    # In the current folder, because a temporary one may be in memory.
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".truth-") as folder:
        rows = [case() for case in _cases(Path(folder))]
    table = truth_table.render(rows, machine=_machine())
    print(table)
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(markdown.filled(page, "measured", table), encoding="utf-8")
    return 0 if rows and all(row.true for row in rows) else 1


def _cases(folder: Path) -> list[Case]:
    in_cgroup = partial(truth_cases.cpu_in_cgroup, with_host=True)
    cpu: list[Case] = [
        partial(in_cgroup, percent, cores=cores, workers=workers)
        for cores, workers in QUOTAS
        for percent in PERCENTAGES
    ]
    cpu.append(partial(in_cgroup, 400, cores=0.5, workers=2))
    cpu.append(partial(in_cgroup, 50, cores=0.5, nested=True))
    memory: list[Case] = [truth_cases.memory_in_cgroup, partial(truth_cases.cache_in_cgroup, folder)]
    net = [
        partial(truth_cases.network, scope, receiving=receiving)
        for scope in ("host", "cgroup")
        for receiving in (False, True)
    ]
    writes = [partial(truth_cases.writes, scope, folder) for scope in ("cgroup", "process")]
    cgroup, no_stress = cgroups.why_not(), stress.why_not()
    return [
        *_possible("CPU under a quota", cpu, cgroup or no_stress),
        *_possible("CPU of a process", [partial(truth_cases.cpu_of_process, 50, cores=1.0)], no_stress),
        *_possible("memory under a limit", memory, cgroup),
        *_possible("the network", net, networks.why_not() or cgroup),
        *_possible("writes", writes, cgroup),
        *_possible("the disk", [partial(truth_cases.disk_busy, folder)], None),
    ]


def _possible(what: str, cases: Sequence[Case], why_not: str | None) -> Sequence[Case]:
    if why_not is not None:
        print(f"not compared: {what}, because {why_not}", file=sys.stderr)
        return ()
    return cases


def _machine() -> str:
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, cgroups {cgroups.version()}."


if __name__ == "__main__":
    sys.exit(main())
