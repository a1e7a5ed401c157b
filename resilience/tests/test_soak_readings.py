"""What is read of processes, stores and nginx: from their own words, and from this very process."""

import mmap
import os
from collections import Counter
from pathlib import Path

import pytest
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_resilience.soak import page, readings
from steelyard_resilience.soak.readings import Overview, Soaked
from steelyard_resilience.soak.sampling import private_bytes, read_process

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
    assert 1 << 20 < after.private_bytes <= after.resident_bytes


def test_memory_that_is_written_to_is_private_memory() -> None:
    # Mapped anew: a heap might give back what earlier tests have written to.
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


def test_a_status_that_cannot_be_had_says_nothing() -> None:
    assert readings.in_flight(None) == {}
    assert readings.lua_bytes(None) == {}


def test_memcached_tells_its_items_and_their_bytes() -> None:
    answer = b"STAT pid 1\r\nSTAT bytes 1234\r\nSTAT curr_items 7\r\nSTAT total_items 9\r\nEND\r\n"
    assert readings.counted(readings.MEMCACHED_ITEMS, answer) == 7
    assert readings.counted(readings.MEMCACHED_BYTES, answer) == 1234
    assert readings.counted(readings.MEMCACHED_BYTES, b"") is None


def test_redis_tells_its_memory_and_its_keys() -> None:
    info = b"$60\r\n# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nused_memory_rss:9\r\n\r\n"
    assert readings.counted(readings.REDIS_USED_BYTES, info) == 1048576
    assert readings.counted(readings.REDIS_USED_BYTES, b"-LOADING\r\n") is None
    assert readings.counted(readings.REDIS_KEYS, b":12\r\n") == 12
    assert readings.counted(readings.REDIS_KEYS, b"") is None


def test_every_reading_is_a_line() -> None:
    soaked = Soaked(
        seconds=90.0,
        readings=[read_process("me", os.getpid(), 1.5)],
        overviews=[
            Overview(at_s=1.0, sent=200, failed=0, steps=1, in_flight={"server-1": 2}),
            Overview(at_s=2.0, sent=400, failed=1, steps=2, in_flight={"server-2": 3}, items=4),
        ],
        sent=400,
        failures=Counter({"502": 1}),
        steps=2,
        ending=None,
    )
    head, line = page.samples(soaked).splitlines()
    assert head.startswith("at_s,process,pid,private_bytes,")
    assert line.startswith(f"1.5,me,{os.getpid()},")
    lines = page.overview(soaked).splitlines()
    assert lines[0].endswith(",keys,in flight: server-1,in flight: server-2")
    assert lines[1:] == ["1.0,200,0,1,,,,,,2,", "2.0,400,1,2,,4,,,,,3"]
