"""The text of the machine's files, and of /proc/<pid>."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent import proc_text
from steelyard_agent.proc_text import Stat

LINE = (
    b"4711 (tmux: server (1)) S 1 4711 4711 0 -1 4194560 28 73 0 22 7 2 130 54 20 0 3 0 87749 5124096 923 1"
)


@pytest.mark.parametrize(
    ("text", "count"),
    [(b"0\n", 1), (b"0-3\n", 4), (b"0-1,8-9,12\n", 5), (b"0,2", 2), (b"\n", None), (b"", None)],
)
def test_a_list_of_cpus_is_counted(text: bytes, count: int | None) -> None:
    assert proc_text.parse_cpu_list(text) == count


@pytest.mark.parametrize(
    ("text", "speed"),
    [(b"1000\n", 125e6), (b"100000\n", 125e8), (b"-1\n", None), (b"4294967295\n", None), (b"0\n", None)],
)
def test_a_speed_of_minus_1_is_unknown(text: bytes, speed: float | None) -> None:
    assert proc_text.parse_speed(text) == speed


def test_an_interface_may_have_no_space_after_its_colon_and_a_colon_in_its_name() -> None:
    text = b"head\nhead\n  eth0:1 0 0 0 0 0 0 0 2 0\neth0:1: 3 0 0 0 0 0 0 0 4 0\n"
    assert proc_text.parse_net_dev(text) == {"eth0": (1, 2), "eth0:1": (3, 4)}


def test_a_kernel_without_steal_time_is_refused_not_guessed() -> None:
    with pytest.raises(ValueError, match="eight"):
        proc_text.parse_busy_ticks(b"cpu 1 2 3 4 5 6 7\n")


def test_pressure_is_the_total_of_the_some_line() -> None:
    text = b"some avg10=1.00 avg60=0 avg300=0 total=1500000\nfull avg10=0 avg60=0 avg300=0 total=7\n"
    assert proc_text.parse_stalled_s(text) == 1.5
    with pytest.raises(ValueError, match="some"):
        proc_text.parse_stalled_s(b"full avg10=0 total=7\n")


PARSERS = (
    proc_text.parse_busy_ticks, proc_text.parse_memory, proc_text.parse_net_dev, proc_text.parse_diskstats,
    proc_text.parse_cpu_list, proc_text.parse_speed, proc_text.parse_stalled_s, proc_text.parse_flat,
)  # fmt: skip


@given(st.binary(max_size=200))
def test_garbage_is_a_value_or_an_error_that_readers_expect(text: bytes) -> None:
    for parse in PARSERS:
        try:
            parse(text)
        except (ValueError, LookupError):
            continue


def test_a_name_with_spaces_and_parentheses_is_read_whole() -> None:
    assert proc_text.parse_stat(LINE) == Stat(
        name="tmux: server (1)",
        state="S",
        parent_pid=1,
        cpu_ticks=9,
        reaped_cpu_ticks=184,
        threads=3,
        started_ticks=87749,
        rss_pages=923,
    )


@pytest.mark.parametrize(("state", "ended"), [(b"Z", True), (b"X", True), (b"R", False), (b"D", False)])
def test_a_zombie_has_ended(state: bytes, ended: bool) -> None:
    assert proc_text.parse_stat(LINE.replace(b") S ", b") " + state + b" ")).ended is ended


@pytest.mark.parametrize("text", [b"", b"1 (x) S 1 2", b"no parentheses at all"])
def test_a_short_stat_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="fields"):
        proc_text.parse_stat(text)


def test_io_calls_are_reads_and_writes() -> None:
    assert proc_text.parse_io_calls(b"rchar: 1\nwchar: 2\nsyscr: 30\nsyscw: 12\nread_bytes: 0\n") == 42
    with pytest.raises(ValueError, match="syscr"):
        proc_text.parse_io_calls(b"rchar: 1\n")


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        (b"4711\n", 4711), (b" 4711 ", 4711), (b"4711\n/usr/bin/app\n", 4711), (b"\n12", 12),
        (b"", None), (b"app", None), (b"-1", None), (b"0", None), (b"4711 12", None), (b"99999999999", None),
    ],
)  # fmt: skip
def test_a_pid_file_holds_a_number_in_its_first_line(text: bytes, pid: int | None) -> None:
    assert proc_text.parse_pid(text) == pid


@given(st.binary(max_size=64))
def test_any_pid_file_is_a_pid_or_none(text: bytes) -> None:
    pid = proc_text.parse_pid(text)
    assert pid is None or pid > 0
