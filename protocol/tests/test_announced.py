"""Announcements of load balancers: their text, and reading it."""

from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol import announced, wire


def test_what_is_appended_is_read() -> None:
    both = announced.lines(["web", "shop"], "edge-2") + announced.lines(["web"], "edge-3")
    assert announced.read([both, announced.lines(["web"], "edge-4")]) == {
        "web": {"edge-2", "edge-3", "edge-4"},
        "shop": {"edge-2"},
    }


def test_what_is_no_line_is_left_out() -> None:
    assert announced.read([b"web\nweb edge 2\n\xff \xff\n web edge-2\nweb edge-3\nweb edge-4"]) == {
        "web": {"edge-3", "edge-4"}
    }


@given(st.lists(st.binary(max_size=100)))
def test_whatever_is_there_only_names_come_out(values: list[bytes]) -> None:
    for upstream, lbs in announced.read(values).items():
        assert all(map(wire.is_name, [upstream, *lbs]))
