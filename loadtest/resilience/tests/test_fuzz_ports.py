"""An attack on a port names the outcome, and the traces left in the daemon."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from steelyard_agent.registration.controller_client import ControllerClient
from steelyard_agent.registration.register_flags import Url
from steelyard_resilience.fuzz import footprint, hostile_bytes, port_attack
from steelyard_resilience.fuzz.edits import an_input
from steelyard_resilience.fuzz.footprint import MEGABYTE, MOST_GROWTH, MOST_KEPT
from steelyard_resilience.fuzz.port_attack import Answering
from steelyard_resilience.fuzz.target import ACCEPTED


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", ACCEPTED),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP 400"),
        (b"HTTP/1.0 503 No\r\n\r\n", "HTTP 503"),
        (b"up ready 100%\n", ACCEPTED),
        (b"", "closed"),
    ],
)
def test_an_answer_is_named(answer: bytes, outcome: str) -> None:
    assert port_attack.outcome(answer) == outcome


def test_no_hostile_table_is_a_valid_one() -> None:
    served = [f'"upstream":"{name}"'.encode() for name in ("web", *(f"u{number}" for number in range(9)))]
    assert not any(table in answer for answer in hostile_bytes.ANSWERS for table in served)


def test_a_seed_gives_the_same_bytes_again() -> None:
    one, other = Random(3), Random(3)
    drawn = [an_input(one, hostile_bytes.LINES) for _ in range(50)]
    assert drawn == [an_input(other, hostile_bytes.LINES) for _ in range(50)]
    assert len(set(drawn)) > 25


def test_every_outcome_of_a_port_has_a_name() -> None:
    random = Random(5)
    with Answering(7) as server:
        outcomes = {
            port_attack.deliver(random, server.port, an_input(random, hostile_bytes.LINES)) for _ in range(20)
        }
        assert server.answered > 0
    assert all(outcomes)


def test_no_answer_of_a_controller_makes_the_agent_raise() -> None:
    client = ControllerClient(None, timeout_s=0.2)
    with Answering(11) as server:
        for _ in range(20):
            client(Url("http", "127.0.0.1", server.port), "PUT", "/v1/upstreams/web/peers/a", lambda _: b"{}")
        assert server.answered == 20


def test_an_idle_process_shows_no_trace() -> None:
    pid = os.getpid()
    assert footprint.why_not_as_before(footprint.footprint([pid]), [pid]) is None


def test_descriptors_left_open_are_reported() -> None:
    pid = os.getpid()
    before = footprint.footprint([pid])
    opened = [socket.socket() for _ in range(MOST_KEPT + 1)]
    why = footprint.why_not_as_before(before, [pid], let_go_s=0.0)
    for each in opened:
        each.close()
    assert (
        why
        == f"it had {before.descriptors} descriptors and has {before.descriptors + len(opened)}, 0 s later"
    )


def test_grown_memory_is_reported() -> None:
    pid = os.getpid()
    now = footprint.footprint([pid])
    before = replace(now, resident_bytes=now.resident_bytes - MOST_GROWTH - MEGABYTE)
    assert "its memory grew by" in (footprint.why_not_as_before(before, [pid]) or "")


def test_an_ended_process_is_reported() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        before = footprint.footprint([process.pid])
        process.communicate(b"\n")
    assert (
        footprint.why_not_as_before(before, [process.pid])
        == f"its processes were ({process.pid},) and are ()"
    )


def test_lines_that_no_input_may_cause_are_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("all is well\nTraceback (most recent call last):\n[alert] worker exited on signal 11\n")
    assert len(footprint.bad_lines(log)) == 2
    assert footprint.bad_lines(tmp_path / "none") == []
