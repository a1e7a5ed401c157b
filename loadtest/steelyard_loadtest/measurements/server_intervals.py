"""From counters that only grow to what each server did in each interval. Pure."""

from collections.abc import Sequence

from steelyard_loadtest.measurements.trials import Observed, Reading
from steelyard_loadtest.scenario.definition import Server

INTERVAL_S = 1.0
"""A second is the agents' and the controller's tick."""


def observed(
    readings: Sequence[tuple[Reading, ...]], began_s: float, servers: Sequence[Server]
) -> tuple[Observed, ...]:
    """Return each server's intervals of about INTERVAL_S, from rounds of readings in order of time.

    A server without a CPU limit is taken for one core. What was read before
    began_s only serves as the first interval's beginning.
    """
    intervals: list[Observed] = []
    limited = {server.name: server for server in servers}
    last: Sequence[Reading] = ()
    for entry in filter(None, readings):
        if not last or entry[0].at_s <= began_s:
            last = entry
        elif entry[0].at_s - last[0].at_s >= INTERVAL_S * 0.9:
            intervals += _interval(last, entry, began_s, limited)
            last = entry
    return tuple(intervals)


def _interval(
    earlier: Sequence[Reading], later: Sequence[Reading], began_s: float, limited: dict[str, Server]
) -> list[Observed]:
    old = {reading.server: reading for reading in earlier}
    pairs = [(old[reading.server], reading) for reading in later if reading.server in old]
    total = sum(after.served - before.served for before, after in pairs)
    return [
        Observed(
            t_s=later[0].at_s - began_s,  # one moment for all: they are read within a millisecond
            interval_s=after.at_s - before.at_s,
            server=after.server,
            served=after.served - before.served,
            share=(after.served - before.served) / total if total > 0 else None,
            cpu_utilization=(after.cpu_s - before.cpu_s)
            / (after.at_s - before.at_s)
            / (limited[after.server].cores_at((before.at_s + after.at_s) / 2 - began_s) or 1.0),
            pool_utilization=after.pool_utilization,
        )
        for before, after in pairs
        if after.at_s > before.at_s
    ]
