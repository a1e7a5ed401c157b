"""Texts for the lasting faults of an upstream's messages, by part, each with its remedy. Pure."""

from collections.abc import Sequence

from steelyard_controller.fault_causes import Fault
from steelyard_controller.tick.outcome import Outcome, ahead

# Names in a fault; these are enough to see what they have in common.
MOST_NAMED = 3


def pairing(peers: Sequence[str]) -> Fault | None:
    """Return the fault that samples of these peers find no traffic report of their window."""
    if not peers:
        return None
    return Fault(
        "no traffic report covers the samples of servers that have requests: the laws learn nothing from"
        " them. Set one interval for the agents (--interval), nginx (report_interval_s) and the controllers"
        " (--tick-s), and check that their clocks run evenly",
        at=_named(peers),
    )


def indicators(missing: Sequence[str]) -> str | None:
    """Return the fault that no server has reported these declared indicators."""
    if not missing:
        return None
    return (
        f"no server reports the declared indicators {', '.join(missing)}, so they do not count: have the"
        " agents read them, or remove them from the upstream's `indicators`"
    )


def terms(outcome: Outcome) -> str | None:
    """Return the fault that load balancers hold a table of a higher term, and so refuse this controller's."""
    theirs = ahead(outcome)
    if not theirs:
        return None
    term = max(theirs.values())
    return (
        f"{_named(sorted(theirs))} hold a table of term {term}, higher than this one's {outcome.table.term},"
        " and refuse all of its tables: look for another controller that leads with another Redis. If there"
        " is none, a clock was ahead once: empty their state_dir and restart them"
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"
