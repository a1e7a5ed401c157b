"""Which faults a run does, and the list of them. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from steelyard_loadtest.chaos.model import Fault


def chosen(faults: Sequence[Fault], patterns: Sequence[str], *, quick: bool) -> list[Fault]:
    """Return the faults whose name or group has one of the patterns in it, in their own order; all for none.

    A pattern is a part of a name, or with * and ? a whole one. What is named is done in the quick form too.
    Raises ValueError for a pattern that fits nothing.
    """
    if not patterns:
        return [fault for fault in faults if fault.quick or not quick]
    for pattern in patterns:
        if not any(_fits(fault, pattern) for fault in faults):
            raise ValueError(f"no fault is called {pattern!r}; --list shows them")
    return [fault for fault in faults if any(_fits(fault, pattern) for pattern in patterns)]


def _fits(fault: Fault, pattern: str) -> bool:
    wanted = pattern.lower()
    names = (fault.name.lower(), fault.group.lower())
    if "*" in wanted or "?" in wanted:
        return any(fnmatchcase(name, wanted) for name in names)
    return any(wanted in name for name in names)


def listed(faults: Sequence[Fault]) -> str:
    """Return the faults by group with what they may cost, a line each."""
    lines: list[str] = []
    width = max((len(fault.name) for fault in faults), default=0)
    for group in dict.fromkeys(fault.group for fault in faults):
        lines.append(group)
        lines += [_described(fault, width) for fault in faults if fault.group == group]
    return "\n".join(lines)


def _described(fault: Fault, width: int) -> str:
    bound = fault.bound
    return (
        f"  {fault.name:{width}}  at most {bound.failed} failed, {bound.worst_ms:,.0f} ms, "
        f"well after {bound.recover_s:g} s, rung {bound.rung}{' (quick)' if fault.quick else ''}"
    )
