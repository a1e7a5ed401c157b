"""A window is the difference of two readings, and only a whole one is reported."""

from collections.abc import Mapping

from steelyard_reporter.haproxy import show_stat
from steelyard_reporter.haproxy.show_stat import Process
from steelyard_reporter.haproxy.windows import Figures, Window, Windows

from ..rows import stat


def _process(
    *rows: dict[str, object],
    pid: int = 100,
    uptime_s: int = 60,
    ending: bool = False,
    via: str = "a",
    http: bool = True,
    version: tuple[int, int] = (2, 6),
    groups: int = 1,
) -> Process:
    servers = show_stat.parse_stat(stat(*rows, http=http), "web", via)
    return Process(
        pid=pid,
        uptime_s=uptime_s,
        ending=ending,
        via=via,
        prefix="",
        servers={"web": servers},
        version=version,
        groups=groups,
    )


def _served(count: int, **more: object) -> dict[str, object]:
    return {"name": "s1", "hrsp_2xx": count, "rtime": 10, **more}


def _whole(window: Window | None) -> Mapping[str, Figures]:
    assert window is not None
    assert window.broken is None
    return window.figures["web"]


def _broken(window: Window | None) -> str:
    assert window is not None
    assert window.broken is not None
    assert not window.figures
    return window.broken


def test_the_first_reading_reports_nothing_and_the_second_what_came_since() -> None:
    windows = Windows(1.0)
    assert windows.next([_process(_served(500))], 10.0) is None
    window = windows.next([_process(_served(580, scur=3, eresp=2))], 11.5)
    assert window is not None
    assert window.interval_s == 1.5
    seen = _whole(window)["s1"]
    assert (seen.completed, seen.failed, seen.in_flight) == (80, 2, 3)
    assert seen.latency_ms is not None
    assert abs(seen.latency_ms - 10) <= 1


def test_where_nothing_was_completed_there_is_no_latency() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(500))], 10.0)
    assert _whole(windows.next([_process(_served(500))], 11.0))["s1"].latency_ms is None


def test_a_restart_breaks_the_window_and_the_next_one_counts_from_there() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(500))], 10.0)
    assert "restarted or reloaded" in _broken(windows.next([_process(_served(7), pid=101, uptime_s=0)], 11.0))
    assert _whole(windows.next([_process(_served(90), pid=101, uptime_s=1)], 12.0))["s1"].completed == 83


def test_a_restart_under_the_same_pid_is_seen_by_its_uptime() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(5), pid=1)], 10.0)
    assert "same pid" in _broken(windows.next([_process(_served(90), pid=1, uptime_s=0)], 11.0))


def test_the_master_tells_of_what_a_reload_replaced_and_nothing_is_missed() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(500))], 10.0)
    both = [_process(_served(7), pid=101, uptime_s=0), _process(_served(520, scur=2), ending=True)]
    seen = _whole(windows.next(both, 11.0))["s1"]
    assert (seen.completed, seen.in_flight) == (27, 2)
    # An ended one is no restart, either.
    assert _whole(windows.next([_process(_served(17), pid=101, uptime_s=1)], 12.0))["s1"].completed == 10


def test_a_process_that_is_older_than_the_window_does_not_pour_its_past_into_it() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(5))], 10.0)
    late = [_process(_served(9)), _process(_served(10_000), pid=200, via="b")]
    assert "older than this window" in _broken(windows.next(late, 11.0))


def test_several_processes_are_summed() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(5)), _process(_served(50), via="b")], 10.0)
    seen = _whole(windows.next([_process(_served(9, scur=1)), _process(_served(60, scur=2), via="b")], 11.0))
    assert (seen["s1"].completed, seen["s1"].in_flight) == (14, 3)


def test_counters_that_fall_leave_their_server_out_for_one_window() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(500), {"name": "s2", "hrsp_2xx": 8})], 10.0)
    seen = _whole(windows.next([_process(_served(3), {"name": "s2", "hrsp_2xx": 9})], 11.0))
    assert list(seen) == ["s2"]
    assert (
        _whole(windows.next([_process(_served(8), {"name": "s2", "hrsp_2xx": 9})], 12.0))["s1"].completed == 5
    )


