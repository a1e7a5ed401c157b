"""Container detection: the signs, and how sure the conclusion is.

Pure. The groups decide, because they are measured:

    the mounted groups are above this process's namespace     sure: a container that sees its host's groups
    the topmost group seen here is a part of the machine's    sure: a container's view
    the group has a container runtime's name                  likely
    systemd made the group                                    a service on a host, likely
    the group, or one above it, has a limit                   a guess: something confines this process
    else                                                      host

A marker file alone proves nothing: a virtual machine made from a container's image has it too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard_agent.evidence import Evidence

MARKERS = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")

RUNTIMES = re.compile(r"docker|kubepods|libpod|containerd|crio|(^|/)lxc|garden|machine-|(^|/)ecs/|buildkit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The signs. `paths` are this process's groups, "/" being the topmost visible one.

    `above` and `part` are mount points: of groups above this process's namespace, and of a part of the
    machine's groups.
    """

    above: str | None = None
    part: str | None
    paths: Sequence[str]
    unit: str | None
    limited: str | None
    markers: Sequence[str]


def judge(signs: Signs) -> Evidence:
    """Return the fitting scope as evidence: 1 for cgroup, 0 for host, with the reason in its note."""
    named = next((path for path in signs.paths if RUNTIMES.search(path)), None)
    below = next((path for path in signs.paths if path != "/"), None)
    marker = next(iter(signs.markers), None)
    if signs.above is not None:
        return _evidence(
            "cgroup", "sure", f"{signs.above} shows groups above this process's namespace", signs
        )
    if signs.part is not None:
        return _evidence("cgroup", "sure", f"{signs.part} is only a part of the machine's groups", signs)
    if named is not None:
        return _evidence("cgroup", "likely", f"a container runtime named the group {named}", signs)
    if signs.unit is not None:
        # First, since a unit's limits are its own: an agent's unit must not measure the agent.
        return _evidence("host", "likely", f"{signs.unit} is a systemd unit", signs)
    if marker is not None and signs.limited is not None:
        return _evidence("cgroup", "likely", f"{marker} is there, and {signs.limited} is a limit", signs)
    if signs.limited is not None:
        return _evidence("cgroup", "a guess", f"{signs.limited} is a limit", signs)
    if marker is not None:
        return _evidence("host", "likely", f"{marker} is there, but nothing confines this process", signs)
    if below is not None:
        return _evidence("host", "likely", f"the group {below} has no limit and no container's name", signs)
    return _evidence("host", "sure", "this process is in the machine's own groups", signs)


def _evidence(scope: str, certainty: str, why: str, signs: Signs) -> Evidence:
    return Evidence(
        indicator="scope",
        value=1.0 if scope == "cgroup" else 0.0,
        sources=("/proc/self/cgroup", "/proc/self/mountinfo", *signs.markers),
        note=f"{scope} ({certainty}): {why}",
    )
