"""The cost of an nginx without requests that serves a Memcached's upstreams: bench_cycle.py --nginx."""

import json
import statistics
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import psutil
from pymemcache.client.base import Client
from steelyard_protocol import wire

from testing.daemons import free_port

_LUA = Path(__file__).parents[2] / "openresty"

_CONF = """
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
daemon off; pid nginx.pid; worker_processes 1; events {{ worker_connections 512; }}
http {{
  access_log off; lua_shared_dict steelyard 64m;
  lua_package_path "{lua}/steelyard/lib/?.lua;{lua}/lua-resty-vnswrr/lib/?.lua;;";
  init_by_lua_block {{ require "steelyard" }}
  init_worker_by_lua_block {{
    local upstreams = {{}}
    for number = 0, {upstreams} - 1 do upstreams["upstream-" .. number] = {{}} end
    require("steelyard").init_worker{{
      memcached = {{"127.0.0.1:{memcached}"}}, lb = "edge-1", upstreams = upstreams,
    }}
  }}
  server {{
    listen 127.0.0.1:{port};
    location = /oldest {{ content_by_lua_block {{
      local oldest = 1 / 0
      for _, live in pairs(require("steelyard.phase.worker").upstreams) do
        oldest = math.min(oldest, live.table and live.table.generation or 0)
      end
      ngx.print(oldest)
    }} }}
    location = /dict {{ content_by_lua_block {{
      ngx.print(ngx.shared.steelyard:capacity() - ngx.shared.steelyard:free_space())
    }} }}
  }}
}}
"""


class _Tables:
    """The tables that the controller left in Memcached, published anew each second, as it does."""

    def __init__(self, client: Client, upstreams: int) -> None:
        keys = [wire.weights_key(f"upstream-{number}") for number in range(upstreams)]
        self._client = client
        self._tables = {key: json.loads(value) for key, value in client.get_many(keys).items()}
        self.generation = 1_000_000

    def publish(self) -> float:
        """Publish the next generation of all; return when that began, by the monotonic clock."""
        self.generation += 1
        values = {
            key: json.dumps({**table, "generation": self.generation}, separators=(",", ":"))
            for key, table in self._tables.items()
        }
        began_s = time.monotonic()
        self._client.set_many(values, noreply=True)
        return began_s


def measure(upstreams: int, memcached_port: int, seconds: int) -> str:
    """Return a line about one idle worker: its cost over a number of seconds, and its delay of new tables."""
    client = Client(("127.0.0.1", memcached_port), no_delay=True)
    tables = _Tables(client, upstreams)
    with TemporaryDirectory() as folder:
        conf, port = Path(folder) / "nginx.conf", free_port()
        conf.write_text(_CONF.format(lua=_LUA, upstreams=upstreams, memcached=memcached_port, port=port))
        process = subprocess.Popen(["nginx", "-p", folder, "-c", str(conf), "-e", f"{folder}/error.log"])
        try:
            time.sleep(1)
            late_s = [_lateness_s(tables, port) for _ in range(seconds)]
            cpu, used = _rates(client, tables, process.pid, seconds)
            used_mb = _asked(port, "/dict") / 1e6
        finally:
            process.terminate()
            process.wait()
    return (
        f"# nginx: {1000 * cpu:.0f} ms of CPU a second. Memcached: {used['cmd_get']:.0f} keys and "
        f"{used['bytes_written'] / 1e6:.2f} MB a second out, {used['bytes_read'] / 1e6:.2f} MB a second in. "
        f"All new tables are served after {statistics.median(late_s):.2f} s (at most {max(late_s):.2f} s). "
        f"Shared dict: {used_mb:.1f} MB"
    )


def _lateness_s(tables: _Tables, port: int) -> float:
    """Return how long after tables are published all of them are served."""
    began_s = tables.publish()
    while _asked(port, "/oldest") < tables.generation:
        time.sleep(0.02)
    return time.monotonic() - began_s


def _rates(client: Client, tables: _Tables, master: int, seconds: int) -> tuple[float, dict[str, float]]:
    """Return the worker's CPU and what Memcached gave and took, both a second."""
    (worker,) = psutil.Process(master).children()
    stats, before, began_s = client.stats(), worker.cpu_times(), time.monotonic()
    for second in range(1, seconds + 1):
        tables.publish()
        time.sleep(max(0.0, began_s + second - time.monotonic()))
    now, after, took_s = client.stats(), worker.cpu_times(), time.monotonic() - began_s
    names = ("cmd_get", "bytes_written", "bytes_read")
    used = {name: (now[name.encode()] - stats[name.encode()]) / took_s for name in names}
    return (after.user + after.system - before.user - before.system) / took_s, used


def _asked(port: int, path: str) -> int:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return int(answer.read())
