"""The counted work of a request in Lua: a change of the work changes work_per_request.json.

On a busy machine a clock misses a tenth of a microsecond, but these counts are the same each time. They lack
work that is done for one request in many. On another nginx (STEELYARD_NGINX) only Steelyard's own counts are
compared, because lua-resty-core has other instructions there. To write the file anew, on Debian's nginx:

    STEELYARD_WRITE_WORK=1 .venv/bin/pytest -q openresty/tests/test_work_per_request.py
"""

import json
import os
import socket
import statistics
from pathlib import Path

import pytest
from steelyard_loadtest.machine import picker_list

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from testing.daemons import free_port
from testing.nginx_under_test import VARIABLE
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
FILE, COUNTER = HERE / "work_per_request.json", HERE / "work_per_request.lua"
WRITE = "STEELYARD_WRITE_WORK"

WARM, MEASURED, TOGETHER = 12, 120, 4

# Latencies of 0 and of 1 ms differ by a few instructions, and so does one more draw. `hcl` writes a median
# if a latency differs.
LEEWAY = {"instructions": 30}
LEEWAY_OF = {
    "picker-hcl": LEEWAY | {"words written": 1},
    # OpenResty has one block, so no peer is reserved for it.
    "feature-shards": LEEWAY | {"words read": 1},
    # A busy machine has other latencies, and a server's own figure is worth more with them.
    "feature-in-flight-said": {"instructions": 90},
}

PICKER, SERVED = "vnswrr2", "proxy_pass http://@NAME@/plain;"

# Counts without lua-resty-core: the same on any nginx.
OWN = ("variable ", "words ")

# Each feature turned on: the upstream's options, and the location. The first row has all of them off.
FEATURES = {
    "nothing": ("", SERVED),
    "nginx-alone": ("", "proxy_pass http://127.0.0.2:@SERVERS@/plain;"),
    "server-in-header": ("", f'{SERVED} header_filter_by_lua_block {{ require("steelyard").header() }}'),
    "release": ("", f'{SERVED} body_filter_by_lua_block {{ require("steelyard").release() }}'),
    "sticky": (
        'sticky = { cookie = "route" }',
        f'{SERVED} header_filter_by_lua_block {{ require("steelyard").sticky() }}',
    ),
    "shards": (
        "shards = 1",
        'set_by_lua_block $shard { return require("steelyard").shard("@NAME@") } proxy_pass http://$shard/plain;',
    ),
    "max-conns": ("max_conns = 9", SERVED),
    "queue": (
        "max_conns = 9, queue = {}",
        f'{SERVED} access_by_lua_block {{ require("steelyard").limit("@NAME@") }}',
    ),
    "retries-none": ("retries = 0", SERVED),
    "retry-budget-none": ("retry_budget = false", SERVED),
    "failure-statuses": ("failure_statuses = { 404 }", SERVED),
    "read-timeout": ("read_timeout_s = 9", SERVED),
    "explain": (
        "explain = true",
        f'{SERVED} set $steelyard_server ""; set $steelyard_tries ""; set $steelyard_why "";',
    ),
    "cost": ('cost = "arg_cost"', SERVED),
    "cost-at-end": ('cost_at_end = "upstream_http_x_cost"', SERVED),
    "grpc": ("grpc = true", SERVED),
    "load-asked-for": ('load_metrics_format = "TEXT"', SERVED),
    "load-said": ("", "proxy_pass http://@NAME@/load;"),
    "in-flight-said": ("", "proxy_pass http://@NAME@/in-flight;"),
}

SERVERS = """
  server {
    listen @SERVERS@; log_by_lua_block { } default_type text/plain;
    location / { return 200 "ten bytes."; }
    location /load { add_header endpoint-load-metrics "TEXT cpu_utilization=0.3"; return 200 "ten bytes."; }
    location /in-flight { add_header X-Steelyard-In-Flight 3; return 200 "ten bytes."; }
  }"""


def rows() -> dict[str, tuple[str, str, str]]:
    """Return for each location its picker, its upstream's options and its directives."""
    pickers = {f"picker-{name}": (name, "", SERVED) for name in picker_list.own()}
    return pickers | {f"feature-{name}": (PICKER, *feature) for name, feature in FEATURES.items()}


