"""Looks for the signs of a container. I/O only; what they mean is in `containment`."""

from pathlib import Path

from steelyard_agent import containment
from steelyard_agent.containment import Signs
from steelyard_agent.evidence import Evidence
from steelyard_agent.readings import limits, place
from steelyard_agent.readings.files import below, exists


def detect(root: Path) -> Evidence:
    """Return which of cgroup (1) and host (0) fits this process, and how sure that is; never raises."""
    try:
        return containment.judge(_signs(root))
    except (OSError, ValueError) as error:
        return Evidence(
            indicator="scope", value=0.0, note=f"host (a guess): the groups cannot be read: {error}"
        )


def _signs(root: Path) -> Signs:
    # These two are what can confine a server; others (freezer, pids) need not follow them.
    found = place.places(root)
    groups = [found[name] for name in ("cpu", "memory") if name in found]
    part = next((group for group in groups if place.is_part(root, group.mount)), None)
    return Signs(
        part=None if part is None else part.mount.point,
        paths=[group.path for group in groups],
        unit=next((group.path for group in groups if group.unit), None),
        limited=next((path for group in groups for path in limits.limited(root, group)), None),
        markers=[marker for marker in containment.MARKERS if exists(below(root, marker))],
    )
