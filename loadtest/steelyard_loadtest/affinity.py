"""Consistent hashing of nginx, HAProxy, Envoy and ours: which keys move, who has how much, what a cache hits.

Twelve servers of size 1, 2 and 4, in this process, answer after WAIT_S, and keep the last CACHE x size keys.
Their weights stand in the proxies' configurations; ours has them in a weight table, at rest and now.
"""

import asyncio
import random
import sys
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from steelyard_protocol.weight_table import TablePeer

from steelyard_loadtest.cluster.parts import HOST, memcached
from steelyard_loadtest.dataplane.session import Contender
from steelyard_loadtest.machine.child_process import Process
from steelyard_loadtest.machine.find_programs import find
from steelyard_loadtest.machine.network import free_ports
from steelyard_loadtest.reporting.plots import Mark, RowName, RowPanel, draw
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.scenario import find as scenarios
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.trial import CHECKOUT

SIZES, KEYS, ZIPF, REQUESTS, CLIENTS, CACHE, WAIT_S = (1, 2, 4) * 4, 6000, 0.9, 12_000, 64, 40, 0.1
ALGORITHMS = ("nginx-hash-uri", "haproxy-bounded", "envoy-bounded", "steelyard-static-bounded_hash", DEFAULT)
COLUMNS = ("keys moved / of who left", "moved by weights ±20 %", "largest / mean load", "cache hits")
PORT, STORE, *PORTS = free_ports(2 + len(SIZES))
NAMES = [f"s{n}" for n in range(len(SIZES))]
AT_REST = {name: 20 * size for name, size in zip(NAMES, SIZES, strict=True)}
ADDRESSES = {name: f"{HOST}:{port}" for name, port in zip(NAMES, PORTS, strict=True)}


class Caches:
    """The servers; how full the fullest was for its size when keys came, and whether these were there."""

    def __init__(self) -> None:
        self._kept, self._in_flight = [OrderedDict[bytes, None]() for _ in SIZES], np.zeros(len(SIZES))
        self.loads, self.hits = list[float](), list[bool]()

    async def serve(self, n: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer on a connection with the server's number."""
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while key := (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]:
                if not key.startswith(b"/map"):
                    await self._serve_key(n, key)
                writer.write(b"HTTP/1.1 200 OK\r\nX-Server: %d\r\nContent-Length: 0\r\n\r\n" % n)
        writer.close()

    async def _serve_key(self, n: int, key: bytes) -> None:
        self._in_flight[n] += 1
        if (total := self._in_flight.sum()) > 0.75 * CLIENTS:  # not what the proxy itself delays
            self.loads.append((self._in_flight / SIZES).max() * sum(SIZES) / total)
        kept = self._kept[n]
        self.hits.append(key in kept)
        kept[key] = None
        kept.move_to_end(key)
        if len(kept) > CACHE * SIZES[n]:
            kept.popitem(last=False)
        await asyncio.sleep(WAIT_S)
        self._in_flight[n] -= 1


def balancer(name: str, folder: Path, weights: Mapping[str, int]) -> Contender:
    """Return a proxy before the servers of these weights; what ours have at rest is their sizes."""
    peers = [
        TablePeer(id=each, address=ADDRESSES[each], weight=now, baseline=AT_REST[each], state="up")
        for each, now in weights.items()
    ]
    place = Place(
        folder=folder, checkout=CHECKOUT, programs=find(None), memcached_port=STORE, balancer_port=PORT
    )
    scenario = replace(scenarios.find("proxy-cost", quick=True), static=False, path="/map")
    return Contender(BY_NAME[name], peers, scenario, place, CLIENTS, hash_key="uri")


async def ask(keys: list[str], clients: int) -> list[int]:
    """Ask for all keys, so many at a time; return who answered, in their order where it is one."""
    servers, left = list[int](), iter(keys)

    async def client() -> None:
        reader, writer = await asyncio.open_connection(HOST, PORT)
        for key in left:
            writer.write(f"GET {key} HTTP/1.1\r\nHost: lab\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            servers.append(int(head.split("x-server: ")[1].split("\r")[0]))
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(client() for _ in range(clients)))
    return servers


async def measured(name: str, folder: Path) -> list[float]:
    """Return a row: of the last two servers that leave, of a tick's weights, and of a load."""
    caches, drawn, odds = Caches(), random.Random(1), np.arange(1, KEYS + 1) ** -ZIPF
    servers = [
        await asyncio.start_server(partial(caches.serve, n), HOST, port) for n, port in enumerate(PORTS)
    ]
    fewer = {name: AT_REST[name] for name in NAMES[:-2]}
    ticked = {name: round(now * drawn.uniform(0.8, 1.2)) for name, now in AT_REST.items()}
    maps = list[np.ndarray]()
    for weights in (AT_REST, fewer, ticked):
        with ExitStack() as stack:
            # In a thread, as it waits for an answer, and its servers are here.
            await asyncio.to_thread(stack.enter_context, balancer(name, folder, weights))
            maps.append(np.array(await ask([f"/map?{i}" for i in range(KEYS // 3)], 1)))
            if weights is AT_REST:
                keys = np.random.default_rng(1).choice(KEYS, REQUESTS, p=odds / odds.sum())
                await ask([f"/{key}" for key in keys], CLIENTS)
    for server in servers:
        server.close()
    moved, left = np.mean(maps[0] != maps[1]), np.mean(maps[0] >= len(fewer))
    load, hits = np.mean(caches.loads), np.mean(caches.hits[REQUESTS // 2 :])
    return [float(x) for x in (moved / left, np.mean(maps[0] != maps[2]), load, hits)]


def main(folder: Path) -> None:
    """Measure; print the table, and draw it."""
    folder.mkdir(parents=True)
    rows = list[list[float]]()
    print("| |", " | ".join(COLUMNS), "|\n| --- |", "---: | " * len(COLUMNS))
    with ExitStack() as stack:
        stack.callback(Process(memcached(STORE, user="nobody").command, folder / "memcached.log").stop)
        for name in ALGORITHMS:
            rows.append(asyncio.run(measured(name, folder)))
            print(f"| {BY_NAME[name].title} |", " | ".join(f"{value:.2f}" for value in rows[-1]), "|")
    panels = [
        RowPanel(
            rows=[[Mark(value=row[i], marker="bar", text=f"{row[i]:.2f}")] for row in rows],
            title=title,
            finish=partial(Axes.tick_params, labelleft=i == 0),
        )
        for i, title in enumerate(COLUMNS)
    ]
    names = [RowName(text=BY_NAME[name].title) for name in ALGORITHMS]
    draw(folder / "affinity.png", [panels], size=(14, 2.4), names=names)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
