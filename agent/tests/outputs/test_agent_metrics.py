"""The agent's outputs beside Memcached: ORCA and Prometheus text, and its answers over HTTP."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent.outputs import http_response, metrics, orca_report
from steelyard_agent.outputs.metrics import Status
from steelyard_agent.outputs.orca_file import OrcaFile
from steelyard_protocol.sample_record import SampleRecord

RECORD = SampleRecord(
    upstream="web",
    peer="server-1",
    boot="b1",
    seq=7,
    taken_at_ms=1790000000000,
    interval_s=1.0,
    utilization=(0.42, 0.02, None, 0.310001),
    capacity=(2.0, 125e6, None, 2147483648.0),
    scope="cgroup",
)
STATUS = Status(
    at_s=100.0, stale_s=3.0, record=RECORD, delivered=41, dropped=1, reachable={"a:1": True, "[::1]:2": False}
)
NOTHING = RECORD._replace(utilization=(None, None, None, None))


def orca(record: SampleRecord) -> str | None:
    return orca_report.text(orca_report.measured(record))


def answered(request: bytes, shown: Status | None = STATUS, *, now_s: float = 100.5) -> str:
    return http_response.respond(request, shown, now_s=now_s, cpu_s=1.25).decode()


def test_an_orca_value_names_what_was_measured_and_leaves_out_what_was_not() -> None:
    assert orca(RECORD) == "TEXT cpu_utilization=0.42,mem_utilization=0.310001,named_metrics.net=0.02"


def test_an_orca_value_has_the_applications_own_indicators_as_named_metrics() -> None:
    further = (("workers", 0.875), ("queue", None), ("kv_cache", 3.5))
    value = orca(NOTHING._replace(further=further))
    assert value == "TEXT named_metrics.workers=0.875,named_metrics.kv_cache=3.5"


def test_an_orca_value_of_nothing_is_none_because_an_empty_one_is_refused() -> None:
    assert orca(NOTHING) is None


@given(st.lists(st.none() | st.floats(0, 1), min_size=3, max_size=3), st.none() | st.floats(0, 64))
def test_an_orca_value_is_what_envoys_parser_takes(shares: list[float | None], cpu: float | None) -> None:
    value = orca(RECORD._replace(utilization=(cpu, *shares)))
    if value is None:
        assert [cpu, *shares] == [None] * 4
        return
    pairs = [pair.split("=") for pair in value.removeprefix("TEXT ").split(",")]
    known = {"cpu_utilization", "mem_utilization", "named_metrics.net", "named_metrics.io"}
    assert len({name for name, _ in pairs}) == len(pairs)
    assert {name for name, _ in pairs} <= known
    assert all(re.fullmatch(r"\d+(\.\d+)?", number) for _, number in pairs)


def test_metrics_have_no_line_for_what_was_not_measured() -> None:
    lines = metrics.prometheus(STATUS, RECORD, cpu_s=1.25).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "process_cpu_seconds_total 1.25",
        'steelyard_agent_samples_total{result="delivered"} 41',
        'steelyard_agent_samples_total{result="dropped"} 1',
        'steelyard_agent_memcached_up{server="a:1"} 1',
        'steelyard_agent_memcached_up{server="[::1]:2"} 0',
        'steelyard_agent_info{upstream="web",peer="server-1",scope="cgroup"} 1',
        "steelyard_agent_sample_interval_seconds 1",
        'steelyard_agent_utilization{indicator="cpu"} 0.42',
        'steelyard_agent_utilization{indicator="net"} 0.02',
        'steelyard_agent_utilization{indicator="mem"} 0.310001',
        'steelyard_agent_capacity{resource="cpu_cores"} 2',
        'steelyard_agent_capacity{resource="net_bytes_per_s"} 125000000',
        'steelyard_agent_capacity{resource="mem_bytes"} 2147483648',
    ]
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families)) == len([line for line in lines if line.startswith("# HELP")])


def test_metrics_say_whether_a_server_that_registers_itself_is_registered() -> None:
    for registered, shown in ((True, "1"), (False, "0")):
        text = metrics.prometheus(replace(STATUS, registered=registered), None, cpu_s=0.0)
        assert f"\nsteelyard_agent_registered {shown}\n" in text


def test_metrics_of_an_agent_that_has_sampled_nothing_are_its_own() -> None:
    text = metrics.prometheus(None, None, cpu_s=0.5)
    assert text.endswith("process_cpu_seconds_total 0.5\n")
    assert "steelyard" not in text


def test_a_label_is_escaped() -> None:
    odd = replace(STATUS, reachable={'a"b\\c\nd': True})
    assert r'{server="a\"b\\c\nd"} 1' in metrics.prometheus(odd, None, cpu_s=0.0)


def test_a_sample_is_stale_when_it_would_be_gone_from_memcached() -> None:
    assert metrics.fresh(STATUS, 103.0) == RECORD
    assert metrics.fresh(STATUS, 103.1) is None
    assert metrics.fresh(None, 0.0) is None


def test_orca_is_a_header_and_the_body() -> None:
    value = "TEXT cpu_utilization=0.42,mem_utilization=0.310001,named_metrics.net=0.02"
    head, _, body = answered(b"GET /orca HTTP/1.1\r\nHost: x\r\n\r\n").partition("\r\n\r\n")
    assert head.splitlines()[0] == "HTTP/1.1 200 OK"
    assert f"endpoint-load-metrics: {value}" in head.splitlines()
    assert f"Content-Length: {len(body)}" in head.splitlines()
    assert body == f"{value}\n"


@pytest.mark.parametrize("shown", [None, replace(STATUS, record=None), replace(STATUS, record=NOTHING)])
def test_without_a_sample_orca_is_503(shown: Status | None) -> None:
    assert answered(b"GET /orca HTTP/1.1\r\n\r\n", shown).startswith("HTTP/1.1 503 ")


def test_a_stale_sample_is_not_served() -> None:
    assert answered(b"GET /orca HTTP/1.1\r\n\r\n", now_s=200.0).startswith("HTTP/1.1 503 ")
    metrics = answered(b"GET /metrics HTTP/1.1\r\n\r\n", now_s=200.0)
    assert "steelyard_agent_samples_total" in metrics
    assert "steelyard_agent_utilization" not in metrics


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", 200),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", 200),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /orca/../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST /orca HTTP/1.1\r\n\r\n", 405),
        (b"GET /orca\r\n\r\n", 400),
        (b"GET  /orca HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /orca HTTP/1.1\r\nX: " + b"x" * 9000, 431),
    ],
)
def test_a_request_is_answered_with_its_code(request_: bytes, code: int) -> None:
    assert answered(request_).startswith(f"HTTP/1.1 {code} ")


def test_a_head_has_the_length_and_no_body() -> None:
    get = answered(b"GET /metrics HTTP/1.1\r\n\r\n")
    head = answered(b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert head == get.partition("\r\n\r\n")[0] + "\r\n\r\n"


@given(st.binary(max_size=200))
def test_any_request_is_answered_and_never_raises(request_: bytes) -> None:
    assert http_response.respond(request_, STATUS, now_s=0.0, cpu_s=0.0).startswith(b"HTTP/1.1 ")


def test_the_file_is_there_while_there_is_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "orca"
    file = OrcaFile(path)
    file.show(STATUS)
    assert path.read_text() == f"{orca(RECORD)}\n"
    file.show(replace(STATUS, record=None))
    assert list(tmp_path.iterdir()) == []
    file.show(STATUS)
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_cannot_be_replaced_is_removed_because_it_has_no_time(tmp_path: Path) -> None:
    path = tmp_path / "orca"
    file = OrcaFile(path)
    file.show(STATUS)
    beside = tmp_path / f".orca.{os.getpid()}"
    beside.symlink_to("/dev/full")
    file.show(STATUS)
    assert list(tmp_path.iterdir()) == []
    file.show(STATUS)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_said_once_and_again_when_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "later" / "orca"
    file = OrcaFile(path)
    file.show(STATUS)
    file.show(STATUS)
    path.parent.mkdir()
    file.show(STATUS)
    assert [entry.getMessage() for entry in caplog.records] == [
        f"{path} cannot be written (No such file or directory); sampling goes on",
        f"{path} can be written again",
    ]
