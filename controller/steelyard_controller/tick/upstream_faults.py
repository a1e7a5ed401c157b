"""What is wrong with an upstream's messages for long, by part, each with its remedy. Pure."""

from collections.abc import Sequence

from steelyard_controller.tick.outcome import Outcome, ahead

# Of those that a fault is about: enough to see what they share.
NAMED = 3


def pairing(peers: Sequence[str]) -> str | None:
    """Return that samples find no traffic report of their window for long."""
    if not peers:
        return None
    return (
        f"no traffic report covers the samples of {_named(peers)}, which have"
        " requests: they teach nothing; give the agents (--interval), nginx (report_interval_s) and the"
        " controllers (--tick-s) one length, and see that their clocks run evenly"
    )


def indicators(missing: Sequence[str]) -> str | None:
    """Return that no server has reported these declared indicators for long."""
    if not missing:
        return None
    return (
        f"no server reports these declared indicators, which move nothing: {', '.join(missing)}; have the"
        " agents read them, or take them out of the upstream's `indicators`"
    )


def terms(outcome: Outcome) -> str | None:
    """Return that load balancers have a table of a higher term, so that they refuse this controller's."""
    theirs = ahead(outcome)
    if not theirs:
        return None
    term = max(theirs.values())
    return (
        f"{_named(sorted(theirs))} hold a table of term {term}, higher than this one's {outcome.table.term},"
        " and refuse all of its tables: look for another controller that leads, with another Redis; where"
        " none does, a clock was ahead once: empty their state_dir and restart them"
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
