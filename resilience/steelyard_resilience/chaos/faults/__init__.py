"""The faults: what goes wrong, one at a time, and what each may cost."""

from collections.abc import Sequence

from steelyard_loadtest.reporting.statistics import grouped

from steelyard_resilience.chaos.fault import Fault
from steelyard_resilience.chaos.faults import catalogue

FAULTS = catalogue.load(catalogue.DECLARED.read_text(encoding="utf-8"))
"""All faults, in the order of the table."""


def chosen(faults: Sequence[Fault], patterns: Sequence[str], *, quick: bool) -> list[Fault]:
    """Return the faults whose name or group has one of the patterns in it, in their own order; all for none.

    What is named is done in the quick form too. Raises ValueError for a pattern that fits nothing.
    """
    if not patterns:
        return [fault for fault in faults if fault.quick or not quick]
    for pattern in patterns:
        if not any(_fits(fault, pattern) for fault in faults):
            raise ValueError(f"no fault is called {pattern!r}; --list shows them")
    return [fault for fault in faults if any(_fits(fault, pattern) for pattern in patterns)]


def _fits(fault: Fault, pattern: str) -> bool:
    return any(pattern.lower() in name.lower() for name in (fault.name, fault.group))


def listed(faults: Sequence[Fault]) -> str:
    """Return the faults by group with what they may cost, a line each."""
    lines: list[str] = []
    width = max((len(fault.name) for fault in faults), default=0)
    for group, own in grouped(faults, lambda fault: fault.group).items():
        lines.append(group)
        for fault in own:
            bound = fault.bound
            lines.append(
                f"  {fault.name:{width}}  at most {bound.failed} failed, {bound.worst_ms:,.0f} ms, "
                f"well after {bound.recover_s:g} s, rung {bound.rung}{' (quick)' if fault.quick else ''}"
            )
    return "\n".join(lines)
