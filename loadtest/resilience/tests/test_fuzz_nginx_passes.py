"""A case of chained locations is repeatable, each has one parent, and each kind of verdict occurs."""

import re
from typing import Any

import pytest
from steelyard_resilience.fuzz.nginx_cases import Answer, Visit
from steelyard_resilience.fuzz.nginx_chains import WAYS, Chains, Place, chains_of
from steelyard_resilience.fuzz.nginx_passes import (
    Sent,
    in_flight,
    still_out,
    wrong_answers,
    wrong_counts,
    wrong_health,
    wrong_passes,
)

SERVERS = [f"127.0.0.1:{port}" for port in range(9001, 9017)]
CASES = [chains_of(seed, SERVERS) for seed in range(200)]


def test_a_seed_gives_the_same_case_again() -> None:
    assert chains_of(7, SERVERS) == CASES[7]
    assert len({case.conf for case in CASES}) == len(CASES)


def test_one_location_at_most_leads_to_another() -> None:
    for case in CASES:
        locations = re.findall(r"location ([/@]l\d+) \{(.*?)\n    \}", case.conf, re.DOTALL)
        children = [child for _, text in locations for child in re.findall(r"[ \"]([/@]l\d+)\b", text)]
        roots = [visit.path.partition("?")[0] for visit in (*case.visits, *case.held)]
        assert locations
        assert len(set(children)) == len(children)
        assert not set(children) & set(roots)


def test_every_way_end_and_kind_of_server_is_drawn() -> None:
    confs = "".join(case.conf for case in CASES)
    for way in WAYS:
        assert re.search(re.escape(way.format("<>")).replace("<>", r"[@/]l\d+"), confs), way
    ends = ("X-Next @l", "X-Next /short", "X-Next /endless", "404 /endless", "504 @failure")
    lines = ("auth_request /l", "proxy_next_upstream_tries 1", "log_subrequest on", "set_by_lua_block $s_l")
    for line in (*ends, *lines):
        assert line in confs, line
    assert any(place.hangs for case in CASES for place in case.places.values())
    assert any(case.dead for case in CASES)
    assert any(case.closes_idle for case in CASES)


CASE = Chains(
    seed=1, members={"web": ["a", "b", "c"], "login": ["d"]}, dead=frozenset("a"), closes_idle=frozenset(),
    places={
        "l0": Place(upstream="web", tries=2), "l1": Place(upstream="login", tries=2, is_logged=False),
    },
    max_fails={"web": 1, "login": 0}, failure_statuses={"web": [404], "login": []},
    conf="", warm=(), visits=(), held=(), again={},
)  # fmt: skip


def _sent(*servers: str, place: str = "l0", upstream: str = "web") -> list[Sent]:
    # A server with a mark behind it: "-" hung up, "?" did not find the path.
    statuses = {"-": 0, "?": 404}
    return [
        Sent(visit="/v", place=place, upstream=upstream, server=one[0], status=statuses.get(one[1:], 200))
        for one in servers
    ]


@pytest.mark.parametrize(
    ("sent", "messages"),
    [
        (_sent("a-", "b"), []),
        (_sent("a-", "b-", "c"), ["/v at l0 went to 3 servers, more than 2"]),
        (_sent("d-", "d", place="l1", upstream="login"), []),
        (_sent("a-", "a"), []),  # b and c may be out
        (_sent("d"), ["a request for web went to d"]),
    ],
)
def test_each_pass_is_bounded(sent: list[Sent], messages: list[str]) -> None:
    assert wrong_passes(CASE, sent) == messages


def test_no_server_is_asked_twice_while_others_are_left() -> None:
    steady = Chains(**{name: getattr(CASE, name) for name in Chains.__slots__} | {"max_fails": {"web": 0}})
    assert wrong_passes(steady, _sent("a-", "a")) == ["/v at l0 went to a, a"]


def _log(name: str, server: str, what: str) -> str:
    return f"2026/11/28 [notice] steelyard: upstream {name}: {server} ({server}:80) {what} 0.3 s: a try\n"


def test_health_is_that_of_the_servers_own_upstream() -> None:
    sent = _sent("a-", "b")
    assert wrong_health(CASE, sent, _log("web", "a", "is out for")) == []
    assert wrong_health(CASE, sent, "") == ["web's a is dead, and was not taken out"]
    assert wrong_health(CASE, sent[1:], _log("web", "b", "is out for")) == [
        "the log says of web that b, which is well, is out for"
    ]
    assert wrong_health(CASE, [], _log("login", "a", "answers again")) == [
        "the log says of login that a, which is not its own, answers again"
    ]


def _status(**peer: Any) -> dict[str, Any]:
    peer = {"id": "a", "address": "a", "health": "ok", "completed": 1, "failed": 2, "in_flight": 0} | peer
    return {"upstreams": {"web": {"peers": [peer]}}}


def test_counts_are_those_of_the_servers() -> None:
    sent = _sent("a-", "a?", "a") + _sent("a", place="l1")
    assert wrong_counts(CASE, sent, _status()) == []
    assert wrong_counts(CASE, sent, _status(failed=3)) == []  # nginx's connection ended before a request
    message = "web's a completed 1 and failed 2, and counts {} and {}"
    assert wrong_counts(CASE, sent, _status(completed=2)) == [message.format(2, 2)]
    assert wrong_counts(CASE, sent, _status(failed=1)) == [message.format(1, 1)]


def test_what_is_out_or_in_flight_is_named() -> None:
    assert (still_out(_status()), in_flight(_status())) == ([], [])
    assert still_out(_status(health="fails")) == [("web", "a")]
    assert in_flight(_status(in_flight=2)) == ["web's a has 2 in flight"]


@pytest.mark.parametrize(
    ("headers", "body", "messages"),
    [
        ({"x-backend": "a", "x-steelyard-server": "a"}, b"", []),
        ({"x-backend": "nginx"}, b"", []),
        ({"x-backend": "a", "x-steelyard-server": "b"}, b"", ["/v: an answer 200 of a names b"]),
        ({"x-backend": "a"}, b"", ["/v: an answer 200 of a names no server"]),
        (
            {"content-type": "application/problem+json"},
            b'5c\r\n{"upstream": "login", "tries": [{"peer": "d"}, {"peer": "a", "upstream": "web"}]}\r\n0',
            [],
        ),
        (
            {"content-type": "application/problem+json"},
            b'{"upstream": "login", "tries": [{"peer": "a"}]}',
            ["/v: the failure of login is blamed on a"],
        ),
    ],
)
def test_an_answer_names_its_server(headers: dict[str, str], body: bytes, messages: list[str]) -> None:
    visit = Visit(path="/v", manner="whole", wait_s=0, body=0)
    answer = Answer(status=200, headers=headers, complete=True, body=body)
    assert wrong_answers(CASE, [(visit, answer)]) == messages
