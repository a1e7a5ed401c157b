"""From counters that only grow to what each server did in each interval. Pure."""

from collections.abc import Mapping, Sequence

from steelyard_loadtest.lab.records import Observed, Reading

INTERVAL_S = 1.0
"""A second is the agents' and the controller's tick."""


def observed(
    readings: Sequence[tuple[Reading, ...]], began_s: float, cores: Mapping[str, float | None]
) -> tuple[Observed, ...]:
    """Return each server's intervals of about INTERVAL_S, from rounds of readings in order of time.

    cores: the CPU limit by server; None is taken for one core. What was read before
    began_s only serves as the first interval's beginning.
    """
    found: list[Observed] = []
    before = [entry for entry in readings if entry and entry[0].at_s <= began_s]
    last = before[-1] if before else None
    for entry in readings:
        if not entry or entry[0].at_s <= began_s:
            continue
        if last is None:
            last = entry
            continue
        if entry[0].at_s - last[0].at_s < INTERVAL_S * 0.9:
            continue
        found += _interval(last, entry, began_s, cores)
        last = entry
    return tuple(found)


def _interval(
    earlier: tuple[Reading, ...],
    later: tuple[Reading, ...],
    began_s: float,
    cores: Mapping[str, float | None],
) -> list[Observed]:
    old = {reading.server: reading for reading in earlier}
    pairs = [(old[reading.server], reading) for reading in later if reading.server in old]
    total = sum(new.served - was.served for was, new in pairs)
    return [
        Observed(
            t_s=later[0].at_s - began_s,  # one moment for all: they are read within a millisecond
            interval_s=new.at_s - was.at_s,
            server=new.server,
            served=new.served - was.served,
            share=(new.served - was.served) / total if total > 0 else None,
            cpu_utilization=(new.cpu_s - was.cpu_s) / (new.at_s - was.at_s) / (cores.get(new.server) or 1.0),
        )
        for was, new in pairs
        if new.at_s > was.at_s
    ]
