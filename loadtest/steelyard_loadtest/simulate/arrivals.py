"""When requests are sent: open, periodic and closed clients. Pure but for the generators passed in."""

from collections.abc import Callable
from math import log
from random import Random

from steelyard_loadtest.simulate.draws import sampler
from steelyard_loadtest.simulate.engine import Engine
from steelyard_loadtest.simulate.model import ClosedClients, OpenClients, PeriodicClients

Send = Callable[[float, int], object]
"""Sends a request of a client now: (now_s, client)."""

# Closed clients that all began in one instant would be a burst that no cluster ever sees.
CLOSED_START_S = 1.0


def open_arrivals(engine: Engine, clients: OpenClients, random: Random, until_s: float, send: Send) -> None:
    """Send at the rate of the moment until then."""
    changes = sorted(((0.0, clients.rate_per_s), *clients.changes), reverse=True)
    uniform, poisson = random.random, clients.arrivals == "poisson"
    rate_per_s = 0.0

    def later(now_s: float, work: float) -> None:
        """Ask for the arrival that is `work` mean gaps away, counted across the changes of the rate."""
        nonlocal rate_per_s
        while changes:
            room = (changes[-1][0] - now_s) * rate_per_s
            if room >= work and changes[-1][0] > now_s:
                break
            work -= max(0.0, room)
            now_s, rate_per_s = max(now_s, changes[-1][0]), changes[-1][1]
            changes.pop()
        if rate_per_s > 0 and now_s + work / rate_per_s <= until_s:
            engine.at(now_s + work / rate_per_s, arrive)

    def arrive(now_s: float, _nothing: object) -> None:
        later(now_s, -log(1.0 - uniform()) if poisson else 1.0)
        send(now_s, -1)

    later(0.0, -log(1.0 - uniform()) if poisson else 1.0)


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


def closed_arrivals(
    engine: Engine, clients: ClosedClients, random: Random, until_s: float, send: Send
) -> Callable[[float, int], None]:
    """Send each client's first request; return what to call when a client has its answer."""
    think_s = sampler(clients.think, random)

    def arrive(now_s: float, client: int) -> None:
        send(now_s, client)

    def again(now_s: float, client: int) -> None:
        when_s = now_s + think_s()
        if when_s <= until_s:
            engine.at(when_s, arrive, client)

    for client in range(clients.clients):
        engine.at(random.random() * CLOSED_START_S, arrive, client)
    return again
