"""When requests are sent: open and periodic clients. Pure but for the generators passed in."""

from collections.abc import Callable
from math import log
from random import Random

from steelyard_simulator.engine import Engine, Rate
from steelyard_simulator.model import OpenClients, PeriodicClients

Send = Callable[[float, int], object]
"""Sends a request of a client now: (now_s, client)."""


def open_arrivals(engine: Engine, clients: OpenClients, random: Random, until_s: float, send: Send) -> None:
    """Send at the rate of the moment until then."""
    rate = Rate(((0.0, clients.rate_per_s), *clients.changes))
    uniform, poisson = random.random, clients.arrivals == "poisson"

    def foresee(now_s: float) -> None:
        """Ask for the next arrival: so many mean gaps away, counted across the changes of the rate."""
        when_s = rate.end(now_s, -log(1.0 - uniform()) if poisson else 1.0)
        if when_s <= until_s:
            engine.at(when_s, arrive)

    def arrive(now_s: float, _nothing: object) -> None:
        foresee(now_s)
        send(now_s, -1)

    foresee(0.0)


def periodic_arrivals(engine: Engine, clients: PeriodicClients, until_s: float, send: Send) -> None:
    """Send each client's requests at its times; those after `until_s` are not sent."""

    def arrive(now_s: float, of: tuple[int, int]) -> None:
        client, left = of
        if left > 1 and now_s + clients.interval_s <= until_s:
            engine.at(now_s + clients.interval_s, arrive, (client, left - 1))
        send(now_s, client)

    for client in range(clients.clients):
        if client * clients.stagger_s <= until_s and clients.requests > 0:
            engine.at(client * clients.stagger_s, arrive, (client, clients.requests))
