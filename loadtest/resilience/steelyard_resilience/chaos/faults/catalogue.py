"""The faults of faults.toml with their actions, the choice of some of them, and their list."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from steelyard_loadtest.reporting.statistics import grouped

from steelyard_resilience.chaos.fault import ACTIONS, Bound, Fault
from steelyard_resilience.chaos.faults import (  # noqa: F401 - their actions
    balancer_faults,
    forged_values,
    network_faults,
    process_faults,
    store_faults,
)  # fmt: skip

DECLARED = Path(__file__).with_name("faults.toml")

KEYS = frozenset(
    ("name", "faults", "each", "on", "act", "with", "lasts", "well_after", "slowest", "slow", "failed",
     "rung", "why", "quick", "faketime", "front")
)  # fmt: skip


def load(text: str) -> tuple[Fault, ...]:
    """Return all faults, in the order of the table. Raises KeyError, ValueError for a mistake."""
    document = tomllib.loads(text)
    return tuple(_faults(document["group"], document["seconds"]))


def _faults(groups: list[dict[str, Any]], named: Mapping[str, float]) -> Iterator[Fault]:
    def seconds(times: list[str | float]) -> float:
        return sum((named[time] if isinstance(time, str) else time for time in times), 0.0)

    for group in groups:
        for on, own in group["on"].items():
            for variant in group.get("each", [{}]):
                row = {**group, **variant, **own}
                if unknown := row.keys() - KEYS:
                    raise ValueError(f"{on}: a fault has no {', '.join(sorted(unknown))}")
                names: str | None = row.get("faults")
                act, *given = row["act"]
                more = {name: row[name] for name in ("quick", "faketime", "front") if name in row}
                bound = {name: row[name] for name in ("failed", "slow", "rung") if name in row}
                yield Fault(
                    name=names.format(on) if names else on,
                    group=group["name"],
                    act=partial(ACTIONS[act], *([on] if names else given), **row.get("with", {})),
                    lasts_s=seconds(row.get("lasts", [])),
                    bound=Bound(
                        worst_ms=1000 * seconds(["calm", *row.get("slowest", [])]),
                        recover_s=seconds(row.get("well_after", ["ticks"])),
                        why=row.get("why", "").format(**row.get("with", {})),
                        **bound,
                    ),
                    **more,
                )


FAULTS = load(DECLARED.read_text(encoding="utf-8"))
"""All faults, in the order of the table."""


def chosen(faults: Sequence[Fault], patterns: Sequence[str], *, quick: bool) -> list[Fault]:
    """Return the faults with one of the patterns in their name or group, in the order of the table.

    Without patterns, return all, or the quick ones. Raises ValueError for a pattern that fits no fault.
    """
    if not patterns:
        return [fault for fault in faults if fault.quick or not quick]
    for pattern in patterns:
        if not any(_fits(fault, pattern) for fault in faults):
            raise ValueError(f"no fault has {pattern!r} in its name or group; --list shows all")
    return [fault for fault in faults if any(_fits(fault, pattern) for pattern in patterns)]


def _fits(fault: Fault, pattern: str) -> bool:
    return any(pattern.lower() in name.lower() for name in (fault.name, fault.group))


def listed(faults: Sequence[Fault]) -> str:
    """Return the list of the faults, by group, a line each."""
    lines: list[str] = []
    for group, own in grouped(faults, lambda fault: fault.group).items():
        lines += [group, *(f"  {fault.name}{' (quick)' if fault.quick else ''}" for fault in own)]
    return "\n".join(lines)
