"""Connections and work of one load balancer with 2,000 servers, with `subset_size` and without. I/O.

    .venv/bin/python -m openresty.tests.subsets_at_scale [--servers 2000] [--size 100] [--rounds 3]
        [--plot FILE --simulated scale.csv]

The servers are addresses of loopback with one listener. The nginx is one of 64, with two workers. Both
variants run in turns. Figures of the workers together: connections to servers, and memory (shared memory is
divided among them). Then ten seconds of requests at a constant rate, with checks each two seconds: CPU,
checks a second, and the traffic report. The plot also has p99 behind 64 load balancers, of `simulate scale`.
"""

import argparse
import asyncio
import csv
import multiprocessing
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
from matplotlib.axes import Axes
from steelyard_loadtest.reporting.plots import Mark, RowName, RowPanel, draw

from openresty.tests.nginx_process import Edge, config
from openresty.tests.rig import Rig
from testing.daemons import free_port

ROOT = Path(__file__).parents[2]
LBS = [f"edge-{number:02}" for number in range(1, 65)]
WORKERS, RATE_PER_S, WINDOW_S, CLIENTS = 2, 500, 10.0, 16
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
COLUMNS = ("connections", "memory, MB", "CPU, ms a second", "checks a second", "report, kB")


def serve(port: int, checks: "multiprocessing.sharedctypes.Synchronized[int]") -> None:
    """Answer every request on every address of loopback, and count the checks."""

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            checks.value += b"/healthz" in data
            self.transport.write(ANSWER)

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Server, "", port, backlog=4096)
        await server.serve_forever()

    asyncio.run(main())


async def ask(port: int, requests: int, rate_per_s: float) -> None:
    """Send requests at a rate, over some connections."""

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.monotonic() + number / rate_per_s
        for turn in range(requests // CLIENTS):
            await asyncio.sleep(began + turn * CLIENTS / rate_per_s - time.monotonic())
            writer.write(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n")
            status = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in status.split(b"\r\n")[0], status
            length = int(status.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()

    await asyncio.gather(*map(client, range(CLIENTS)))


def nginx(rig: Rig, folder: Path, servers: int, size: int) -> Edge:
    """Start the load balancer; size 0: of all servers."""
    expected = str(min(servers, 130) if size else servers)
    pools = subprocess.run(
        [ROOT / "openresty/bin/steelyard-upstream", "web", "--servers", expected],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    sharded = "web_00" in pools
    block = (
        'set_by_lua_block $block { return require("steelyard").shard("web") }'
        if sharded
        else "set $block web;"
    )
    settings = f"{'shards = 32,' if sharded else ''} {f'subset_size = {size},' if size else ''}"
    http = f"""
    lua_shared_dict steelyard 32m;
    init_by_lua_block {{ require "steelyard" }}
    init_worker_by_lua_block {{ require("steelyard").init_worker{{
      memcached = {{"127.0.0.1:{rig.memcached.port}"}}, lb = "edge-07",
      upstreams = {{ web = {{ {settings} check = {{ path = "/healthz", interval_s = 2 }} }} }},
    }} }}
    log_by_lua_block {{ require("steelyard").log() }}
    {pools}
    server {{
      listen 127.0.0.1:@PORT@; keepalive_requests 1000000;
      location / {{
        {block}
        proxy_pass http://$block; proxy_http_version 1.1; proxy_set_header Connection "";
      }}
      location = /steelyard/status {{ content_by_lua_block {{ require("steelyard").status() }} }}
    }}"""
    text = config(http, WORKERS, "worker_rlimit_nofile 20000;")
    return Edge(folder, text.replace("worker_connections 512", "worker_connections 16384"), WORKERS)


def figures(
    rig: Rig, edge: Edge, port: int, checks: "multiprocessing.sharedctypes.Synchronized[int]"
) -> Iterator[float]:
    """Fill the pools, then measure."""
    edge.wait_for(1)
    asyncio.run(ask(edge.port, 32_000, 2500))
    workers = [psutil.Process(pid) for pid in edge.worker_pids()]
    before = sum(sum(each.cpu_times()[:2]) for each in workers), checks.value
    asyncio.run(ask(edge.port, int(RATE_PER_S * WINDOW_S), RATE_PER_S))
    after = sum(sum(each.cpu_times()[:2]) for each in workers), checks.value
    to_servers = (
        each.raddr.port == port for worker in workers for each in worker.net_connections() if each.raddr
    )
    yield sum(to_servers)
    yield sum(each.memory_full_info().pss for each in workers) / 1e6
    yield 1000 * (after[0] - before[0]) / WINDOW_S
    yield (after[1] - before[1]) / WINDOW_S
    yield len(rig.memcached.get("steelyard:1:traffic:web:edge-07") or b"") / 1000


def plot(file: Path, medians: dict[int, list[float]], servers: int, simulated: Path) -> None:
    """Draw the figures, and the simulated p99 behind the same number of load balancers."""
    rows = [*csv.DictReader(simulated.read_text().splitlines())]
    for size, values in medians.items():
        wanted = (str(servers), str(len(LBS)), "vnswrr2", "False", str(size))
        names = ("servers", "load_balancers", "picker", "exchanged", "subset_size")
        own = [float(row["p99_ms"]) for row in rows if tuple(row[name] for name in names) == wanted]
        values.append(statistics.mean(own))
    titles = (*COLUMNS, "p99, ms (simulated)")
    panels = [
        RowPanel(
            rows=[[Mark(value=value, marker="bar", text=f"{value:,.0f}")] for value in column],
            title=title, scale="linear", limits=(0, 1.3 * max(column)),
            finish=partial(Axes.tick_params, labelleft=at == 0),
        )
        for at, (title, column) in enumerate(zip(titles, zip(*medians.values(), strict=True), strict=True))
    ]  # fmt: skip
    draw(
        file,
        [panels],
        size=(15, 1.9),
        names=[RowName(text=f"subsets of {size}" if size else "all servers") for size in medians],
    )


def main() -> None:
    """Measure in turns, and print medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--servers", type=int, default=2000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--simulated", type=Path)
    options = parser.parse_args()
    checks, port = multiprocessing.Value("i", 0, lock=False), free_port()
    server = multiprocessing.get_context("fork").Process(target=serve, args=(port, checks), daemon=True)
    server.start()
    rounds: dict[int, list[list[float]]] = {0: [], options.size: []}
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder))
        try:
            addresses = [f"127.1.{at // 250}.{at % 250 + 1}:{port}" for at in range(options.servers)]
            peers = [(f"server-{at:05}", address, 20, "up") for at, address in enumerate(addresses)]
            rig.publish(peers, generation=1, picker="vnswrr2", reporters=LBS)
            for turn in range(options.rounds):
                for size, results in rounds.items():
                    edge = nginx(rig, Path(folder) / f"{turn}-{size}", options.servers, size)
                    try:
                        results.append([*figures(rig, edge, port, checks)])
                    finally:
                        edge.stop()
        finally:
            rig.stop()
            server.terminate()
    medians = {size: [*map(statistics.median, zip(*each, strict=True))] for size, each in rounds.items()}
    print("| subset_size |", " | ".join(COLUMNS), "|")
    for size, values in medians.items():
        print(f"| {size or 'none'} |", " | ".join(f"{value:,.1f}" for value in values), "|")
    if options.plot:
        plot(options.plot, medians, options.servers, options.simulated)


if __name__ == "__main__":
    main()
