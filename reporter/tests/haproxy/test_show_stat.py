"""HAProxy's reports are read by the names of their columns; other texts are refused with a remedy."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_reporter.haproxy import show_stat
from steelyard_reporter.haproxy.show_stat import UNKNOWN_VERSION, HaproxyFault, Info, ServerRow

from ..rows import info, stat


def _one(text: str) -> ServerRow:
    servers = show_stat.parse_stat(text, "web", "admin.sock")
    assert servers is not None
    (row,) = servers.values()
    return row


def test_a_response_below_500_is_completed_and_all_else_failed() -> None:
    row = _one(
        stat(
            {"name": "s1", "hrsp_1xx": 1, "hrsp_2xx": 70, "hrsp_3xx": 5, "hrsp_4xx": 3, "hrsp_other": 1}
            | {"hrsp_5xx": 4, "econ": 1, "eresp": 2, "wretr": 3, "wredis": 6, "scur": 9, "rtime": 12}
        )
    )
    assert (row.completed, row.failed, row.in_flight) == (80, 16, 9)
    assert (row.timed, row.latency_ms) == (84, 12)


@pytest.mark.parametrize(
    ("counts", "completed", "failed"),
    [
        # As HAProxy 2.6.12 counts five responses: one broke off, one stalled, or both.
        ({"hrsp_2xx": 5, "eresp": 1, "srv_abrt": 1}, 4, 1),
        ({"hrsp_2xx": 5, "eresp": 0, "srv_abrt": 1}, 4, 1),
        ({"hrsp_2xx": 5, "eresp": 1, "srv_abrt": 2}, 3, 2),
        # A server that hung up before it had read the request.
        ({"hrsp_2xx": 0, "eresp": 1, "srv_abrt": 1}, 0, 1),
        ({"hrsp_2xx": 5, "eresp": 1, "srv_abrt": 0}, 5, 1),
    ],
)
def test_a_response_that_breaks_off_is_failed_and_not_completed(
    counts: dict[str, int], completed: int, failed: int
) -> None:
    row = _one(stat({"name": "s1", **counts}))
    assert (row.completed, row.failed, row.timed) == (completed, failed, counts["hrsp_2xx"])


def test_in_tcp_a_connection_that_was_made_and_has_ended_is_completed() -> None:
    row = _one(
        stat(
            {"name": "s1", "stot": 20, "scur": 4, "econ": 1, "wretr": 2, "ctime": 3, "lbtot": 18}, http=False
        )
    )
    assert (row.completed, row.failed, row.in_flight) == (13, 3, 4)
    assert (row.timed, row.latency_ms) == (18, 3)


def test_retries_under_way_leave_no_negative_count() -> None:
    row = _one(stat({"name": "s1", "stot": 10, "scur": 2, "econ": 2, "wretr": 8}, http=False))
    assert row.completed == 0


def test_other_backends_and_rows_that_are_no_server_are_left_out() -> None:
    text = stat({"name": "s1"}, {"name": "BACKEND", "type": 1}, {"name": "s2", "pxname": "shop"})
    servers = show_stat.parse_stat(text, "web", "admin.sock")
    assert servers is not None
    assert list(servers) == ["s1"]


def test_a_backend_that_is_not_there_is_none() -> None:
    assert show_stat.parse_stat("No such proxy.", "web", "admin.sock") is None


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Permission denied", "level admin"),
        ("ERROR", "no runtime socket of HAProxy"),
        ("", "no runtime socket of HAProxy (it answers nothing)"),
        ("Name: Varnish\nPid: 7", "name the one of `stats socket`"),
        ("Name: HAProxy\nPid: \N{SUPERSCRIPT TWO}", "name the one of `stats socket`"),
        (f"Name: HAProxy\nPid: {'9' * 5000}", "name the one of `stats socket`"),
    ],
)
def test_what_is_not_haproxys_is_refused_with_the_remedy(text: str, remedy: str) -> None:
    with pytest.raises(HaproxyFault) as refused:
        show_stat.parse_info(text, "/run/x.sock")
    assert remedy in str(refused.value)
    assert "/run/x.sock" in str(refused.value)


def test_a_backend_without_a_server_is_there_and_a_frontend_is_no_backend() -> None:
    assert show_stat.parse_stat(stat({"name": "BACKEND", "type": 1}), "web", "x") == {}
    assert show_stat.parse_stat(stat(), "web", "x") is None
    assert show_stat.is_a_frontends(stat())


def test_pid_and_uptime_are_read() -> None:
    assert show_stat.parse_info(info(pid=7, uptime_s=3), "x") == Info(
        pid=7, uptime_s=3, version=(2, 6), groups=1
    )


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("3.5-dev5-50872daa6", (3, 5)),
        ("2.6.12-1+deb12u2", (2, 6)),
        ("", UNKNOWN_VERSION),
        ("x.y", UNKNOWN_VERSION),
    ],
)
def test_version_and_thread_groups_are_those_of_show_info(line: str, version: tuple[int, int]) -> None:
    text = info().replace("2.6.12", line) + "\nNbThreadGroups: 4"
    seen = show_stat.parse_info(text, "x")
    assert (seen.version, seen.groups) == (version, 4)


def test_the_masters_workers_are_those_of_now_and_those_that_were_replaced() -> None:
    text = (
        "#<PID>          <type>          <reloads>       <uptime>        <version>\n"
        "15103           master          1 [failed: 0]   0d00h00m26s     2.6.12\n"
        "# workers\n15204           worker          0               0d00h00m05s     2.6.12\n"
        "# old workers\n15104           worker          1               0d00h00m25s     2.6.12\n"
        "# programs\n"
    )
    assert show_stat.parse_workers(text) == [(15204, False), (15104, True)]


@given(text=st.text())
def test_no_text_is_a_crash(text: str) -> None:
    for read in (lambda: show_stat.parse_info(text, "x"), lambda: show_stat.parse_stat(text, "web", "x")):
        with contextlib.suppress(HaproxyFault):
            read()


@pytest.mark.parametrize("cell", ["x", "", "-", "1e3", "-1", "9" * 400])
def test_a_count_that_is_no_number_is_refused(cell: str) -> None:
    with pytest.raises(HaproxyFault):
        show_stat.parse_stat(stat({"name": "s1", "scur": cell}), "web", "x")
