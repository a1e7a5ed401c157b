"""Complaints that are logged once."""

from steelyard_controller.log_once import MOST_KINDS, LogOnce


def test_a_kind_is_logged_once_and_only_so_many_kinds_are() -> None:
    once = LogOnce()
    kinds = [str(number) for number in range(MOST_KINDS + 5)]
    assert [kind for kind in kinds for _ in range(2) if once.is_first(kind)] == kinds[:MOST_KINDS]
