"""The load report that an answer carries: how often its file is read, and the rate in it."""

from pathlib import Path

import pytest
from steelyard_loadtest.server.load_report import READ_EVERY_S, LoadReport

VALUE = "TEXT cpu_utilization=0.42"


class Load:
    """A clock and a count that the test moves."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.answered = 0

    def after(self, seconds: float, requests: int = 0) -> None:
        self.now_s += seconds
        self.answered += requests


@pytest.fixture
def load() -> Load:
    return Load()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orca"


@pytest.fixture
def report(file: Path, load: Load) -> LoadReport:
    return LoadReport(file, lambda: load.answered, lambda: load.now_s)


def value(report: LoadReport) -> str | None:
    header = report.header()
    return None if header is None else header[1].decode()


def test_without_a_file_there_is_no_header(report: LoadReport) -> None:
    assert report.header() is None


@pytest.mark.parametrize("text", [b"", b"half a val", b"\xff\xfe"])
def test_a_file_that_holds_something_else_gives_no_header(
    report: LoadReport, file: Path, text: bytes
) -> None:
    file.write_bytes(text)
    assert report.header() is None


def test_the_first_answer_has_no_rate_yet(report: LoadReport, file: Path) -> None:
    file.write_text(VALUE)
    assert report.header() == (b"endpoint-load-metrics", VALUE.encode())


def test_the_rate_is_that_of_the_last_second(report: LoadReport, file: Path, load: Load) -> None:
    file.write_text(VALUE)
    value(report)
    for _ in range(8):
        load.after(0.25, 100)
        value(report)
    for _ in range(4):
        load.after(0.25, 10)
        last = value(report)
    assert last == f"{VALUE},rps_fractional=40.000"


def test_after_a_pause_the_rate_is_that_of_the_pause(report: LoadReport, file: Path, load: Load) -> None:
    file.write_text(VALUE)
    value(report)
    load.after(0.25, 100)
    value(report)
    load.after(10.0, 1)
    assert value(report) == f"{VALUE},rps_fractional=0.100"


def test_the_file_is_read_again_only_after_a_quarter_of_a_second(
    report: LoadReport, file: Path, load: Load
) -> None:
    file.write_text(VALUE)
    first = value(report)
    file.write_text("TEXT cpu_utilization=0.9")
    load.after(READ_EVERY_S * 0.9, 50)
    assert value(report) == first
    load.after(READ_EVERY_S * 0.2)
    assert "cpu_utilization=0.9," in (value(report) or "")


def test_a_file_that_went_takes_the_header_with_it(report: LoadReport, file: Path, load: Load) -> None:
    file.write_text(VALUE)
    assert value(report)
    file.unlink()
    load.after(READ_EVERY_S)
    assert report.header() is None
