"""What demo servers say of how their CPU limits are held. Pure."""

import re
from collections.abc import Iterable
from pathlib import Path

UNLIMITED = "no limits"

_GROUP = re.compile(r" cores by cgroup (?P<group>\S+) \(v(?P<version>[12])\)$", re.MULTILINE)
_SIGNALS = re.compile(r" cores by (?P<why>\(no cgroup: .+\) )?stop and continue signals$", re.MULTILINE)


def group(log: str) -> Path | None:
    """Return the control group that a server made for itself, from its log."""
    found = _GROUP.search(log)
    return Path(found["group"]) if found else None


def means(logs: Iterable[str]) -> str:
    """Say by what the limits of all servers are held, from their logs."""
    found: dict[str, None] = {}
    for log in logs:
        if said := _GROUP.search(log):
            found[f"cgroup v{said['version']} quotas"] = None
        elif said := _SIGNALS.search(log):
            found[f"stop and continue signals {said['why'] or ''}".strip()] = None
    return " and ".join(found) or UNLIMITED
