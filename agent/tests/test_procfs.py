"""The text of /proc/<pid>."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent import procfs
from steelyard_agent.procfs import Stat

LINE = (
    b"4711 (tmux: server (1)) S 1 4711 4711 0 -1 4194560 28 73 0 22 7 2 130 54 20 0 3 0 87749 5124096 923 1"
)


def test_a_name_with_spaces_and_parentheses_is_read_whole() -> None:
    assert procfs.parse_stat(LINE) == Stat(
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
    assert procfs.parse_stat(LINE.replace(b") S ", b") " + state + b" ")).ended is ended


@pytest.mark.parametrize("text", [b"", b"1 (x) S 1 2", b"no parentheses at all"])
def test_a_short_stat_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="fields"):
        procfs.parse_stat(text)


def test_io_calls_are_reads_and_writes() -> None:
    assert procfs.parse_io_calls(b"rchar: 1\nwchar: 2\nsyscr: 30\nsyscw: 12\nread_bytes: 0\n") == 42
    with pytest.raises(ValueError, match="syscr"):
        procfs.parse_io_calls(b"rchar: 1\n")


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        (b"4711\n", 4711), (b" 4711 ", 4711), (b"4711\n/usr/bin/app\n", 4711), (b"\n12", 12),
        (b"", None), (b"app", None), (b"-1", None), (b"0", None), (b"4711 12", None), (b"99999999999", None),
    ],
)  # fmt: skip
def test_a_pid_file_holds_a_number_in_its_first_line(text: bytes, pid: int | None) -> None:
    assert procfs.parse_pid(text) == pid


@given(st.binary(max_size=64))
def test_any_pid_file_is_a_pid_or_none(text: bytes) -> None:
    pid = procfs.parse_pid(text)
    assert pid is None or pid > 0
