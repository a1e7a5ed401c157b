"""Servers that follow their weights, on a real Memcached, for the page's tests and pictures. I/O."""

import threading
import time
from collections.abc import Callable, Mapping

import httpx
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError
from steelyard_controller.tick import outcome
from steelyard_protocol import weight_table, wire
from steelyard_protocol.weight_table import WeightTable

from .page_world import World

# Chromium without its own windows, which take most of its CPU time.
BROWSER = "chromium-headless-shell"


class Feeder:
    """A thread with a world: it reads the published table, and writes samples and reports."""

    def __init__(
        self,
        port: int,
        worlds: Mapping[str, World],
        *,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        lbs: tuple[str, ...] = ("edge-1",),
    ) -> None:
        self._port = port
        self._worlds = worlds
        self._every_s = every_s
        self._clock = clock
        self._lbs = lbs
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="world")

    def __enter__(self) -> "Feeder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        client = Client(("127.0.0.1", self._port), connect_timeout=1, timeout=1)
        while not self._ended.wait(self._every_s):
            try:
                for name, world in self._worlds.items():
                    self._feed(client, name, world)
            except (OSError, MemcacheError):
                client.close()  # Memcached is unreachable: some test is about that.
        client.close()

    def _feed(self, client: Client, name: str, world: World) -> None:
        value = client.get(wire.weights_key(name))
        table = None if value is None else weight_table.decode(value)
        order, followed = None, None
        share = {machine.id: 1 / len(world.machines) for machine in world.machines}
        if isinstance(table, WeightTable):
            order, followed = table.order, table
            share = {peer.id: part for peer, part in zip(table.peers, outcome.shares(table), strict=True)}
        samples, reports = world.step(
            self._clock(), share, order=order, interval_s=self._every_s, upstream=name, lbs=self._lbs,
            table=followed,
        )  # fmt: skip
        values = {wire.sample_key(name, peer): text for peer, text in samples.items()}
        values |= {wire.traffic_key(name, lb): text for lb, text in reports.items()}
        client.set_many(values, expire=60)


def wait_for(condition: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen")
