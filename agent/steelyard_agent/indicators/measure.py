"""The value of an indicator: rates of counters, several series as one number, a share of the limit.

Pure. With the numbers x_s(t) of the series s at the monotonic time t, and those of the reading before it,

    amount = across_s x_s(t)                                      for a gauge
             across_s (x_s(t) - x_s(t')) / (t - t')               for a counter
    value  = amount / limit, within 0..MAX_FURTHER_UTILIZATION

The limit is a number, or the same of another name. A rate has no limit, and its value is its amount.
A series counts from its second reading on. A counter that went backwards leaves no figure, once, as it
does in the scopes.
"""

from dataclasses import dataclass
from math import isfinite

from steelyard_protocol.sample_record import MAX_FURTHER_UTILIZATION

from steelyard_agent import evidence
from steelyard_agent.evidence import Evidence, Quantity
from steelyard_agent.indicators import text_formats
from steelyard_agent.indicators.declared import Indicator
from steelyard_agent.indicators.text_formats import Series, SourceError

TWO_READINGS = "a rate needs two readings of one counter"

# The largest rate that readers of load reports accept.
MAX_RATE = 1e15


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers of an indicator's amount and limit at a time; no series for a constant limit."""

    at_s: float
    amount: Series
    limit: Series | None


def reading(indicator: Indicator, text: str, at_s: float) -> Reading:
    """Return an indicator's numbers in a text; raise `SourceError`."""
    limit = indicator.limit
    return Reading(
        at_s,
        text_formats.read(indicator, indicator.amount, text),
        text_formats.read(indicator, limit, text) if isinstance(limit, str) else None,
    )


def measured(indicator: Indicator, before: Reading | None, now: Reading) -> Evidence:
    """Return the indicator's share of its limit, or a rate; raise `SourceError` for an unusable limit."""
    is_rate = _is_rate(indicator, now.amount)
    amount = _amount(indicator, before, now, before.amount if before else None, now.amount)
    if indicator.limit is None:
        return _rate(indicator, amount)
    limit: float | None
    if isinstance(indicator.limit, str):
        assert now.limit is not None  # noqa: S101
        limit = _amount(indicator, before, now, before.limit if before else None, now.limit)
        if limit is not None and limit <= 0 and not _is_rate(indicator, now.limit):
            raise SourceError(f"its limit, {indicator.limit}, is {limit:g}: give limit a number")
    else:
        limit = indicator.limit
    return evidence.share(
        indicator.name,
        amount,
        limit,
        "/s" if is_rate else "",
        high=MAX_FURTHER_UTILIZATION,
        sources=sources(indicator),
        note="" if amount is not None and limit is not None else TWO_READINGS,
    )


def _rate(indicator: Indicator, amount: float | None) -> Evidence:
    if amount is not None and not 0 <= amount <= MAX_RATE:
        raise SourceError(f"it is {amount:g}/s, not a possible rate")
    return Evidence(
        indicator=indicator.name,
        value=amount,
        numerator=None if amount is None else Quantity(amount, "/s"),
        sources=sources(indicator),
        note="" if amount is not None else TWO_READINGS,
    )


def failed(indicator: Indicator, why: str) -> Evidence:
    """Return the evidence of an indicator without a reading."""
    return evidence.unmeasured(indicator.name, why, sources(indicator))


def sources(indicator: Indicator) -> tuple[str, ...]:
    """Return an indicator's sources for a person: the source, the number read there, the limit."""
    labels = ",".join(f'{name}="{value}"' for name, value in indicator.labels)
    read = f"{indicator.amount}{{{labels}}}" if labels else indicator.amount
    limit = indicator.limit
    return (
        str(indicator.source),
        *([read] if read else []),
        *([] if limit is None else [f"limit: {limit}" if isinstance(limit, str) else f"limit = {limit:g}"]),
    )


def _amount(
    indicator: Indicator, before: Reading | None, now: Reading, was: Series | None, series: Series
) -> float | None:
    if not _is_rate(indicator, series):
        return _across(indicator, list(series.numbers.values()))
    if before is None or was is None or now.at_s <= before.at_s:
        return None
    growths = [
        number - was.numbers[labels] for labels, number in series.numbers.items() if labels in was.numbers
    ]
    if not growths or min(growths) < 0:
        return None
    return _across(indicator, [growth / (now.at_s - before.at_s) for growth in growths])


def _is_rate(indicator: Indicator, series: Series) -> bool:
    return series.counter if indicator.rate is None else indicator.rate


def _across(indicator: Indicator, numbers: list[float]) -> float:
    total = max(numbers) if indicator.across == "max" else sum(numbers)
    if not isfinite(total):
        raise SourceError(f"its numbers are too large to be added: {total}")
    return total / len(numbers) if indicator.across == "mean" else total
