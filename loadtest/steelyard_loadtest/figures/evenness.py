"""How evenly the CPU of several servers is used: the largest utilization over the mean. Pure.

    u_j   = own_j / (limit_j - neighbour_j)          CPU seconds
    ratio = max_j u_j / mean_j u_j

own_j is what the server itself used, and neighbour_j what a neighbour took of its limit. So u_j is the
utilization of the CPU that the server might have had. It counts while the server takes part.
"""

import statistics
from collections.abc import Iterable, Sequence

from steelyard_loadtest.figures.motion import takes_part
from steelyard_loadtest.measurements.trials import Observed
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.scenario.definition import Event, Server

Used = tuple[str, float, float]
"""A server, and the CPU seconds that it used and might have used in an interval."""


def utilization_ratio(
    observed: Sequence[Observed], servers: Sequence[Server], events: Sequence[Event]
) -> float | None:
    """Return the ratio of the CPU seconds of all intervals together; None if no CPU was used."""
    return _ratio(_used(entry, servers) for entry in _there(observed, events))


def median_utilization_ratio(
    observed: Sequence[Observed], servers: Sequence[Server], events: Sequence[Event]
) -> float | None:
    """Return the median of each interval's ratio.

    With some 15 requests in an interval, chance alone makes a server a third busier.
    """
    rounds = grouped(_there(observed, events), lambda entry: entry.t_s).values()
    ratios = [_ratio(_used(entry, servers) for entry in entries) for entries in rounds]
    return statistics.median(known) if (known := [one for one in ratios if one is not None]) else None


def _there(observed: Sequence[Observed], events: Sequence[Event]) -> list[Observed]:
    return [one for one in observed if takes_part(events, one.server, one.t_s - one.interval_s / 2)]


def _used(entry: Observed, servers: Sequence[Server]) -> Used:
    server = next(server for server in servers if server.name == entry.server)
    allowed_s = (server.cores_at(entry.t_s - entry.interval_s / 2) or 1.0) * entry.interval_s
    own_s = (entry.cpu_utilization - entry.children_cpu_utilization) * allowed_s
    return entry.server, own_s, (1 - entry.children_cpu_utilization) * allowed_s


def _ratio(used: Iterable[Used]) -> float | None:
    sums = [
        (sum(own_s for _, own_s, _ in own), sum(might_s for _, _, might_s in own))
        for own in grouped(used, lambda one: one[0]).values()
    ]
    utilizations = [own_s / might_s for own_s, might_s in sums if might_s > 0]
    mean = statistics.fmean(utilizations) if utilizations else 0.0
    return max(utilizations) / mean if mean > 0 else None
