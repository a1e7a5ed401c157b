"""The reader of indicators: values kept and dropped, and its log; its sources are the test's own."""

import threading
import time

import pytest
from steelyard_agent.indicators.declared import Indicator, Source
from steelyard_agent.indicators.indicator_reader import IndicatorReader
from steelyard_agent.indicators.text_formats import SourceError

from testing.waiting import wait_until

ONE = Source(kind="file", target="/one", every_s=1.0)
TWO = Source(kind="file", target="/two", every_s=1.0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Texts:
    """Answers with the text of each source, or raises the exception in its place."""

    def __init__(self, **texts: str | Exception) -> None:
        self.texts = texts
        self.asked: list[str] = []

    def __call__(self, source: Source, timeout_s: float, stop: threading.Event) -> str:
        assert timeout_s == 2.0
        assert not stop.is_set()
        self.asked.append(str(source.target))
        text = self.texts[str(source.target).removeprefix("/")]
        if isinstance(text, Exception):
            raise text
        return text


def metric(name: str, source: Source = ONE, limit: float | str | None = 10.0) -> Indicator:
    return Indicator(name=name, source=source, text_format="prometheus", amount=name, limit=limit)


def values(reader: IndicatorReader) -> list[float | None]:
    return [each.value for each in reader.evidence()]


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return lines


def test_a_source_of_several_indicators_is_read_once() -> None:
    texts = Texts(one="a 1\nb 2\n", two="c 3\n")
    reader = IndicatorReader([metric("b"), metric("c", TWO), metric("a")], texts, Clock())
    reader.read_all()
    assert [(each.indicator, each.value) for each in reader.evidence()] == [
        ("b", 0.2),
        ("c", 0.3),
        ("a", 0.1),
    ]
    assert sorted(texts.asked) == ["/one", "/two"]


def test_without_indicators_nothing_is_read_and_nothing_found() -> None:
    reader = IndicatorReader([], Texts(), Clock())
    reader.start()
    reader.read_all()
    assert reader.evidence() == ()
    reader.close()


def test_what_fails_is_null_alone_and_said_once_and_again_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    texts = Texts(one="a 1\n", two="c 3\n")
    reader = IndicatorReader([metric("a"), metric("b"), metric("c", TWO)], texts, Clock())
    reader.read_all()
    for _ in range(3):
        assert values(reader) == [0.1, None, 0.3]
    assert logged(caplog) == [
        "the indicator b cannot be read: /one: there is no metric b: look at the page; it is null until then"
    ]
    texts.texts["one"] = SourceError("it answers 500")
    reader.read_all()
    for _ in range(3):
        assert values(reader) == [None, None, 0.3]
    assert logged(caplog) == ["the indicator a cannot be read: /one: it answers 500; it is null until then"]
    assert [each.note for each in reader.evidence()] == ["it answers 500", "it answers 500", ""]
    texts.texts["one"] = "a 1\nb 2\n"
    reader.read_all()
    for _ in range(3):
        assert values(reader) == [0.1, 0.2, 0.3]
    assert logged(caplog) == ["the indicator a can be read again", "the indicator b can be read again"]


def test_a_value_that_is_too_old_is_null_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    reader = IndicatorReader([metric("a")], Texts(one="a 1\n"), clock)
    assert values(reader) == [None]
    reader.read_all()
    clock.now_s += 3.0
    assert values(reader) == [0.1]
    assert logged(caplog) == []
    clock.now_s += 0.5
    for _ in range(3):
        assert values(reader) == [None]
    assert logged(caplog) == [
        "the indicator a cannot be read: /one: it has not been read for 3.5 s; it is null until then"
    ]
    reader.read_all()
    assert values(reader) == [0.1]
    assert logged(caplog) == ["the indicator a can be read again"]


def test_a_rate_begins_anew_after_a_failure_and_a_reset_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    clock, texts = Clock(), Texts()
    reader = IndicatorReader([metric("a_total")], texts, clock)

    def after(text: str | Exception) -> list[float | None]:
        clock.now_s += 1.0
        texts.texts["one"] = text
        reader.read_all()
        return values(reader)

    def counter(number: int) -> str:
        return f"# TYPE a_total counter\na_total {number}\n"

    assert [after(counter(number)) for number in (5, 7, 2, 3)] == [[None], [0.2], [None], [0.1]]
    assert logged(caplog) == []
    assert after(SourceError("it answers 500")) == [None]
    assert [after(counter(number)) for number in (9, 11)] == [[None], [0.2]]


def test_a_mistake_of_ours_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    reader = IndicatorReader(
        [metric("a"), metric("c", TWO)], Texts(one=ZeroDivisionError("x"), two="c 3\n"), Clock()
    )
    reader.read_all()
    assert values(reader) == [None, 0.3]
    assert logged(caplog) == [
        "the indicator a cannot be read: /one: ZeroDivisionError: x; it is null until then"
    ]


def test_a_source_that_hangs_holds_up_nothing() -> None:
    hangs = threading.Event()
    often = Source(kind="file", target="/often", every_s=0.1)

    def fetch(source: Source, _timeout_s: float, _stop: threading.Event) -> str:
        if source == ONE:
            hangs.wait()
        return "a 1\nc 3\n"

    reader = IndicatorReader([metric("a"), metric("c", often)], fetch, time.monotonic)
    reader.start()
    wait_until(lambda: values(reader) == [None, 0.3])
    reader.close()
    hangs.set()


def test_a_rate_is_read_with_its_source_and_is_no_indicator(caplog: pytest.LogCaptureFixture) -> None:
    texts = Texts(one="a 1\nrps 120\n")
    reader = IndicatorReader([metric("a"), metric("rps", limit=None)], texts, Clock())
    reader.read_all()
    assert values(reader) == [0.1]
    assert [(each.indicator, each.value) for each in reader.rates()] == [("rps", 120.0)]
    assert texts.asked == ["/one"]
    texts.texts["one"] = "a 1\n"
    reader.read_all()
    assert values(reader) == [0.1]
    assert [each.value for each in reader.rates()] == [None]
    (line,) = logged(caplog)
    assert line.startswith("the rate rps cannot be read: /one: there is no metric rps")
