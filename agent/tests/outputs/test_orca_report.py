"""ORCA load reports: measured figures, the application's own, and both as protobuf."""

import base64
import json
import os
from pathlib import Path

import pytest
from steelyard_agent.outputs import orca_messages, orca_report
from steelyard_agent.outputs.orca_application import STALE_S, ApplicationLoadReport
from steelyard_protocol.sample_record import SampleRecord

EXAMPLES = json.loads((Path(__file__).parents[3] / "docs/contract/orca.json").read_text(encoding="utf-8"))

RECORD = SampleRecord(
    upstream="web",
    peer="server-1",
    boot="b1",
    seq=7,
    taken_at_ms=0,
    interval_s=1.0,
    utilization=(0.42, 0.02, None, 0.31),
    capacity=(2.0, 125e6, None, 2147483648.0),
    scope="cgroup",
    further=(("workers", 1.5), ("queue", None)),
)


def test_every_indicator_is_in_the_report_and_what_has_no_field_is_a_named_metric() -> None:
    assert orca_report.measured(RECORD) == {
        "cpu_utilization": 0.42,
        "mem_utilization": 0.31,
        "named_metrics.net": 0.02,
        "named_metrics.workers": 1.5,
    }


def test_named_utilizations_are_those_without_a_field_and_within_0_and_1() -> None:
    assert orca_report.utilizations(RECORD) == {"net": 0.02, "workers": 1.0}


def test_what_is_measured_comes_before_what_the_application_says() -> None:
    own = {"cpu_utilization": 0.9, "rps_fractional": 118.5, "named_metrics.io": 0.5}
    joined = orca_report.joined(RECORD, own)
    assert joined == {**orca_report.measured(RECORD), "rps_fractional": 118.5, "named_metrics.io": 0.5}
    without_cpu = RECORD._replace(utilization=(None, None, None, None), further=())
    assert orca_report.joined(without_cpu, own) == own


@pytest.mark.parametrize("example", EXAMPLES["reports"], ids=lambda example: str(example["about"]))
def test_a_report_is_the_bytes_that_the_other_end_reads(example: dict[str, str]) -> None:
    report = orca_report.parse(example["text"])
    message = orca_messages.load_report(report, {})
    assert orca_messages.OrcaLoadReport.FromString(base64.b64decode(example["binary"])) == message


@pytest.mark.parametrize(
    ("request_", "period_s"),
    [
        # report_interval = 1, a message; in it seconds = 1, nanos = 2.
        (b"\x0a\x08\x08\x02\x10\x80\xca\xb5\xee\x01", 2.5),
        (b"\x0a\x06\x10\x80\xca\xb5\xee\x01", 1.0),
        (b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01", 1.0),
        (b"", 1.0),
        (b"\x12\x01x", 1.0),
    ],
    ids=["2.5 s", "0.5 s", "-1 s", "none", "names of costs"],
)
def test_reports_come_as_often_as_asked_but_no_oftener_than_samples(request_: bytes, period_s: float) -> None:
    assert orca_messages.period_s(request_, interval_s=1.0) == period_s


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(ValueError, match="OrcaLoadReportRequest"):
        orca_messages.period_s(b"\xff", interval_s=1.0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "TEXT"),
        ("JSON {}", "TEXT"),
        ("TEXT ", "no field"),
        ("TEXT rps=1", "'rps' is no field"),
        ("TEXT named_metrics.=1", "no field"),
        ("TEXT named_metrics.a b=1", "no field"),
        ("TEXT eps=1,eps=2", "twice"),
        ("TEXT eps", "eps is ''"),
        ("TEXT eps=-1", "within 0..1e"),
        ("TEXT eps=nan", "within"),
        ("TEXT eps=1e300", "within"),
        ("TEXT eps=1\r\nX: 1", "within"),
        ("TEXT application_utilization=65", "within 0..64"),
    ],
)
def test_a_wrong_report_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        orca_report.parse(text)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_an_application_s_report_counts_while_it_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, clock = tmp_path / "app", Clock()
    caplog.set_level("INFO")
    report = ApplicationLoadReport(file, clock)
    assert report.read() == report.read() == {}
    file.write_text("TEXT rps_fractional=118.5, application_utilization=0.7\n")
    own = {"rps_fractional": 118.5, "application_utilization": 0.7}
    assert report.read() == own
    clock.now_s += STALE_S
    assert report.read() == own
    clock.now_s += 0.1
    assert report.read() == {}
    file.write_text("TEXT rps_fractional=much\n")
    assert report.read() == {}
    file.write_text("x" * 3000)
    assert report.read() == {}
    assert [entry.getMessage() for entry in caplog.records] == [
        f"{file} cannot be read: No such file or directory; nothing is taken from it",
        f"{file} can be read again",
        f"{file} has not been written for 10 s; nothing is taken from it",
        f"{file} is not an ORCA load report: rps_fractional is 'much': give a number within 0..1e+15; "
        "nothing is taken from it",
        f"{file} is not an ORCA load report: it is longer than 2048 bytes; nothing is taken from it",
    ]


def test_nobody_waits_for_who_writes_into_a_pipe(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pipe = tmp_path / "app"
    os.mkfifo(pipe)
    assert ApplicationLoadReport(pipe, Clock()).read() == {}
    assert "cannot be read: it is not a regular file" in caplog.text
