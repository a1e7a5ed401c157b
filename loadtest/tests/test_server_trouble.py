"""A demo server's trouble begins, ends by itself, and ends when it is told to."""

from steelyard_loadtest.server.trouble import Troubles


def test_a_server_fails_or_is_late_until_its_time_is_up() -> None:
    now_s = 100.0
    troubles = Troubles(lambda: now_s)
    assert (troubles.fails, troubles.late_s) == (False, 0.0)
    troubles.fail(5)
    assert (troubles.fails, troubles.late_s) == (True, 0.0)
    troubles.slow(5, 0.3)
    assert (troubles.fails, troubles.late_s) == (False, 0.3)
    now_s = 104.9
    assert troubles.late_s == 0.3
    now_s = 105.0
    assert (troubles.fails, troubles.late_s) == (False, 0.0)


def test_trouble_can_be_ended_early() -> None:
    troubles = Troubles(lambda: 100.0)
    troubles.fail(5)
    troubles.stop()
    assert not troubles.fails
