"""The load's requests and the looks, without a socket."""

import threading
import time
from typing import cast

import pytest
from steelyard_loadtest.generators.open_loop_requests import CROSSED, GARBLED, Numbered, Same
from steelyard_resilience.chaos.fault import Look
from steelyard_resilience.chaos.session import looking, rung_of
from steelyard_resilience.stage.stage import Stage

from testing.waiting import PATIENCE_S


def test_each_request_has_its_number() -> None:
    requests = Numbered("10.213.0.10:8080", "/")
    assert requests.request(17) == (
        b"GET /?echo=17 HTTP/1.1\r\nHost: 10.213.0.10:8080\r\nUser-Agent: steelyard-loadtest\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        (200, b'{"server": "server-1", "echo": "17"}', ""),
        (200, b'{"server": "server-1", "echo": "16"}', CROSSED),
        (200, b'{"server": "server-1", "echo": 17}', CROSSED),
        (200, b'{"server": "server-1"}', GARBLED),
        (200, b'{"server": "server-1", "ec', GARBLED),
        (200, b"17", GARBLED),
        (200, b"\xff", GARBLED),
        (200, b"", GARBLED),
        (204, b"", "204"),
        (302, b"", "302"),
        (502, b'{"echo": "17"}', "502"),
    ],
)
def test_only_a_200_with_its_own_number_is_an_answer(status: int, body: bytes, failure: str) -> None:
    assert Numbered("host", "/").failure(17, status, body) == failure


def test_the_same_request_is_judged_by_its_status() -> None:
    same = Same("host:81", "/path?query=1")
    assert same.request(0) == same.request(1)
    assert same.request(0).startswith(b"GET /path?query=1 HTTP/1.1\r\nHost: host:81\r\n")
    assert [same.failure(0, status, b"") for status in (200, 302, 404, 502)] == ["", "", "404", "502"]


@pytest.mark.parametrize(
    ("status", "rung"),
    [
        ({"upstreams": {"web": {"rung": "hold"}}}, "hold"),
        ({"upstreams": {"web": {"rung": "ladder"}}}, None),
        ({"upstreams": {"other": {"rung": "hold"}}}, None),
        ({"upstreams": []}, None),
        (None, None),
    ],
)
def test_the_rung_is_the_upstreams(status: dict[str, object] | None, rung: str | None) -> None:
    assert rung_of(status) == rung


class Watched:
    """A stage that does not answer its first question until the test allows it."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self._first = threading.Lock()

    def look(self) -> tuple[dict[str, object] | None, str | None]:
        if self._first.acquire(blocking=False):
            self.let_go.wait(PATIENCE_S)
            raise OSError("no route")
        return {"upstreams": {"web": {"rung": "drift"}}}, None


def test_looks_go_on_while_one_hangs_and_report_its_error() -> None:
    stage, looks = Watched(), list[Look]()
    with looking(cast(Stage, stage), looks):
        deadline_s = time.monotonic() + PATIENCE_S
        while len(looks) < 3:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        stage.let_go.set()
    assert {(look.rung, look.not_well) for look in looks} == {
        ("drift", None),
        (None, "the look failed: OSError no route"),
    }
    moments = [look.at_s for look in looks]
    assert moments == sorted(moments)
