"""The text of the kernel's files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent import kernel_text


@pytest.mark.parametrize(
    ("text", "count"),
    [(b"0\n", 1), (b"0-3\n", 4), (b"0-1,8-9,12\n", 5), (b"0,2", 2), (b"\n", None), (b"", None)],
)
def test_a_list_of_cpus_is_counted(text: bytes, count: int | None) -> None:
    assert kernel_text.parse_cpu_list(text) == count


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        (b"1000\n", 125e6), (b"100000\n", 125e8),
        (b"-1\n", None), (b"65535\n", None), (b"4294967295\n", None), (b"0\n", None),
    ],
)  # fmt: skip
def test_a_speed_of_minus_1_of_any_width_is_unknown(text: bytes, speed: float | None) -> None:
    assert kernel_text.parse_speed(text) == speed


def test_pressure_is_the_total_of_the_some_line() -> None:
    text = b"some avg10=1.00 avg60=0 avg300=0 total=1500000\nfull avg10=0 avg60=0 avg300=0 total=7\n"
    assert kernel_text.parse_stalled_s(text) == 1.5
    with pytest.raises(ValueError, match="some"):
        kernel_text.parse_stalled_s(b"full avg10=0 total=7\n")


PARSERS = (
    kernel_text.parse_cpu_list, kernel_text.parse_speed, kernel_text.parse_stalled_s, kernel_text.parse_flat,
)  # fmt: skip


@given(st.binary(max_size=200))
def test_garbage_is_a_value_or_an_error_that_readers_expect(text: bytes) -> None:
    for parse in PARSERS:
        try:
            parse(text)
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        (b"4711\n", 4711), (b" 4711 ", 4711), (b"4711\n/usr/bin/app\n", 4711), (b"\n12", 12),
        (b"", None), (b"app", None), (b"-1", None), (b"0", None), (b"4711 12", None), (b"99999999999", None),
    ],
)  # fmt: skip
def test_a_pid_file_holds_a_number_in_its_first_line(text: bytes, pid: int | None) -> None:
    assert kernel_text.parse_pid(text) == pid


@given(st.binary(max_size=64))
def test_any_pid_file_is_a_pid_or_none(text: bytes) -> None:
    pid = kernel_text.parse_pid(text)
    assert pid is None or pid > 0


def test_one_number_of_a_flat_file_is_read_by_its_whole_name() -> None:
    text = b"cache 1\ntotal_cache 2\ninactive_file 3\ntotal_inactive_file 4\n"
    assert kernel_text.flat_value(text, "cache") == 1
    assert kernel_text.flat_value(text, "inactive_file") == 3
    assert kernel_text.flat_value(text, "total_inactive_file") == 4
    with pytest.raises(KeyError):
        kernel_text.flat_value(text, "file")
    with pytest.raises(ValueError, match="invalid literal"):
        kernel_text.flat_value(b"cache x\n", "cache")


def test_the_nics_of_a_network_are_read_with_what_they_received_and_sent() -> None:
    head = b"Inter-|   Receive |  Transmit\n face |bytes packets errs\n"
    text = (
        head
        + b"    lo: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n  eth0:1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\nhalf: 1\n"
    )
    assert kernel_text.parse_net_dev(text) == {"lo": (5, 6), "eth0": (1000, 2000)}
    assert kernel_text.parse_net_dev(b"") == {}
