"""The request to a controller, the meaning of its answers, and the time of the next one."""

import json

import pytest
from steelyard_agent import log_text
from steelyard_agent.registration.register_flags import Url
from steelyard_agent.registration.register_request import (
    Registration,
    Verdict,
    pause_after_failure_s,
    pause_after_refusal_s,
    pause_after_taken_s,
    reason,
    verdict,
)

FIXED = Registration(upstream="web", peer="server-1", address=("10.0.0.11", 80), baseline=2.5)
AUTO = Registration(upstream="web", peer="server-1", address=("auto", 8080))


def test_a_controller_is_told_address_and_baseline_and_never_state_or_pin() -> None:
    assert FIXED.path == "/v1/upstreams/web/peers/server-1"
    assert json.loads(FIXED.body("192.0.2.1")) == {"address": "10.0.0.11:80", "baseline": 2.5}
    assert json.loads(AUTO.body("192.0.2.1")) == {"address": "192.0.2.1:8080"}
    assert json.loads(AUTO.body("2001:db8::1")) == {"address": "[2001:db8::1]:8080"}


@pytest.mark.parametrize(
    ("statuses", "meaning"),
    [
        ((200, 201, 204), Verdict.TAKEN),
        ((301, 307, 400, 401, 403, 404, 412, 413, 422), Verdict.REFUSED),
        ((408, 409, 425, 429, 500, 502, 503, 504), Verdict.NO_ANSWER),
    ],
)
def test_a_status_is_taken_refused_or_as_good_as_no_answer(
    statuses: tuple[int, ...], meaning: Verdict
) -> None:
    assert {verdict(status) for status in statuses} == {meaning}


@pytest.mark.parametrize(
    ("status", "body", "start"),
    [
        (403, b'{"title":"Forbidden","detail":"this token may not"}', "it answers 403: this token may not"),
        (403, b'{"title":"Forbidden"}', "it answers 403: Forbidden"),
        (
            422,
            b'{"detail":"invalid","errors":[{"field":"address","message":"no port","remedy":"add one"},7]}',
            "it answers 422: invalid; address: no port; add one",
        ),
        (400, b'{"detail":["x"],"errors":{"a":1}}', "it answers 400"),
        (400, b"[]", "it answers 400"),
        (400, b'{"detail":"a\\nb\\u001b[31m\\u2028c"}', "it answers 400: a b [31m c"),
        (404, b"<html>", "it answers 404, without a problem document: is that URL a Steelyard controller's?"),
        (404, b"\xff", "it answers 404, without a problem document: is that URL a Steelyard controller's?"),
        (404, b"[" * 50_000, "it answers 404, without a problem document: is that URL a Steelyard controll"),
        (307, b"", "it answers 307, a redirection, which is not followed: give the URL that it leads to"),
    ],
)
def test_a_reason_is_one_line_for_a_person(status: int, body: bytes, start: str) -> None:
    assert reason(status, body).startswith(start)
    assert reason(status, body).isprintable()


def test_a_long_reason_is_cut() -> None:
    long = reason(400, json.dumps({"detail": "x" * 10_000}).encode())
    assert len(long) == log_text.LONGEST_LINE
    assert long.endswith("x…")


def test_it_is_told_again_every_half_minute_or_so() -> None:
    assert [pause_after_taken_s(random) for random in (0.0, 0.5, 1.0)] == [27.0, 30.0, 33.0]


def test_pauses_without_an_answer_double_to_half_a_minute() -> None:
    assert [pause_after_failure_s(n, 1.0) for n in (1, 2, 3, 4, 5, 6, 10_000)] == [1, 2, 4, 8, 16, 30, 30]
    assert pause_after_failure_s(6, 0.0) == 15.0


def test_what_a_person_must_mend_is_tried_rarely_and_an_unknown_upstream_sooner() -> None:
    assert pause_after_refusal_s(403, 0.5) == 300.0
    assert pause_after_refusal_s(404, 0.5) == 30.0


def test_its_evidence_is_what_it_is_told_and_where() -> None:
    urls = [Url("http", "a", 8081), Url("https", "b", 443)]
    shown = FIXED.evidence(urls, "192.0.2.1", with_token=True)
    assert shown.sources == (
        "http://a:8081/v1/upstreams/web/peers/server-1",
        "https://b:443/v1/upstreams/web/peers/server-1",
    )
    assert shown.note == "address 10.0.0.11:80, baseline 2.5, a token"
    assert AUTO.evidence(urls, "192.0.2.1", with_token=False).note == (
        "address 192.0.2.1:8080 (from auto:8080), baseline from its capacity, no token"
    )
