"""The count of answers in a file, the counted requests, and an answer's load report."""

import asyncio
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send
from steelyard_agent.outputs import orca_report
from steelyard_loadtest.server.answered import (
    COUNT_BYTES,
    HEADER,
    READ_EVERY_S,
    Answered,
    Count,
    LoadReport,
    with_rate,
)
from steelyard_protocol.sample_record import INDICATORS, SampleRecord


async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise RuntimeError("no answer")


def ask(app: Answered, path: str) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app({"type": "http", "path": path}, receive, send))
    return sent


def test_the_file_holds_the_number_in_eight_little_endian_bytes(tmp_path: Path) -> None:
    file = tmp_path / "count"
    count = Count(file)
    assert file.read_bytes() == bytes(COUNT_BYTES)
    for _ in range(300):
        count.add()
    assert int.from_bytes(file.read_bytes(), "little") == count.value() == 300


def test_a_new_count_begins_at_0_and_leaves_the_old_one_to_who_still_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "count"
    Count(file).add()
    with file.open("rb") as old:
        assert Count(file).value() == 0
        assert file.read_bytes() == bytes(COUNT_BYTES)
        assert int.from_bytes(old.read(), "little") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["count"]


def test_a_count_without_a_file_counts() -> None:
    count = Count(None)
    count.add()
    assert count.value() == 1


@pytest.mark.parametrize(
    ("path", "counted"),
    [("/", 1), ("/io", 1), ("/bytes", 1), ("/sleep", 1), ("/healthz", 0), ("/burn", 0), ("/other", 0)],
)
def test_what_a_load_asks_for_is_counted(path: str, counted: int) -> None:
    count = Count(None)
    assert ask(Answered(application, count, None), path)[0]["status"] == 200
    assert count.value() == counted


def test_a_request_without_an_answer_is_not_counted() -> None:
    count = Count(None)
    with pytest.raises(RuntimeError):
        ask(Answered(broken, count, None), "/")
    assert count.value() == 0


@pytest.mark.parametrize(("path", "carries"), [("/", True), ("/healthz", False)])
def test_an_answer_to_a_load_carries_the_report_beside_its_own_headers(
    tmp_path: Path, path: str, carries: bool
) -> None:
    file = tmp_path / "orca"
    file.write_text("TEXT cpu_utilization=0.5\n")
    count = Count(None)
    headers = ask(Answered(application, count, LoadReport(file, count.value)), path)[0]["headers"]
    report = [(b"endpoint-load-metrics", b"TEXT cpu_utilization=0.5")] if carries else []
    assert headers == [(b"x-own", b"1"), *report]


VALUE = "TEXT cpu_utilization=0.42"


class Load:
    """A clock and a count under the test's control."""

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


def agent_value(**utilization: float) -> str:
    record = SampleRecord(
        upstream="web",
        peer="server-1",
        boot="5f0c",
        seq=1,
        taken_at_ms=1_790_000_000_000,
        interval_s=1.0,
        utilization=tuple(utilization.get(name) for name in INDICATORS),
        capacity=(2.0, None, None, None),
        scope="process",
    )
    value = orca_report.text(orca_report.measured(record))
    assert value is not None
    return value


def test_the_header_is_the_agent_s() -> None:
    assert orca_report.HEADER == HEADER


def test_the_rate_is_added_to_what_the_agent_wrote() -> None:
    written = f"{agent_value(cpu=0.42, io=0.1)}\n"
    assert with_rate(written, 118.5) == (
        "TEXT cpu_utilization=0.42,named_metrics.io=0.1,rps_fractional=118.500"
    )
    assert (
        with_rate("TEXT named_metrics.workers=1", 1.0) == "TEXT named_metrics.workers=1,rps_fractional=1.000"
    )
    assert with_rate("TEXT rps_fractional=2", 1.0) == "TEXT rps_fractional=2"


@pytest.mark.parametrize("cpu", [0.0, 1e-9, 0.333333333, 1.0, 7.25])
def test_every_figure_of_an_agent_is_passed_on(cpu: float) -> None:
    value = agent_value(cpu=cpu, mem=1.0, net=0.5, io=0.0)
    assert with_rate(value, None) == value


@pytest.mark.parametrize("text", ["", "TEXT ", "cpu_utilization=0.4", 'JSON {"cpu_utilization": 0.4}'])
def test_what_is_not_an_agent_s_value_is_no_report(text: str) -> None:
    assert with_rate(text, 10.0) is None
