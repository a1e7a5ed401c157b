"""A hundred load balancers before a hundred servers whose neighbours come and go, as in Prequal's figure 7.

The trace of those neighbours is not public. Here a server has 75 to 100 % of what it was promised while they
want theirs, a third of the time, else 130 to 250 %; that changes every 4 s on the mean. A request is 80 ms
of work of one of two cores. Prequal's probes cost nothing, and come at once.
"""

from random import Random

import numpy as np
import pytest
from steelyard_simulator.model import Balancing, Case, Draw, OpenClients, Server, Step, Work
from steelyard_simulator.run import run

SERVERS, CORES, WORK_S, END_S = 100, 2, 0.08, 20.0
CONTENDED, CHANGES_S, OTHERS_CHANGE = 0.35, 4.0, 0.3

PREQUAL = Balancing(law=None, picker="prequal")
OURS = Balancing(law="steelyard", picker="vnswrr2")


def neighbours(random: Random) -> tuple[Step, ...]:
    """Return how much a server has, from when on."""
    steps, at_s, contended = [], 0.0, random.random() < CONTENDED
    while at_s < END_S:
        factor = random.uniform(0.75, 1.0) if contended else random.uniform(1.3, 2.5)
        steps.append(Step(at_s=at_s, factor=factor))
        at_s += random.expovariate(1 / CHANGES_S)
        if random.random() < OTHERS_CHANGE:
            contended = random.random() < CONTENDED
    return tuple(steps)


def p99_ms(load: float, balancing: Balancing, exchange_s: float = 0.0) -> float:
    """Return p99 at a load of what was promised."""
    random = Random(7)
    case = Case(
        servers=tuple(Server(cores=CORES, steps=neighbours(random)) for _ in range(SERVERS)),
        clients=OpenClients(rate_per_s=load * SERVERS * CORES / WORK_S),
        work=Work(cpu=Draw(mean_s=WORK_S, shape="lognormal", cv=0.75)),
        duration_s=END_S,
        warmup_s=8.0,
        balancing=balancing,
        balancers=SERVERS,
        exchange_s=exchange_s,
    )
    return float(np.percentile(run(case, 1).latency_ms, 99))


@pytest.mark.parametrize("load", [0.7, 0.9])
def test_load_balancers_that_share_what_is_in_flight_are_ahead_of_prequal(load: float) -> None:
    shared = p99_ms(load, OURS, exchange_s=0.009)
    assert shared < p99_ms(load, PREQUAL)
    assert shared < 0.6 * p99_ms(load, OURS)  # where each sees its own
