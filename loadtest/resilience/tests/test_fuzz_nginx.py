"""A case of the attack on nginx is repeatable and covers every line; each kind of verdict occurs."""

import re
from typing import Any

import pytest
from steelyard_resilience.fuzz.nginx_cases import (
    ANYWHERE,
    MANNERS,
    PROXIES,
    REDIRECTS,
    Answer,
    Case,
    a_case,
    unrest,
    wrong_servers,
)

SERVERS = [f"127.0.0.1:{port}" for port in range(9001, 9018)]
CASES = [a_case(seed, SERVERS) for seed in range(300)]


def test_a_seed_gives_the_same_case_again() -> None:
    assert a_case(7, SERVERS) == CASES[7]
    assert len({case.conf for case in CASES}) == len(CASES)


def test_every_server_is_of_one_upstream() -> None:
    for case in CASES:
        listed = [address for addresses in case.members.values() for address in addresses]
        assert len(set(listed)) == len(listed)


def test_a_location_leads_only_to_later_ones() -> None:
    for case in CASES:
        for number, text in re.findall(r"location [/@]l(\d+) \{(.*?)\n    \}", case.conf, re.DOTALL):
            assert all(int(other) > int(number) for other in re.findall(r"[/@]l(\d+)\b", text))


def test_every_line_and_every_manner_is_drawn() -> None:
    confs = "".join(case.conf for case in CASES)
    for _, *texts in (*ANYWHERE, *REDIRECTS, *PROXIES):
        for text in texts:
            assert re.search(re.sub("<[a-z]+>", r"\\S*", re.escape(text)), confs), text
    assert {visit.manner for case in CASES for visit in case.visits} == set(MANNERS)


CASE = Case(seed=1, members={"web": ["a"], "login": ["b"]}, conf="", visits=())


def _answer(server: str, named: str) -> Answer:
    return Answer(status=200, headers={"x-backend": server, "x-steelyard-server": named}, complete=True)


def test_a_server_of_another_upstream_is_named() -> None:
    assert wrong_servers(CASE, [("web", "a"), ("login", "b")], [_answer("a", "a")]) == []
    assert wrong_servers(CASE, [("web", "b")], []) == ["a request for web went to b"]
    assert wrong_servers(CASE, [], [_answer("a", "b")]) == ["an answer 200 of a names b"]


QUIET = {"in_flight": 0, "picks": 3, "completed": 2, "failed": 1, "id": "a", "address": "a"}
OPEN = {"requests open": 0, "reservations": 0, "queue places": 0}


def _unrest(*, all_stayed: bool = True, own: object = (), unlogged: int = 0, **more: int) -> list[str]:
    peers = [QUIET | {name: value for name, value in more.items() if name in QUIET}]
    counts = {"subrequests": 0, "subrequests_counted": 0, "unlogged": unlogged}
    status: dict[str, Any] = {
        "workers": [{"in_flight": own}],
        "upstreams": {"web": {"peers": peers, **counts}},
    }
    opened = OPEN | {name: value for name, value in more.items() if name in OPEN}
    return unrest(status, opened, [("web", "a")] * 3, all_stayed=all_stayed)


@pytest.mark.parametrize(
    ("more", "messages"),
    [
        ({}, []),
        ({"in_flight": 1}, ["web's a has 1 in flight"]),
        ({"own": {"a": 1}}, ["a worker has {'a': 1} in flight"]),
        ({"requests open": 2}, ["a worker has 2 requests open"]),
        ({"queue places": 1}, ["a worker has 1 queue places"]),
        ({"failed": 2}, ["web's a was picked 3 times, got 3 requests and ended 4"]),
        ({"picks": 2, "failed": 0}, ["web's a was picked 2 times, got 3 requests and ended 2"]),
        ({"picks": 4}, ["the ends of 1 tries are not counted"]),
        ({"picks": 4, "all_stayed": False}, []),
        ({"picks": 4, "unlogged": 1}, []),
    ],
)
def test_remains_of_requests_are_named(more: dict[str, Any], messages: list[str]) -> None:
    assert _unrest(**more) == messages
