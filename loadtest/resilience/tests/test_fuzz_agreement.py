"""Python and Lua read a weight table alike; a difference is a known one, or a violation."""

from typing import Any

import pytest
from steelyard_resilience.fuzz import agreement, luajit
from steelyard_resilience.fuzz.targets.memcached_values import examples

TABLE = (
    '{"v":1,"upstream":"web","term":3,"generation":118,"issued_at_ms":1790000000000,"law":"steelyard",'
    '"picker":"vnswrr2","reporters":[],"peers":[{"id":"b","address":"10.0.0.12:80","weight":%s,"baseline":1,"state":"up"},'
    '{"id":"a","address":"[::1]:80","weight":2,"baseline":1,"state":"up"}]}'
)


def test_a_table_that_one_refuses_is_a_difference() -> None:
    table = (TABLE % "267").encode()
    assert agreement.difference(table, {"outcome": "range"}) == "Python: accepted, Lua: range"
    assert agreement.known(table, {"outcome": "range"}) is None


def test_different_reasons_are_no_difference() -> None:
    assert agreement.difference(b"{}", {"outcome": "version"}) is None


def test_peers_are_compared_in_the_order_of_their_ids() -> None:
    _, reading = agreement.python_reading((TABLE % "267").encode())
    assert reading is not None
    assert [row[0] for row in reading["peers"]] == ["a", "b"]


def test_another_weight_is_a_difference() -> None:
    _, reading = agreement.python_reading((TABLE % "267").encode())
    difference = agreement.difference((TABLE % "268").encode(), {"outcome": "accepted", "value": reading})
    assert difference is not None
    assert difference.startswith("both accept it, and read it differently")


@pytest.mark.integration
def test_luajit_and_python_agree_on_the_examples_and_on_what_is_known() -> None:
    with luajit.judging() as ask_any:

        def ask(data: bytes) -> dict[str, Any]:
            return ask_any("weight-table", data)

        for text in examples("weights"):
            assert agreement.difference(text, ask(text)) is None, text
        for same in ("[1:2:3:4:5:6:7::]:80", "[FD00::0:1]:80", "[::ffff:10.0.0.1]:80", "[::10.0.0.1]:80"):
            text = (TABLE % "267").replace("[::1]:80", same).encode()
            assert agreement.difference(text, ask(text)) is None, text
        whole = (TABLE % "2.67e2").encode()
        assert agreement.difference(whole, ask(whole)) == "Python: type, Lua: accepted"
        stricter = [
            whole,
            (TABLE % '267,"x":"\xff"').encode("latin-1"),
            (TABLE % '[],"weight":267').encode(),
            (TABLE % ('267,"x":' + "9" * 4400)).encode(),
            (TABLE % '[],"weight":267.,"x":"\xff"').encode("latin-1"),
        ]
        for text in stricter:
            assert agreement.known(text, ask(text)) == agreement.STRICTER, text
        other = (TABLE % '267,"x":1.').encode()
        assert agreement.known(other, ask(other) | {"outcome": "range"}) is None
        half = (TABLE % '267,"x":"\\ud800"').encode()
        assert (agreement.python_reading(half)[0], ask(half)["outcome"]) == ("not_json", "not_json")
