"""Complaints that are logged once, or once a minute."""

from steelyard_controller.log_once import EVERY_S, MOST_KINDS, LogOnce, LogRarely


def test_a_kind_is_logged_once_and_only_so_many_kinds_are() -> None:
    once = LogOnce()
    kinds = [str(number) for number in range(MOST_KINDS + 5)]
    assert [kind for kind in kinds for _ in range(2) if once.is_first(kind)] == kinds[:MOST_KINDS]


def test_what_goes_on_for_hours_is_logged_once_a_minute() -> None:
    times_s = [0.0, 1.0, EVERY_S - 1, EVERY_S, EVERY_S + 1, 2 * EVERY_S]
    clock = iter(times_s)
    rarely = LogRarely(lambda: next(clock))
    assert [now_s for now_s in times_s if rarely.is_due()] == [0.0, EVERY_S, 2 * EVERY_S]
