"""A server's fair share, its part of all servers' CPU at a moment, and the distance of shares from it. Pure.

    fair_j(t) = c_j(t) / sum_k c_k(t)

c_j is the server's CPU limit at that moment, and 0 while it takes no part. While w processes of a neighbour
burn, it is 1/(1 + w) of the limit, because the kernel gives each process that wants to run an equal part. A
neighbour that takes a part p at most leaves 1 - p.
"""

import math
from collections.abc import Sequence

from steelyard_loadtest.figures import motion
from steelyard_loadtest.figures.motion import Stretch
from steelyard_loadtest.measurements.trials import Observed
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.scenario.definition import Event, Server

TROUBLES = ("burn", "fail", "slow")

RECOVERED = 0.8
"""Part of the fair share: four fifths of the server's capacity are in use again."""


def fair_shares(servers: Sequence[Server], events: Sequence[Event], t_s: float) -> dict[str, float]:
    """Return each server's fair share; empty if CPU limits do not determine the servers' capacities."""
    if any(
        server.cpu_cores is None or server.delay_ms or server.disk_ops_per_s or server.workers
        for server in servers
    ):
        return {}
    cores = {server.name: _cores(server, events, t_s) for server in servers}
    total = sum(cores.values())
    return {name: own / total for name, own in cores.items()} if total > 0 else {}


def share_error(
    observed: Sequence[Observed], servers: Sequence[Server], events: Sequence[Event]
) -> float | None:
    """Return the part of the answers, 0..1, that came from another server than by fair shares.

    The mean over the observations of 1/2 sum_j |share_j - fair_j|. None: fair shares are unknown, or nothing
    was answered.
    """
    errors, lengths_s = [], []
    for t_s, entries in grouped(observed, lambda entry: entry.t_s).items():
        interval_s = entries[0].interval_s
        fair = fair_shares(servers, events, t_s - interval_s / 2)
        known = {entry.server: entry.share for entry in entries if entry.share is not None}
        if fair and known:
            errors.append(sum(abs(known.get(name, 0.0) - own) for name, own in fair.items()) / 2)
            lengths_s.append(interval_s)
    return sum(map(math.prod, zip(errors, lengths_s, strict=True))) / sum(lengths_s) if errors else None


def recovery_s(
    observed: Sequence[Observed], servers: Sequence[Server], events: Sequence[Event], ended_s: float
) -> float | None:
    """Return the time from the end of a server's trouble until its share is RECOVERED of its fair one.

    Trouble is to burn, to fail or to be slow. With several of them the longest counts. The share is smoothed
    as in `motion`. Infinite: not before the next event or the end, `ended_s`. None: there is no trouble, or
    fair shares are unknown.
    """
    cut = {stretch.began_s: stretch for stretch in motion.stretches(events, ended_s)}
    ends = [(event.server, event.at_s + event.for_s) for event in events if event.do in TROUBLES]
    each_s = [
        _recovery_s(observed, servers, events, name, cut[end_s]) for name, end_s in ends if end_s in cut
    ]
    return max((took_s for took_s in each_s if took_s is not None), default=None)


def _recovery_s(
    observed: Sequence[Observed],
    servers: Sequence[Server],
    events: Sequence[Event],
    name: str,
    stretch: Stretch,
) -> float | None:
    fair = fair_shares(servers, events, stretch.began_s)
    moments = motion.moments(observed, stretch)
    for position, (t_s, _) in enumerate(moments, 1):
        recent = motion.window(moments[:position])
        if recent.total() and recent[name] / recent.total() >= RECOVERED * fair.get(name, 0.0):
            return t_s - stretch.began_s if fair else None
    return math.inf if moments and fair else None


def _cores(server: Server, events: Sequence[Event], t_s: float) -> float:
    if not motion.takes_part(events, server.name, t_s):
        return 0.0
    burns = [
        event
        for event in events
        if event.do == "burn" and event.server == server.name and event.at_s <= t_s < event.at_s + event.for_s
    ]
    greedy = sum(event.workers for event in burns if event.part is None)
    taken = sum(event.part or 0.0 for event in burns)
    return (server.cores_at(t_s) or 0.0) * max(1 - taken, 0.0) / (1 + greedy)