def start(rig: Rig, name: str) -> Edge:
    """Start an nginx with an upstream and a location, and three servers in it."""
    picker, options, directives = rows()[name]
    port = str(free_port())
    # Hash rings depend on the ids.
    bootstrap = ", ".join(f'{{ id = "{one}", address = "127.0.0.{one}:{port}" }}' for one in (2, 3, 4))
    balance = 'server 0.0.0.1; balancer_by_lua_block { require("steelyard").balance("@NAME@") } keepalive 8;'
    config = f"""
  lua_shared_dict steelyard 10m;
  init_by_lua_block {{
    package.loaded.counter = dofile("{COUNTER}")
    require("counter").start()
  }}
  init_worker_by_lua_block {{
    require("steelyard").init_worker{{
      memcached = {{"127.0.0.1:{rig.memcached.port}"}}, lb = "edge-1",
      upstreams = {{ ["{name}"] = {{ bootstrap = {{ {bootstrap} }}, picker = "{picker}", {options} }} }}
    }}
  }}
  log_by_lua_block {{ require("steelyard").log() }}
  proxy_http_version 1.1; proxy_set_header Connection "";
  upstream {name} {{ {balance} }}
  upstream {name}_00 {{ {balance} }}
  server {{
    listen 127.0.0.1:@PORT@; keepalive_requests 100000;
    location = /counted {{ content_by_lua_block {{ require("counter").show() }} log_by_lua_block {{ }} }}
    location / {{ {directives} }}
  }}
  {SERVERS}"""
    return rig.edge_of(config.replace("@NAME@", name).replace("@SERVERS@", port), folder=name)


def ask(edge: Edge, count: str, times: int) -> list[dict[str, float]]:
    """Send requests over one connection, each in the memory of the previous one; return their work."""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
        for _ in range(times):
            client.sendall(f"GET /?{count} HTTP/1.1\r\nHost: web\r\n\r\n".encode())
            answer = b""
            while b"ten bytes." not in answer:
                received = client.recv(65536)
                assert received, answer
                answer += received
    return list(edge.get("/counted").json())


def work_of(edge: Edge) -> dict[str, float]:
    """Return a request's work: the median of each count, because some requests draw more or are late."""
    counted = ask(edge, "count=work", WARM + MEASURED)[WARM:]
    each = [one["bytes"] for one in ask(edge, "count=bytes", WARM + MEASURED)[WARM:]]
    work = {
        kind: statistics.median_low(one.get(kind, 0) for one in counted)
        for kind in sorted(set().union(*counted))
    }
    # A table may grow in one request and shrink in the next. Now and then one stays larger.
    sums = [sum(each[first : first + TOGETHER]) for first in range(0, MEASURED, TOGETHER)]
    figures = {kind: figure for kind, figure in work.items() if figure}
    return {"bytes": int(statistics.median_low(sums) / TOGETHER // 8 * 8)} | figures


def test_what_a_request_does_is_what_the_file_says(rig: Rig) -> None:
    work = {}
    for name in rows():
        edge = start(rig, name)
        work[name] = work_of(edge)
        edge.stop()
    debian = VARIABLE not in os.environ
    if os.environ.get(WRITE):
        assert debian, f"the file is of Debian's nginx: leave {VARIABLE} out"
        lines = [f"{json.dumps(name)}: {json.dumps(figures)}" for name, figures in work.items()]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    recorded = json.loads(FILE.read_text())
    changed = [
        f"{name}: {kind} {recorded[name].get(kind, 0)} -> {figures.get(kind, 0)}"
        for name, figures in work.items()
        for kind in sorted(figures.keys() | recorded[name].keys())
        if (debian or kind.startswith(OWN))
        and abs(figures.get(kind, 0) - recorded[name].get(kind, 0)) > LEEWAY_OF.get(name, LEEWAY).get(kind, 0)
    ]
    assert work.keys() == recorded.keys()
    assert not changed, "\n".join([*changed, f"if it has to be so, write the file anew with {WRITE}=1"])
