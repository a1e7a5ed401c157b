"""The jobs that one worker does for all: an obstacle is shown, and does not last."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

# A job that lasts until /end names its worker.
JOB = """
  lua_shared_dict jobs 1m;
  init_worker_by_lua_block {
    local dict = require("steelyard.io.shared_dict").open("jobs")
    local job_lock, pid = require "steelyard.io.job_lock", ngx.worker.pid()
    assert(ngx.timer.every(0.1, function()
      job_lock.run(dict, "work", @INTERVAL_S@, nil, function()
        dict:set("worker/" .. dict:incr("begun", 1, 0), pid)
        while not dict:get("end/" .. pid) do
          ngx.sleep(0.05)
        end
        dict:incr("ended", 1, 0)
      end)
      dict:incr("looks/" .. pid, 1, 0)
    end))
  }
  server {
    listen 127.0.0.1:@PORT@;
    location /get { content_by_lua_block { ngx.print(ngx.shared.jobs:get(ngx.var.arg_key) or 0) } }
    location /end { content_by_lua_block { ngx.shared.jobs:set("end/" .. ngx.var.arg_pid, true) } }
  }
"""


def workers_with_a_job(rig: Rig, interval_s: float) -> Edge:
    return rig.edge_of(JOB.replace("@INTERVAL_S@", str(interval_s)), workers=2)


def noted(edge: Edge, key: str) -> int:
    return int(edge.get(f"/get?key={key}").body)


@contextlib.contextmanager
def stopped(rig: Rig, pid: int) -> Iterator[None]:
    """Stop a worker, wait until it is stopped, and let it go on."""
    os.kill(pid, signal.SIGSTOP)
    try:
        # Until then it may still accept a connection, and its client would wait until it goes on.
        status = Path(f"/proc/{pid}/status")
        rig.wait_until(lambda: "\nState:\tT" in status.read_text(), "the worker stands still")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_job_of_a_killed_worker_is_soon_done_by_another_however_rarely_it_is_due(rig: Rig) -> None:
    edge = workers_with_a_job(rig, 3600)
    rig.wait_until(lambda: noted(edge, "begun") == 1, "the job is begun")
    os.kill(noted(edge, "worker/1"), signal.SIGKILL)
    rig.wait_until(lambda: noted(edge, "begun") == 2, "it is begun again")


def test_who_finishes_late_does_not_take_the_lock_from_whoever_has_it(rig: Rig) -> None:
    edge = workers_with_a_job(rig, 0.1)
    rig.wait_until(lambda: noted(edge, "begun") == 1, "the job is begun")
    late = noted(edge, "worker/1")
    with stopped(rig, late):
        rig.wait_until(lambda: noted(edge, "begun") == 2, "the other worker does it")
        assert noted(edge, "worker/2") != late
        edge.get(f"/end?pid={late}")
    rig.wait_until(lambda: noted(edge, "ended") == 1, "the first is done")
    looks = noted(edge, f"looks/{late}")
    rig.wait_until(lambda: noted(edge, f"looks/{late}") > looks + 5, "it looks for jobs again")
    assert noted(edge, "begun") == 2


def test_a_job_may_last_longer_than_a_lock(rig: Rig) -> None:
    edge = workers_with_a_job(rig, 0.1)
    rig.wait_until(lambda: noted(edge, "begun") == 1, "the job is begun")
    other = next(pid for pid in edge.worker_pids() if pid != noted(edge, "worker/1"))
    rig.wait_until(lambda: noted(edge, f"looks/{other}") > 40, "the other worker has looked for four seconds")
    assert noted(edge, "begun") == 1


def test_timers_that_nginx_refuses_are_counted_and_logged_once(rig: Rig) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    http = one_upstream(rig.memcached.port, "upstreams = { web = {} },", "}")
    edge = rig.edge_of("lua_max_pending_timers 2;" + http)
    edge.wait_for(1)  # it arrives late
    assert edge.shares(3) == {"a": 3}
    rig.wait_until(lambda: edge.peer("a")["completed"] == 3, "counts are handed in without a timer")
    rig.wait_until(lambda: edge.status()["timer_errors"] > 1, "refused timers are counted")
    assert edge.logged("a timer failed: too many pending timers; raise lua_max_pending_timers") == 1


def test_an_error_that_comes_with_each_tick_is_logged_once(rig: Rig) -> None:
    edge = rig.edge_of("""
  server {
    listen 127.0.0.1:@PORT@;
    location / { content_by_lua_block {
      local guarded, raise = require("steelyard.io.timers").guarded, error
      for generation = 1, 20 do
        guarded("upstream web: ", raise, "table " .. generation .. " cannot be taken", 0)
        guarded("upstream api: ", raise, "table " .. generation .. " cannot be taken", 0)
      end
      for n = 1, 300 do -- more than a worker remembers
        guarded("upstream " .. string.char(97 + n % 26, 97 + n / 26) .. ": ", raise, "no table", 0)
      end
      ngx.print(select(2, guarded("", raise, "the error is returned each time", 0)))
    } }
  }""")
    for _ in range(2):
        assert edge.get().body == "the error is returned each time"
    assert edge.logged("steelyard: upstream web: table 1 cannot be taken") >= 1
    assert (edge.logged("cannot be taken"), edge.logged("the error is returned")) == (4, 2)
