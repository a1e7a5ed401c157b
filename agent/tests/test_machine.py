"""The text of the machine's files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent import machine


@pytest.mark.parametrize(
    ("text", "count"),
    [(b"0\n", 1), (b"0-3\n", 4), (b"0-1,8-9,12\n", 5), (b"0,2", 2), (b"\n", None), (b"", None)],
)
def test_a_list_of_cpus_is_counted(text: bytes, count: int | None) -> None:
    assert machine.parse_cpu_list(text) == count


@pytest.mark.parametrize(
    ("text", "speed"),
    [(b"1000\n", 125e6), (b"100000\n", 125e8), (b"-1\n", None), (b"4294967295\n", None), (b"0\n", None)],
)
def test_a_speed_of_minus_1_is_unknown(text: bytes, speed: float | None) -> None:
    assert machine.parse_speed(text) == speed


def test_an_interface_may_have_no_space_after_its_colon_and_a_colon_in_its_name() -> None:
    text = b"head\nhead\n  eth0:1 0 0 0 0 0 0 0 2 0\neth0:1: 3 0 0 0 0 0 0 0 4 0\n"
    assert machine.parse_net_dev(text) == {"eth0": (1, 2), "eth0:1": (3, 4)}


def test_a_kernel_without_steal_time_is_refused_not_guessed() -> None:
    with pytest.raises(ValueError, match="eight"):
        machine.parse_busy_ticks(b"cpu 1 2 3 4 5 6 7\n")


def test_pressure_is_the_total_of_the_some_line() -> None:
    text = b"some avg10=1.00 avg60=0 avg300=0 total=1500000\nfull avg10=0 avg60=0 avg300=0 total=7\n"
    assert machine.parse_stalled_s(text) == 1.5
    with pytest.raises(ValueError, match="some"):
        machine.parse_stalled_s(b"full avg10=0 total=7\n")


PARSERS = (
    machine.parse_busy_ticks, machine.parse_memory, machine.parse_net_dev, machine.parse_diskstats,
    machine.parse_cpu_list, machine.parse_speed, machine.parse_stalled_s, machine.parse_flat,
)  # fmt: skip


@given(st.binary(max_size=200))
def test_garbage_is_a_value_or_an_error_that_readers_expect(text: bytes) -> None:
    for parse in PARSERS:
        try:
            parse(text)
        except (ValueError, LookupError):
            continue
