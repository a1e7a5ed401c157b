"""nginx drops timers while others use up lua_max_running_timers; Steelyard's work goes on afterwards."""

import pytest

from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig
from openresty.tests.test_share_in_flight import ANSWER_S, balancer, exchange, publish, wait_for_state

pytestmark = pytest.mark.integration

TIMERS = 16  # that may run
DROPPED = "lua_max_running_timers are not enough"

# More jobs than a worker takes at a time: all that it takes share one timer.
JOBS = 250

# While `busy`, timers of the site take all places before those of the jobs.
SITE_WITH_JOBS = """
  lua_max_running_timers @TIMERS@;
  lua_shared_dict jobs 1m;
  init_worker_by_lua_block {
    local dict, job_lock = require("steelyard.io.shared_dict").open("jobs"), require "steelyard.io.job_lock"
    local function use()
      while dict:get("busy") do
        ngx.sleep(0.01)
      end
    end
    local function count(name)
      dict:incr(name, 1, 0)
    end
    local function go_on()
      count("held")
      ngx.sleep(0.01)
      if dict:get("busy") then
        ngx.timer.at(0, use)
      end
    end
    assert(ngx.timer.every(0.1, function()
      for _ = 1, dict:get("busy") and @TIMERS@ or 0 do
        ngx.timer.at(0, use)
      end
      local taken = {}
      for i = 1, @JOBS@ do
        job_lock.take_together(dict, taken, "job" .. i, 0.05, count, "together")
      end
      job_lock.run_together(dict, taken)
      job_lock.run(dict, "alone", 0.05, nil, function() count("alone") end)
      job_lock.hold(dict, "held", go_on)
      ngx.sleep(0.02)
    end))
  }
  server {
    listen 127.0.0.1:@PORT@;
    location = /count { content_by_lua_block { ngx.print(ngx.shared.jobs:get(ngx.var.arg_of) or 0) } }
    location = /busy { content_by_lua_block { ngx.shared.jobs:set("busy", true) } }
    location = /free { content_by_lua_block { ngx.shared.jobs:delete("busy") } }
  }
"""

# The site's own timers, which take each place that gets free, until /free.
SITE = """
    location = /free { content_by_lua_block { ngx.shared.site:delete("busy") } }
    location = /busy {
      content_by_lua_block {
        local dict = ngx.shared.site
        local function use()
          local first = dict:incr("running", 1, 0) == 1
          while dict:get("busy") do
            ngx.sleep(first and 0.001 or 0.02)
            if first and dict:get("running") < @TIMERS@ then
              ngx.timer.at(0, use)
            end
          end
          dict:incr("running", -1, 0)
        end
        dict:set("busy", true)
        ngx.timer.at(0, use)
      }
    }
  }
"""


def count(edge: Edge, name: str) -> int:
    """Return how often a job was done."""
    return int(edge.get(f"/count?of={name}").body)


def wait_for_count(rig: Rig, edge: Edge, name: str, goal: int) -> None:
    """Wait until a job was done this often."""
    rig.wait_until(lambda: count(edge, name) >= goal, f"{name} goes on")


def wait_for_jobs(rig: Rig, edge: Edge) -> None:
    """Wait until each kind of job is done again and again."""
    for name, times in (("together", 4 * JOBS), ("alone", 4), ("held", 4)):
        wait_for_count(rig, edge, name, count(edge, name) + times)


def test_jobs_go_on_after_their_timers_were_dropped(rig: Rig) -> None:
    edge = rig.edge_of(SITE_WITH_JOBS.replace("@JOBS@", str(JOBS)).replace("@TIMERS@", str(TIMERS)))
    edge.expected.append(DROPPED)
    wait_for_jobs(rig, edge)
    edge.get("/busy")
    rig.wait_until(lambda: edge.logged(DROPPED) > TIMERS, "timers are dropped")
    edge.get("/free")
    wait_for_jobs(rig, edge)
    assert edge.logged("raise lua_max_running_timers in http {}") == 1


def test_the_exchange_and_ejection_go_on_after_timers_were_dropped(rig: Rig) -> None:
    _, b = made = [rig.backend(name) for name in "ab"]
    publish(rig, made, generation=1)
    for each in made:
        each.delays_s["/"] = ANSWER_S
    eject = "eject = { interval_s = 0.5, requests = 5, base_s = 60 }"
    options = f"share_in_flight = {{ cpu_share = 0.5 }}, upstreams = {{ web = {{ {eject} }} }},"
    http = one_upstream(rig.memcached.port, options, SITE).replace("@TIMERS@", str(TIMERS))
    edge = rig.edge_of(f"lua_max_running_timers {TIMERS}; lua_shared_dict site 1m; {http}")
    edge.expected.append(DROPPED)
    edge.wait_for(1)
    other = balancer(rig, "edge-2")
    with edge.under_load(2), other.under_load(1):
        wait_for_state(rig, edge, "on")
        edge.get("/busy")
        wait_for_state(rig, edge, "stopped")
        assert "lua_max_running_timers" in exchange(edge)["error"]
        edge.get("/free")
        wait_for_state(rig, edge, "on")
        b.statuses["/"] = 500
        rig.wait_until(lambda: edge.peer("b")["health"] == "ejected", "b is ejected")
    assert edge.logged("raise lua_max_running_timers in http {}") == 1
