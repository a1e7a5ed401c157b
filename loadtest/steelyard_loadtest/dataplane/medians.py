"""From rounds, which are compare's trials, to medians, spreads, ratios and targets. Pure.

A trial's level is a number of servers, its repeat a round.

Rounds of all contenders alternate, so that a noisy minute hits all of them;
what is compared is the median of one with the median of another of the same run.
So every target is a ratio of such medians, which means the same on a slow machine as
on a fast one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard_loadtest.dataplane.contenders import AFTER, BASE, BEFORE, BY_NAME
from steelyard_loadtest.figures.trial_figures import Summary, figures, summarize
from steelyard_loadtest.generators.tally import REFUSED, RESET
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.measurements.trials import Measured, Outcome
from steelyard_loadtest.reporting.statistics import Spread, grouped, spread

MANY, FEW = 2000, 3
ORDER = list(BY_NAME)
# The pickers that are judged: what lua-resty-balancer's cost is its own.
OURS = [name for name in ORDER if BY_NAME[name].ours and not name.startswith("resty-")]

CPU, CORES = "balancer_cpu_us_per_request", "balancer_cpu_cores"
P99, P99_BEFORE = "p99_ms", "p99_before_ms"
RATIO, RATIO_OF_MEDIANS = "ratio", "ratio_of_medians"
FAILED, RESIDENT = "failed", "balancer_resident_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One target for one of our pickers: what it came to, and what it may be at most."""

    target: str
    contender: str
    value: float
    bound: float

    @property
    def met(self) -> bool:
        """Whether it is within the bound."""
        return self.value <= self.bound


def answered(outcome: Outcome) -> Outcome:
    """Leave out requests that no proxy answered; they are failures all the same. Raises UnreadableError."""
    requests = outcome.requests - outcome.kinds.get(REFUSED, 0) - outcome.kinds.get(RESET, 0)
    if requests < 1:
        raise UnreadableError("wrk got no answer at all")
    return replace(outcome, requests=requests)


def metrics(entry: Measured) -> dict[str, float]:
    """Return compare's figures of one trial, those that are known."""
    (alone,) = summarize([figures(entry, ())])
    return {name: figure.median for name, figure in alone.metrics.items()}


def rows(costs: Sequence[Measured]) -> list[Summary]:
    """Return a row for each number of servers and contender that has a round, in their order.

    Among its metrics are FAILED, of all rounds; and of a proxy RATIO: its CPU per request over that of
    nginx's SWRR at as many servers in the same run.
    """
    rounds = grouped(costs, lambda entry: (entry.trial.level, entry.trial.algorithm))
    summaries = summarize(figures(entry, ()) for entry in costs)
    summaries.sort(key=lambda row: (row.level, ORDER.index(row.algorithm)))
    ended = []
    for row in summaries:
        own = rounds[row.level, row.algorithm]
        cpu_us, base_us = _cpu_us(row), _cpu_us(find(summaries, BASE, row.level))
        more = {
            FAILED: _failed(own),
            RATIO: spread([cpu_us / base_us]) if cpu_us and base_us else None,
        }
        known = {name: figure for name, figure in more.items() if figure}
        ended.append(replace(row, metrics={**row.metrics, **known}))
    return ended


def changes(measured: Sequence[Measured]) -> list[Summary]:
    """Return a row for each contender whose weights were changed and whose p99 is known, in their order.

    It is of the seconds after the changes. Among its metrics are P99_BEFORE; RATIO, of p99 after to before
    in each round; RATIO_OF_MEDIANS; and FAILED, before and after.
    """
    around = grouped(measured, lambda entry: (entry.trial.algorithm, entry.trial.scenario))
    ended = []
    for name in ORDER:
        before, after = around.get((name, BEFORE), []), around.get((name, AFTER), [])
        pairs = [
            (metrics(old).get(P99), metrics(new).get(P99)) for old, new in zip(before, after, strict=True)
        ]
        known = [(old_ms, new_ms) for old_ms, new_ms in pairs if old_ms and new_ms]
        if known:
            (row,) = summarize(figures(entry, ()) for entry in after)
            before_ms, after_ms = (spread(side) for side in zip(*known, strict=True))
            more = {
                P99_BEFORE: before_ms,
                RATIO: spread(new_ms / old_ms for old_ms, new_ms in known),
                RATIO_OF_MEDIANS: spread([after_ms.median / before_ms.median]),
                FAILED: _failed(before + after),
            }
            ended.append(replace(row, metrics={**row.metrics, **more}))
    return ended


def find(rows: Sequence[Summary], contender: str, peers: float) -> Summary | None:
    """Return the row of a contender at a number of servers."""
    return next((row for row in rows if (row.algorithm, row.level) == (contender, peers)), None)


def verdicts(rows: Sequence[Summary], changes: Sequence[Summary]) -> list[Verdict]:
    """Judge whatever was measured; what was not has no verdict."""
    judged = []
    for target, bound, count, other, other_count in (
        ("CPU at 2000 servers / nginx SWRR", 0.40, MANY, BASE, MANY),
        ("CPU at 2000 servers / HAProxy roundrobin", 1.15, MANY, "haproxy-roundrobin", MANY),
        ("CPU at 3 servers / nginx SWRR", 1.15, FEW, BASE, FEW),
        ("CPU at 2000 servers / its own at 3", 1.25, MANY, None, FEW),
    ):
        for name in OURS:
            over, under = _cpu_us(find(rows, name, count)), _cpu_us(find(rows, other or name, other_count))
            if over is not None and under:
                judged.append(Verdict(target=target, contender=name, value=over / under, bound=bound))
    target = f"p99 in the 5 s after a change of all {MANY} weights / before"
    ratios = {row.algorithm: row.metrics[RATIO_OF_MEDIANS].median for row in changes if row.algorithm in OURS}
    return judged + [
        Verdict(target=target, contender=name, value=ratio, bound=2.0) for name, ratio in ratios.items()
    ]


def _failed(entries: Sequence[Measured]) -> Spread:
    return spread([sum(entry.outcome.failures for entry in entries)])


def _cpu_us(row: Summary | None) -> float | None:
    figure = row.metrics.get(CPU) if row else None
    return figure.median if figure else None
