"""A lua_shared_dict of another size: nginx makes a new one at a reload, which begins with what was known."""

import contextlib
import os
import re
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig
from openresty.tests.test_any_upstream import ALONE, LIST, SERVERS, listing

pytestmark = pytest.mark.integration

SIZES = ("11m", "8m", "20m", "10m", "128k")
LOCATION = """
    location = /mark {
      content_by_lua_block { ngx.say(require("steelyard").mark("web", "b", "down")) }
    } }
"""


def copies(edge: Edge) -> list[Path]:
    """Return the two files of a worker with the copy of the dict; none before nginx has a worker."""
    found = []
    for file in (file for pid in edge.worker_pids()[:1] for file in Path(f"/proc/{pid}/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # a connection that the worker has closed meanwhile
            if "memfd:steelyard-" in str(file.readlink()):
                found.append(file)
    return found


def is_saved(edge: Edge, key: str) -> bool:
    """Tell whether the copy of the dict in memory is whole, and has a key."""
    texts = [file.read_bytes() for file in copies(edge)]
    return any(text.startswith(b"steelyard 1 ") and key.encode() in text for text in texts)


def answered(statuses: list[int], requests: int) -> bool:
    return len(statuses) >= requests


def test_a_resize_under_load_fails_no_request_and_forgets_no_mark(rig: Rig) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 3, "up"), ("b", b.address, 1, "up")], generation=7)
    silent = [(f"silent-{n:04}", f"127.1.{n // 250}.{n % 250}:9", 1, "up") for n in range(2000)]
    rig.publish(silent, generation=7, upstream="big")
    http = one_upstream(rig.memcached.port, "upstreams = { web = {}, big = {} },", LOCATION)
    edge = rig.edge_of(http.replace("fetch_interval_s = 0.1", "fetch_interval_s = 1"), workers=2)
    edge.wait_for(7, upstream="big")
    assert edge.get("/mark").body == "true\n"
    rig.wait_until(lambda: is_saved(edge, "out/web/b/marked"), "the mark is saved")
    size = "10m"
    with edge.under_load(4, pause_s=0.003) as statuses:
        for next_size in SIZES:
            enough = len(statuses) + 50
            rig.wait_until(partial(answered, statuses, enough), "requests are answered")
            edge.rewrite(f"lua_shared_dict steelyard {size}", f"lua_shared_dict steelyard {next_size}")
            edge.reload()
            size = next_size
            assert edge.upstream()["generation"] == 7
    assert set(statuses) == {200}
    assert edge.peer("b")["health_reason"] == "marked down"
    assert edge.shares(4) == {"a": 4}
    assert edge.logged("is a new one, and begins with what the last one had of 2 upstreams") == len(SIZES) - 1
    # The last one has no room for the larger upstream.
    assert edge.logged("is a new one, and begins with what the last one had of 1 upstreams") == 1
    assert edge.logged("has no room for 1 upstreams: raise `lua_shared_dict steelyard` (now 128k)") == 1
    rig.wait_until(lambda: edge.upstream("big")["refused"]["no_room"] > 0, "its table is refused")
    assert (edge.upstream("big")["rung"], edge.upstream()["generation"]) == ("none", 7)


def test_the_listed_upstreams_are_known_without_memcached(rig: Rig) -> None:
    a = rig.backend("a")
    rig.memcached.set(LIST, listing("shop", generation=1))
    rig.publish([("a", a.address, 1, "up")], generation=7, upstream="shop")
    edge = rig.edge(options=ALONE, servers=SERVERS)
    edge.wait_for(7, upstream="shop")
    rig.wait_until(lambda: is_saved(edge, "order/shop"), "the table is saved")
    rig.memcached.stop()
    edge.rewrite("lua_shared_dict steelyard 10m", "lua_shared_dict steelyard 20m")
    edge.reload()
    answer = edge.get("/any/", {"Host": "shop.example"})
    assert (answer.status, answer.server) == (200, "a")


def test_no_file_of_a_worker_makes_the_master_take_much_memory(rig: Rig) -> None:
    edge = rig.edge()
    rig.wait_until(lambda: is_saved(edge, "steelyard"), "a copy is saved")
    (worker,) = edge.worker_pids()
    os.kill(worker, signal.SIGSTOP)  # it writes no other copy
    for file, records in zip(copies(edge), (10**19, 600_000_000), strict=True):
        with file.open("r+b") as copy:
            copy.write(
                b"steelyard 1 %020.6f %020.0f" % (time.monotonic() + 1000, records) + b" " * 10 + b"\n"
            )
            copy.truncate(64 + 600_000_000)  # with no memory behind it
    edge.rewrite("lua_shared_dict steelyard 10m", "lua_shared_dict steelyard 20m")
    edge.begin_reload()
    rig.wait_until(lambda: set(edge.worker_pids()) > {worker}, "a worker starts")
    os.kill(worker, signal.SIGCONT)
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{edge.master_pid()}/status").read_text())
    assert peak
    assert int(peak[1]) < 100_000
    rig.wait_until(lambda: worker not in edge.worker_pids(), "the worker before is gone")
    rig.wait_until(lambda: is_saved(edge, "steelyard"), "a copy is saved")
    assert edge.complaints() == []
