"""The choice of a controller, the pauses and the log, with invented answers."""

import logging
from collections.abc import Callable

import pytest
from steelyard_agent.http_exchange import Answer
from steelyard_agent.registration.controller_client import NoAnswer
from steelyard_agent.registration.register_flags import Url
from steelyard_agent.registration.register_loop import RegisterLoop
from steelyard_agent.registration.register_request import Registration

A, B = Url("http", "a", 8081), Url("http", "b", 8081)
DOWN = NoAnswer("Connection refused")
SAID_DOWN = "web/server-1: no controller registers it (http://a:8081: Connection refused"
AGAIN = "; sampling goes on, and it is tried again"


def answer(status: int, body: bytes = b"{}", source_ip: str = "192.0.2.1") -> Answer:
    return Answer(status=status, body=body, source_ip=source_ip)


class Controllers:
    """Controllers with the test's answers."""

    def __init__(self, **answers: Answer | NoAnswer) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(
        self, url: Url, method: str, path: str, body: Callable[[str], bytes] | None = None
    ) -> Answer | NoAnswer:
        self.asked.append(f"{method} {url.host}")
        assert path == "/v1/upstreams/web/peers/server-1"
        assert (body is None) == (method == "DELETE")
        return self.answers[url.host]


def loop_of(controllers: Controllers, *urls: Url, host: str = "10.0.0.11") -> RegisterLoop:
    wanted = Registration(upstream="web", peer="server-1", address=(host, 80))
    return RegisterLoop(wanted, urls or (A, B), controllers, random=lambda: 0.5)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.getMessage() for entry in caplog.records]


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_a_registration_is_repeated_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    controllers = Controllers(a=answer(201))
    loop = loop_of(controllers)
    assert not loop.registered
    assert loop.step() == 30.0
    controllers.answers["a"] = answer(200)
    assert [loop.step(), loop.step()] == [30.0, 30.0]
    assert controllers.asked == ["PUT a"] * 3
    assert loop.registered
    assert logged(caplog) == ["web/server-1 is registered at 10.0.0.11:80 with http://a:8081"]


def test_a_controller_that_had_forgotten_the_server_is_said(caplog: pytest.LogCaptureFixture) -> None:
    loop = loop_of(Controllers(a=answer(201)))
    loop.step()
    loop.step()
    assert logged(caplog)[1:] == [
        "web/server-1 is registered again at 10.0.0.11:80 with http://a:8081, which had lost it"
    ]


def test_an_automatic_address_follows_the_machines_own(caplog: pytest.LogCaptureFixture) -> None:
    controllers = Controllers(a=answer(200))
    loop = loop_of(controllers, host="auto")
    loop.step()
    controllers.answers["a"] = answer(200, source_ip="192.0.2.9")
    loop.step()
    assert logged(caplog) == [
        "web/server-1 is registered at 192.0.2.1:80 with http://a:8081",
        "web/server-1 is registered at 192.0.2.9:80 with http://a:8081",
    ]


@pytest.mark.parametrize("trouble", [DOWN, answer(503), answer(500), answer(429)])
def test_the_next_controller_is_asked_at_once_and_stays_the_first(trouble: Answer | NoAnswer) -> None:
    controllers = Controllers(a=trouble, b=answer(200))
    loop = loop_of(controllers)
    assert [loop.step(), loop.step()] == [30.0, 30.0]
    assert controllers.asked == ["PUT a", "PUT b", "PUT b"]


def test_without_any_answer_it_is_tried_with_growing_pauses_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controllers = Controllers(a=DOWN, b=answer(503, b'{"detail":"no leader"}'))
    loop = loop_of(controllers)
    assert [loop.step() for _ in range(4)] == [0.75, 1.5, 3.0, 6.0]
    assert not loop.registered
    controllers.answers["b"] = answer(200)
    assert loop.step() == 30.0
    assert loop.registered
    controllers.answers["b"] = DOWN
    assert loop.step() == 0.75
    assert not loop.registered
    controllers.answers["b"] = answer(200)
    loop.step()
    assert logged(caplog) == [
        f"{SAID_DOWN}, http://b:8081: it answers 503: no leader){AGAIN}",
        "web/server-1 is registered at 10.0.0.11:80 with http://b:8081",
        "web/server-1: no controller registers it (http://b:8081: Connection refused, "
        f"http://a:8081: Connection refused){AGAIN}",
        "web/server-1 is registered again at 10.0.0.11:80 with http://b:8081",
    ]


def test_a_refusal_is_said_once_with_its_reason_and_tried_rarely(caplog: pytest.LogCaptureFixture) -> None:
    controllers = Controllers(a=answer(403, b'{"detail":"not with this token"}'))
    loop = loop_of(controllers, A)
    assert [loop.step(), loop.step()] == [300.0, 300.0]
    controllers.answers["a"] = answer(404, b'{"detail":"no upstream web"}')
    assert loop.step() == 30.0
    refused = "web/server-1: http://a:8081 does not register it: it answers"
    assert logged(caplog) == [
        f"{refused} 403: not with this token{AGAIN}",
        f"{refused} 404: no upstream web{AGAIN}",
    ]


def test_after_a_refusal_the_next_one_in_turn_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    controllers = Controllers(a=answer(404, b"<html>"), b=answer(404, b"<html>"))
    loop = loop_of(controllers)
    for _ in range(3):
        loop.step()
    assert controllers.asked == ["PUT a", "PUT b", "PUT a"]
    assert len(logged(caplog)) == 1


@pytest.mark.parametrize("status", [204, 404])
def test_a_registration_is_taken_back_where_it_is_known(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    controllers = Controllers(a=DOWN, b=answer(status))
    loop_of(controllers).withdraw()
    assert controllers.asked == ["DELETE a", "DELETE b"]
    assert logged(caplog) == ["web/server-1 is deregistered with http://b:8081"]


def test_a_registration_that_cannot_be_taken_back_is_said(caplog: pytest.LogCaptureFixture) -> None:
    loop_of(Controllers(a=DOWN, b=answer(403, b'{"detail":"no"}'))).withdraw()
    assert logged(caplog) == [
        "web/server-1 is not deregistered and stays declared "
        "(http://a:8081: Connection refused, http://b:8081: it answers 403: no)"
    ]


def test_a_mistake_of_ours_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[str] = []

    def wrong(
        url: Url, method: str, path: str, body: Callable[[str], bytes] | None = None
    ) -> Answer | NoAnswer:
        asked.append(f"{method} {url.host}{path} {body is None}")
        if method == "PUT":
            loop.stop(withdraw=True)
            raise RuntimeError("a mistake")
        return answer(204)

    wanted = Registration(upstream="web", peer="server-1", address=("10.0.0.11", 80))
    loop = RegisterLoop(wanted, [A], wrong, random=lambda: 0.0)
    loop.start()
    loop.join(20.0)
    assert logged(caplog) == [
        "registering failed; sampling goes on",
        "web/server-1 is deregistered with http://a:8081",
    ]
