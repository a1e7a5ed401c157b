"""How the servers' CPU limits are held, from their logs, and the servers' capacity together. Pure.

    capacity = s * sum_j limit_j / cost_j,    s = min(1, cores / sum_j limit_j)

limit_j is a server's cores, or one without a limit, because it works in one thread. cost_j is its CPU seconds
per request. The factor s keeps the sum at the machine's cores. On `/io` a server does at most what its disk
does.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from steelyard_loadtest.scenario.definition import Server

UNLIMITED = "no limits"

_GROUP = re.compile(r" cores by cgroup (?P<group>\S+) \(v(?P<version>[12])\)$", re.MULTILINE)
_PAUSES = re.compile(r" cores by (?P<why>\(.+\)) pauses$", re.MULTILINE)


def capacity_per_s(servers: Sequence[Server], costs_s: Mapping[str, float], path: str, cores: float) -> float:
    """Return the capacity, from the CPU seconds per request of each server by name, on `path`."""
    limits = {server.name: server.cpu_cores or 1.0 for server in servers}
    scale = min(1.0, cores / sum(limits.values()))
    total = 0.0
    for server in servers:
        of_cpu = scale * limits[server.name] / costs_s[server.name]
        slow = server.disk_ops_per_s if path.partition("?")[0] == "/io" else None
        total += of_cpu if slow is None else min(of_cpu, slow)
    return total


def group(log: str) -> Path | None:
    """Return the control group that a server made for itself, from its log."""
    group_line = _GROUP.search(log)
    return Path(group_line["group"]) if group_line else None


def means(logs: Iterable[str]) -> str:
    """Return how the limits of all servers are held, from their logs."""
    kinds: dict[str, None] = {}
    for log in logs:
        if match := _GROUP.search(log):
            kinds[f"cgroup v{match['version']} quotas"] = None
        elif match := _PAUSES.search(log):
            kinds[f"pauses after work {match['why']}"] = None
    return " and ".join(kinds) or UNLIMITED
