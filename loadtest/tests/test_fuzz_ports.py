"""An attack on a port says what came back, and what is left of it in the daemon."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from steelyard_agent.exchange import Exchange
from steelyard_agent.register_values import Url
from steelyard_loadtest.fuzz.model import ACCEPTED
from steelyard_loadtest.fuzz.ports import deliver, hostile, look
from steelyard_loadtest.fuzz.ports.answering import Answering
from steelyard_loadtest.fuzz.ports.look import MEGABYTE, MOST_GROWTH, MOST_KEPT


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
    assert deliver.outcome(answer) == outcome


def test_a_seed_gives_the_same_bytes_again() -> None:
    one, other = Random(3), Random(3)
    drawn = [hostile.drawn(one, hostile.LINES) for _ in range(50)]
    assert drawn == [hostile.drawn(other, hostile.LINES) for _ in range(50)]
    assert len(set(drawn)) > 25


def test_whatever_it_is_sent_a_port_s_outcome_has_a_name() -> None:
    random = Random(5)
    with Answering(7) as server:
        outcomes = {
            deliver.deliver(random, server.port, hostile.drawn(random, hostile.LINES)) for _ in range(20)
        }
        assert server.answered > 0
    assert all(outcomes)


def test_the_agent_never_raises_whatever_a_controller_answers() -> None:
    exchange = Exchange(None, timeout_s=0.2)
    with Answering(11) as server:
        for _ in range(20):
            exchange(
                Url("http", "127.0.0.1", server.port), "PUT", "/v1/upstreams/web/peers/a", lambda _: b"{}"
            )
        assert server.answered == 20


def test_nothing_is_left_of_what_did_nothing() -> None:
    pid = os.getpid()
    assert look.why_not_as_before(look.look([pid]), [pid]) is None


def test_descriptors_that_stay_open_are_told() -> None:
    pid = os.getpid()
    before = look.look([pid])
    opened = [socket.socket() for _ in range(MOST_KEPT + 1)]
    why = look.why_not_as_before(before, [pid], let_go_s=0.0)
    for each in opened:
        each.close()
    assert (
        why
        == f"it had {before.descriptors} descriptors and has {before.descriptors + len(opened)}, 0 s later"
    )


def test_memory_that_grew_is_told() -> None:
    pid = os.getpid()
    now = look.look([pid])
    before = replace(now, resident_bytes=now.resident_bytes - MOST_GROWTH - MEGABYTE)
    assert "its memory grew by" in (look.why_not_as_before(before, [pid]) or "")


def test_a_process_that_ended_is_told() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        before = look.look([process.pid])
        process.communicate(b"\n")
    assert look.why_not_as_before(before, [process.pid]) == f"its processes were ({process.pid},) and are ()"


def test_lines_that_no_input_may_cause_are_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("all is well\nTraceback (most recent call last):\n[alert] worker exited on signal 11\n")
    assert len(look.bad_lines(log)) == 2
    assert look.bad_lines(tmp_path / "none") == []
