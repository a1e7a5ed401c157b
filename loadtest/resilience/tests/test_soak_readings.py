"""Readings of processes, stores and nginx, from example texts and from this very process."""

import mmap
import os
from pathlib import Path

import pytest
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.reporting.csv_text import csv_text, names_of
from steelyard_resilience.soak import readings
from steelyard_resilience.soak.readings import Reading
from steelyard_resilience.soak.session import private_bytes, read_process

STATUS = """Name:\tnginx
VmRSS:\t    9000 kB
RssAnon:\t    4000 kB
RssFile:\t    3000 kB
RssShmem:\t    2000 kB
VmSwap:\t      24 kB
Threads:\t1
"""


def test_private_memory_is_the_anonymous_part_wherever_it_is() -> None:
    assert private_bytes(STATUS) == 4024 * 1024


def test_a_process_that_waits_to_be_reaped_has_no_memory() -> None:
    with pytest.raises(UnreadableError, match="RssAnon"):
        private_bytes("Name:\tnginx\nState:\tZ (zombie)\nThreads:\t1\n")


def test_an_open_descriptor_more_is_one_descriptor_more(tmp_path: Path) -> None:
    before = read_process("me", os.getpid(), 0.0)
    with (tmp_path / "file").open("w"):
        after = read_process("me", os.getpid(), 1.0)
    assert after.descriptors == before.descriptors + 1
    assert after.private_bytes > 1 << 20


def test_memory_that_is_written_to_is_private_memory() -> None:
    # The mapping is new, because a heap might return memory of earlier tests.
    with mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE) as block:
        before = read_process("me", os.getpid(), 0.0)
        block.write(b"x" * len(block))
        after = read_process("me", os.getpid(), 1.0)
    assert after.private_bytes - before.private_bytes > 24 << 20


def test_a_process_that_has_ended_is_not_read() -> None:
    with pytest.raises(OSError, match="No such"):
        read_process("nobody", 2**22 + 1, 0.0)


def test_in_flight_is_counted_by_server_and_by_worker() -> None:
    status = {
        "upstreams": {
            "web": {"peers": [{"id": "server-1", "in_flight": 2}, {"id": "server-2", "in_flight": 0}]},
            "shop": {"peers": [{"id": "server-1", "in_flight": 1}]},
        },
        "workers": [
            {"pid": 7, "slot": 3, "in_flight": {"10.0.0.1:80": 2, "10.0.0.2:80": 1}, "lua_bytes": 4096},
            {"pid": 8, "slot": 4, "in_flight": {}},
        ],
    }
    assert readings.in_flight(status) == {"server-1": 3, "server-2": 0, "worker 3": 3, "worker 4": 0}
    assert readings.lua_bytes(status) == {7: 4096}


def test_a_missing_status_has_no_figures() -> None:
    assert readings.in_flight(None) == {}
    assert readings.lua_bytes(None) == {}


def test_every_reading_is_a_line() -> None:
    read = read_process("me", os.getpid(), 1.5, 4096)
    head, line = csv_text([read], names_of(Reading)).splitlines()
    assert head == "at_s,process,pid,private_bytes,descriptors,threads,heap_bytes"
    assert line.startswith(f"1.5,me,{os.getpid()},")
    assert line.endswith(",4096")
