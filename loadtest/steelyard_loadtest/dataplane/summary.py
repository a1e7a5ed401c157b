"""From rounds to medians, spreads and ratios. Pure.

Rounds of all contenders alternate, so that a noisy minute hits all of them;
what is compared is the median of one with the median of another of the same run.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from steelyard_loadtest.dataplane.contenders import BASE
from steelyard_loadtest.dataplane.records import Measured, Reweighed


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of some rounds, and between what they lay."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One contender at one number of servers; None: it has no proxy to measure."""

    contender: str
    peers: int
    rounds: int
    cpu_us: Spread | None
    ratio: float | None
    """Its CPU per request over that of nginx's SWRR at as many servers in the same run."""
    requests_per_s: Spread
    p50_ms: Spread
    p99_ms: Spread
    resident_bytes: float | None
    cpu_utilization: float | None
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One contender's tail before and after changes of all weights."""

    contender: str
    peers: int
    rounds: int
    before_ms: Spread
    after_ms: Spread
    ratio: float
    """The median after over the median before."""
    ratios: Spread
    """After over before, round by round."""
    worst_ms: float
    failed: int


def spread(values: Iterable[float]) -> Spread:
    """Return median, lowest and highest of at least one value."""
    ordered = sorted(values)
    return Spread(median=statistics.median(ordered), lowest=ordered[0], highest=ordered[-1])


def rows(measured: Sequence[Measured], order: Sequence[str], *, base: str = BASE) -> list[Row]:
    """Return a row for each number of servers and contender, in this order, that has a round."""
    found = [
        _row([entry for entry in measured if (entry.contender, entry.peers) == (name, count)])
        for count in sorted({entry.peers for entry in measured})
        for name in order
        if any((entry.contender, entry.peers) == (name, count) for entry in measured)
    ]
    bases = {row.peers: row.cpu_us.median for row in found if row.contender == base and row.cpu_us}
    return [_against(row, bases.get(row.peers)) for row in found]


def changes(measured: Sequence[Reweighed], order: Sequence[str]) -> list[Change]:
    """Return a row for each contender whose weights were changed."""
    return [
        _change([entry for entry in measured if entry.contender == name])
        for name in order
        if any(entry.contender == name for entry in measured)
    ]


def find(found: Sequence[Row], contender: str, peers: int) -> Row | None:
    """Return the row of a contender at a number of servers."""
    return next((row for row in found if (row.contender, row.peers) == (contender, peers)), None)


def _row(entries: Sequence[Measured]) -> Row:
    def over(get: Callable[[Measured], float | None]) -> Spread | None:
        values = [value for value in map(get, entries) if value is not None]
        return spread(values) if values else None

    resident, utilization = (
        over(lambda entry: entry.resident_bytes),
        over(lambda entry: entry.cpu_utilization),
    )
    return Row(
        contender=entries[0].contender,
        peers=entries[0].peers,
        rounds=len(entries),
        cpu_us=over(lambda entry: entry.cpu_us_per_request),
        ratio=None,
        requests_per_s=spread(entry.load.requests_per_s for entry in entries),
        p50_ms=spread(entry.load.p50_ms for entry in entries),
        p99_ms=spread(entry.load.p99_ms for entry in entries),
        resident_bytes=resident.median if resident else None,
        cpu_utilization=utilization.median if utilization else None,
        failed=sum(entry.load.failed for entry in entries),
    )


def _against(row: Row, base_us: float | None) -> Row:
    if row.cpu_us is None or not base_us:
        return row
    return replace(row, ratio=row.cpu_us.median / base_us)


def _change(entries: Sequence[Reweighed]) -> Change:
    before = spread(entry.before.p99_ms for entry in entries)
    after = spread(entry.after.p99_ms for entry in entries)
    return Change(
        contender=entries[0].contender,
        peers=entries[0].peers,
        rounds=len(entries),
        before_ms=before,
        after_ms=after,
        ratio=after.median / before.median,
        ratios=spread(entry.after.p99_ms / entry.before.p99_ms for entry in entries),
        worst_ms=max(entry.after.max_ms for entry in entries),
        failed=sum(entry.before.failed + entry.after.failed for entry in entries),
    )
