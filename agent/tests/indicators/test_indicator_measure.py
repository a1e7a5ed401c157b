"""From readings to a share of the limit: gauges, counters, several series."""

import pytest
from steelyard_agent.evidence import Quantity
from steelyard_agent.indicators import measure
from steelyard_agent.indicators.declared import Across, Indicator, Source
from steelyard_agent.indicators.measure import Reading
from steelyard_agent.indicators.text_formats import Labels, Series, SourceError

A, B = (("pool", "a"),), (("pool", "b"),)


def indicator(
    limit: float | str | None = 10.0, *, across: Across = "sum", rate: bool | None = None
) -> Indicator:
    return Indicator(
        name="workers",
        source=Source(kind="http", target="http://127.0.0.1:8000/metrics", every_s=1.0),
        text_format="prometheus",
        amount="busy",
        limit=limit,
        labels=(("pool", "web"),),
        across=across,
        rate=rate,
    )


def gauge(
    numbers: dict[Labels, float], at_s: float = 0.0, limit: dict[Labels, float] | None = None
) -> Reading:
    return Reading(at_s, Series(numbers), None if limit is None else Series(limit))


def counter(numbers: dict[Labels, float], at_s: float) -> Reading:
    return Reading(at_s, Series(numbers, counter=True), None)


@pytest.mark.parametrize(("across", "value"), [("sum", 0.8), ("max", 0.6), ("mean", 0.4)])
def test_several_series_are_one_number(across: Across, value: float) -> None:
    evidence = measure.measured(indicator(across=across), None, gauge({A: 2.0, B: 6.0}))
    assert evidence.value == pytest.approx(value)


def test_the_evidence_has_raw_values_limit_and_source() -> None:
    evidence = measure.measured(indicator("size"), None, gauge({A: 3.0}, limit={A: 4.0}))
    assert (evidence.indicator, evidence.value) == ("workers", 0.75)
    assert (evidence.numerator, evidence.denominator) == (Quantity(3.0, ""), Quantity(4.0, ""))
    assert evidence.sources == ("http://127.0.0.1:8000/metrics", 'busy{pool="web"}', "limit: size")


@pytest.mark.parametrize(("amount", "value"), [(-1.0, 0.0), (15.0, 1.5), (1000.0, 16.0)])
def test_a_value_is_what_the_wire_takes(amount: float, value: float) -> None:
    assert measure.measured(indicator(), None, gauge({A: amount})).value == value


@pytest.mark.parametrize("across", ["sum", "mean"])
def test_numbers_too_large_to_be_added_are_an_error_and_end_nothing(across: Across) -> None:
    huge: dict[Labels, float] = {A: 1e308, B: 1e308}
    with pytest.raises(SourceError, match="its numbers are too large to be added"):
        measure.measured(indicator(across=across), None, gauge(huge))
    with pytest.raises(SourceError, match="its numbers are too large to be added"):
        measure.measured(indicator("size", across=across), None, gauge({A: 1.0}, limit=huge))
    falling = counter({A: -1e308, B: -1e308}, 0.0)
    with pytest.raises(SourceError, match="its numbers are too large to be added"):
        measure.measured(indicator(across=across), falling, counter(huge, 1.0))


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_a_limit_that_is_read_as_nothing_is_an_error(limit: float) -> None:
    with pytest.raises(SourceError, match=r"its limit, size, is -?[01]: give limit a number"):
        measure.measured(indicator("size"), None, gauge({A: 3.0}, limit={A: limit}))


def test_a_counter_is_its_growth_per_second() -> None:
    before, now = counter({A: 100.0}, 5.0), counter({A: 108.0}, 7.0)
    evidence = measure.measured(indicator(), before, now)
    assert (evidence.value, evidence.numerator) == (0.4, Quantity(4.0, "/s"))


def test_the_first_reading_of_a_counter_has_no_rate() -> None:
    evidence = measure.measured(indicator(), None, counter({A: 100.0}, 5.0))
    assert (evidence.value, evidence.note) == (None, "a rate needs two readings of one counter")


def test_a_counter_that_began_anew_has_no_rate_once() -> None:
    first, reset = counter({A: 100.0, B: 1.0}, 0.0), counter({A: 2.0, B: 500.0}, 1.0)
    assert measure.measured(indicator(), first, reset).value is None
    after = counter({A: 4.0, B: 501.0}, 2.0)
    assert measure.measured(indicator(), reset, after).value == pytest.approx(0.3)


def test_a_series_counts_from_the_second_reading_that_it_is_in() -> None:
    before, now = counter({A: 100.0}, 0.0), counter({A: 102.0, B: 5000.0}, 1.0)
    assert measure.measured(indicator(), before, now).value == pytest.approx(0.2)


def test_no_time_between_two_readings_is_no_rate() -> None:
    assert measure.measured(indicator(), counter({A: 1.0}, 1.0), counter({A: 2.0}, 1.0)).value is None


def test_the_entry_may_say_what_is_a_counter() -> None:
    assert measure.measured(indicator(rate=False), None, counter({A: 5.0}, 0.0)).value == 0.5
    before, now = gauge({A: 5.0}, 0.0), gauge({A: 6.0}, 1.0)
    assert measure.measured(indicator(rate=True), before, now).value == 0.1


def test_a_limit_may_be_a_counter_too() -> None:
    of = indicator("seconds_total")
    before = Reading(0.0, Series({A: 1.0}, counter=True), Series({A: 10.0}, counter=True))
    now = Reading(2.0, Series({A: 4.0}, counter=True), Series({A: 14.0}, counter=True))
    assert measure.measured(of, None, before).value is None
    assert measure.measured(of, before, now).value == 0.75
    assert measure.measured(of, now, Reading(3.0, now.amount, now.limit)).value is None


def test_a_rate_is_an_amount_per_second_whatever_its_size() -> None:
    rate = indicator(None, rate=True)
    assert measure.measured(rate, None, counter({A: 5.0}, 0.0)).value is None
    evidence = measure.measured(rate, counter({A: 5.0, B: 1.0}, 0.0), counter({A: 205.0, B: 41.0}, 2.0))
    assert (evidence.value, evidence.numerator, evidence.denominator) == (120.0, Quantity(120.0, "/s"), None)
    assert evidence.sources == ("http://127.0.0.1:8000/metrics", 'busy{pool="web"}')


@pytest.mark.parametrize("amount", [-1.0, 1e16])
def test_a_number_that_is_no_rate_is_an_error(amount: float) -> None:
    with pytest.raises(SourceError, match="not a possible rate"):
        measure.measured(indicator(None, rate=False), None, gauge({A: amount}))
