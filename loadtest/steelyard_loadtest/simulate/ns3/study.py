"""The study's case, and the algorithms that are run on it.

Pure. From its README: 10 clients, 10 servers of weight 1, nine answer after 5 ms and one after
50 ms, each client sends 100 requests, one every 0.1 s; 15 s in all. From its source: clients
start 1 ms apart (main.cc), a server delays each request by itself and nobody queues
(latency_server_app.cc), every request has a random key (latency_client_app.cc).
"""

from steelyard_loadtest.simulate.model import Balancing, Case, Draw, PeriodicClients, Server, Work
from steelyard_loadtest.simulate.pickers import OURS, PEERS

CLIENTS, REQUESTS, INTERVAL_S, STAGGER_S, DURATION_S = 10, 100, 0.1, 0.001, 15.0
FAST_S, SLOW_S, FAST_SERVERS = 0.005, 0.050, 9

ALGORITHMS: tuple[Balancing, ...] = (
    *(Balancing(law=None, picker=picker) for picker in PEERS),
    *(Balancing(law=law, picker=picker) for law in ("steelyard", "static") for picker in OURS),
    *(Balancing(law=law, picker=picker) for law in ("cswrr", "paper") for picker in ("vnswrr", "vnswrr2")),
)
"""Theirs in the order of their table, then ours: the default law and fixed weights on every picker, the
other laws on the plain ring and on the default picker."""


def case(balancing: Balancing, requests: int = REQUESTS) -> Case:
    """Return the study's case for an algorithm; more requests a client make it as much longer."""
    fast = Server(latency=Draw(mean_s=FAST_S, shape="constant"))
    slow = Server(latency=Draw(mean_s=SLOW_S, shape="constant"))
    return Case(
        servers=(*(fast for _ in range(FAST_SERVERS)), slow),
        clients=PeriodicClients(
            clients=CLIENTS, interval_s=INTERVAL_S, requests=requests, stagger_s=STAGGER_S
        ),
        work=Work(),
        duration_s=max(DURATION_S, DURATION_S * requests / REQUESTS),
        balancing=balancing,
    )
