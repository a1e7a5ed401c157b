"""What is read of processes, stores and nginx: from their own words, and from this very process."""

import os
from pathlib import Path

import pytest
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.soak import files, nginx_status, store_counts
from steelyard_loadtest.soak.procfs_text import parse_cpu_ticks, parse_status
from steelyard_loadtest.soak.records import Overview, Soaked
from steelyard_loadtest.soak.sampling import read_process

STATUS = """Name:\tnginx
VmRSS:\t    9000 kB
RssAnon:\t    4000 kB
RssFile:\t    3000 kB
RssShmem:\t    2000 kB
VmSwap:\t      24 kB
Threads:\t1
"""


def test_private_memory_is_the_anonymous_part_wherever_it_is() -> None:
    found = parse_status(STATUS)
    assert (found.private_bytes, found.resident_bytes, found.threads) == (4024 * 1024, 9000 * 1024, 1)


def test_a_process_that_waits_to_be_reaped_has_no_memory() -> None:
    with pytest.raises(UnreadableError, match="RssAnon"):
        parse_status("Name:\tnginx\nState:\tZ (zombie)\nThreads:\t1\n")


def test_cpu_time_is_found_behind_any_name() -> None:
    assert parse_cpu_ticks("7 (a) b (c) S 1 7 7 0 -1 4194560 90 0 0 0 31 11 5 6 20 0 1 0 100") == 42


def test_an_open_descriptor_more_is_one_descriptor_more(tmp_path: Path) -> None:
    before = read_process("me", os.getpid(), 0.0)
    with (tmp_path / "file").open("w"):
        after = read_process("me", os.getpid(), 1.0)
    assert after.descriptors == before.descriptors + 1
    assert 1 << 20 < after.private_bytes <= after.resident_bytes


def test_memory_that_is_written_to_is_private_memory() -> None:
    before = read_process("me", os.getpid(), 0.0)
    block = bytearray(b"x") * (32 << 20)
    after = read_process("me", os.getpid(), 1.0)
    assert after.private_bytes - before.private_bytes > 24 << 20
    assert len(block) == 32 << 20


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
        "dict_free_bytes": 8192,
    }
    assert nginx_status.in_flight(status) == {"server-1": 3, "server-2": 0, "worker 3": 3, "worker 4": 0}
    assert nginx_status.lua_bytes(status) == {7: 4096}
    assert nginx_status.dict_free_bytes(status) == 8192


def test_a_status_that_cannot_be_had_says_nothing() -> None:
    assert nginx_status.in_flight(None) == {}
    assert nginx_status.lua_bytes(None) == {}
    assert nginx_status.dict_free_bytes(None) is None


def test_memcached_tells_its_items_and_their_bytes() -> None:
    answer = b"STAT pid 1\r\nSTAT bytes 1234\r\nSTAT curr_items 7\r\nSTAT total_items 9\r\nEND\r\n"
    assert store_counts.memcached_counts(answer) == (7, 1234)
    assert store_counts.memcached_counts(b"") == (None, None)


def test_redis_tells_its_memory_and_its_keys() -> None:
    info = b"$60\r\n# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nused_memory_rss:9\r\n\r\n"
    assert store_counts.redis_used_bytes(info) == 1048576
    assert store_counts.redis_used_bytes(b"-LOADING\r\n") is None
    assert store_counts.redis_keys(b":12\r\n") == 12
    assert store_counts.redis_keys(b"") is None


def test_every_reading_is_a_line(tmp_path: Path) -> None:
    files.write(
        tmp_path,
        Soaked(
            seconds=90.0,
            readings=[read_process("me", os.getpid(), 1.5)],
            overviews=[
                Overview(at_s=1.0, sent=200, failed=0, steps=1, in_flight={"server-1": 2}),
                Overview(at_s=2.0, sent=400, failed=1, steps=2, in_flight={"server-2": 3}, items=4),
            ],
            sent=400,
            failures={"502": 1},
            reloads=(),
            steps=2,
            refused=(),
            ending=None,
        ),
    )
    head, line = (tmp_path / files.SAMPLES).read_text().splitlines()
    assert head.startswith("at_s,process,pid,private_bytes,")
    assert line.startswith(f"1.5,me,{os.getpid()},")
    lines = (tmp_path / files.OVERVIEW).read_text().splitlines()
    assert lines[0].endswith(",keys,in flight: server-1,in flight: server-2")
    assert lines[1:] == ["1.0,200,0,1,,,,,,2,", "2.0,400,1,2,,4,,,,,3"]
