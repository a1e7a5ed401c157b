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


def test_a_cold_cache_is_warmed_by_requests_and_not_by_time() -> None:
    now_s = 100.0
    troubles = Troubles(lambda: now_s)
    assert troubles.work_times() == 1
    troubles.cold(2, 10)
    now_s = 1000.0
    # 2/2 is a miss, then two halves are one; the cache is warm then.
    assert [troubles.work_times() for _ in range(5)] == [10, 1, 10, 1, 1]


def test_half_of_a_cold_cache_s_entries_are_filled_after_its_size_times_ln_2_requests() -> None:
    troubles = Troubles(lambda: 100.0)
    troubles.cold(1000, 3)
    assert sum(troubles.work_times() == 3 for _ in range(693)) == 500
    troubles.stop()
    assert {troubles.work_times() for _ in range(1000)} == {1}


def test_trouble_can_be_ended_early() -> None:
    troubles = Troubles(lambda: 100.0)
    troubles.fail(5)
    troubles.stop()
    assert not troubles.fails