def test_a_server_that_is_added_counts_from_0() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(500))], 10.0)
    seen = _whole(windows.next([_process(_served(500), {"name": "s2", "hrsp_2xx": 4})], 11.0))
    assert seen["s2"].completed == 4


def test_after_a_pause_the_past_is_not_reported_as_if_it_were_now() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(500))], 10.0)
    assert "nothing was read for 30.0 s" in _broken(windows.next([_process(_served(9000))], 40.0))
    assert _whole(windows.next([_process(_served(9100))], 41.0))["s1"].completed == 100


def test_a_connection_that_is_tried_again_is_not_completed_twice() -> None:
    windows = Windows(1.0)
    for at, row in enumerate(
        [
            {"name": "s1", "stot": 100, "lbtot": 100},
            # A retried one hides an ended one: it is in flight and failed at once.
            {"name": "s1", "stot": 101, "lbtot": 101, "scur": 1, "wretr": 1},
            {"name": "s1", "stot": 102, "lbtot": 101, "wretr": 1},
        ]
    ):
        window = windows.next([_process(row, http=False)], 10.0 + at)
    assert _whole(window)["s1"].completed == 1


def test_a_reload_with_a_stats_file_does_not_pour_the_old_counts_into_a_window() -> None:
    # HAProxy 3.5-dev5: 216 in a window of 5 requests, and 0.5 ms instead of 12.
    windows = Windows(1.0)
    windows.next([_process(_served(211), version=(3, 0))], 10.0)
    both = [
        _process(_served(216, rtime=1), uptime_s=0, pid=101, version=(3, 0)),
        _process(_served(211), ending=True, version=(3, 0)),
    ]
    assert _whole(windows.next(both, 11.0)) == {}
    seen = _whole(windows.next([_process(_served(223, rtime=1), pid=101, version=(3, 0))], 12.0))["s1"]
    assert (seen.completed, seen.latency_ms) == (7, None)


def test_a_new_process_without_requests_counts_from_0_in_every_version() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(500), version=(3, 5))], 10.0)
    both = [
        _process(_served(0, rtime=0), uptime_s=0, pid=101, version=(3, 5)),
        _process(_served(520), ending=True, version=(3, 5)),
    ]
    assert _whole(windows.next(both, 11.0))["s1"].completed == 20
    seen = _whole(windows.next([_process(_served(17, rtime=12), pid=101, version=(3, 5))], 12.0))["s1"]
    assert (seen.completed, seen.latency_ms) == (17, 11.5)


def test_processes_that_share_their_counters_count_once() -> None:
    # HAProxy 3.5-dev5 with `shm-stats-file`: 10 in a window of 5 requests; `scur` is each process's own.
    windows = Windows(1.0)

    def read(*counts: int, old_in_flight: int = 1) -> list[Process]:
        new, old = counts
        return [
            _process(_served(new, scur=2), pid=101, uptime_s=0, version=(3, 5)),
            _process(_served(old, scur=old_in_flight), ending=True, version=(3, 5)),
        ]

    windows.next([_process(_served(246), version=(3, 5))], 10.0)
    assert _whole(windows.next(read(252, 252), 11.0)) == {}
    seen = _whole(windows.next(read(257, 258), 12.0))["s1"]
    assert (seen.completed, seen.in_flight) == (5, 3)
    # Only the new one has served: they do not share their counters.
    assert _whole(windows.next(read(270, 260), 13.0))["s1"].completed == 15


def test_thread_groups_leave_a_window_without_latency_after_512_requests() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(0), version=(3, 4), groups=4)], 10.0)
    early = _whole(windows.next([_process(_served(500, rtime=13), version=(3, 4), groups=4)], 11.0))
    assert early["s1"].latency_ms == 12.5
    late = _whole(windows.next([_process(_served(2048, rtime=48), version=(3, 4), groups=4)], 12.0))
    assert (late["s1"].completed, late["s1"].latency_ms) == (1548, None)


def test_after_a_pause_the_mean_of_a_process_that_goes_on_is_still_known() -> None:
    windows = Windows(1.0)
    windows.next([_process(_served(0), version=(3, 0))], 10.0)
    windows.next([_process(_served(600), version=(3, 0))], 11.0)
    _broken(windows.next([_process(_served(900), version=(3, 0))], 41.0))
    assert _whole(windows.next([_process(_served(905), version=(3, 0))], 42.0))["s1"].latency_ms == 9.5
