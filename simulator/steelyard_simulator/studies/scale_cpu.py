"""CPU time of a controller's tick, measured on this machine: the law alone, and all but the network.

The controller's own cycle decodes every sample and report, steps the law and encodes the table,
with messages of the real size that are new at each tick. A measurement, so no seed repeats it.
"""

import statistics
import time
from collections.abc import Iterator, Sequence

import numpy as np
from steelyard_controller import laws
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.tick.cycle import Cycle
from steelyard_protocol import weight_table, wire

from steelyard_simulator.studies import scale_messages as messages
from steelyard_simulator.studies.scale_grid import TickCpu

MOST_ROWS = 300_000
"""Servers times load balancers. Beyond, a tick takes several seconds and a gigabyte: no need to wait."""

TICKS = 3
# The first look counts nothing as new, the second builds what the others find ready.
UNCOUNTED = 2


def measure(servers: int, load_balancers: int, ticks: int = TICKS) -> TickCpu:
    """Return the CPU that a tick takes in this process, the default law deciding."""
    upstream = Upstream(
        peers=[
            Peer(id=name, address=address)
            for name, address in zip(messages.names(servers), messages.addresses(servers), strict=True)
        ],
        load_balancers=[messages.lb_name(number) for number in range(1, load_balancers + 1)],
    )
    cycle = Cycle(messages.UPSTREAM, Declaration(upstream=upstream), tick_s=1.0)
    law = laws.create(upstream.law, upstream.parameters)
    memory = law.start()
    law_ms: list[float] = []
    tick_ms: list[float] = []
    for tick, values in enumerate(_arrivals(upstream, ticks + UNCOUNTED)):
        began_s = time.process_time()
        outcome, _ = cycle.advance(
            values, now_s=float(tick), term=messages.TERM, issued_at_ms=messages.TAKEN_AT_MS, addresses={}
        )
        # Not `encode`, which refuses what is too large to publish: what that costs may be asked too.
        weight_table.to_json(outcome.table)
        done_s = time.process_time()
        memory, _ = law.step(memory, outcome.snapshot)
        if tick >= UNCOUNTED:
            law_ms.append(1000 * (time.process_time() - done_s))
            tick_ms.append(1000 * (done_s - began_s))
    return TickCpu(
        servers=servers,
        load_balancers=load_balancers,
        law_ms=statistics.median(law_ms),
        tick_ms=statistics.median(tick_ms),
    )


def affordable(sizes: Sequence[int], load_balancers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the points of a grid that are worth measuring."""
    return [(k, n) for k in sizes for n in load_balancers if k * n <= MOST_ROWS]


def _arrivals(upstream: Upstream, ticks: int) -> Iterator[dict[str, bytes]]:
    """Give what Memcached holds at each tick."""
    rng = np.random.default_rng(1)
    ids = [peer.id for peer in upstream.peers]
    mark = messages.lb_name(0)
    for seq in range(1, ticks + 1):
        cpu = rng.uniform(0.5, 0.9, len(ids)).tolist()
        done = rng.poisson(13, len(ids)).tolist()
        report = messages.report(mark, ids, seq, done, [min(count, 1) for count in done], 4.0)
        yield {
            **{
                wire.sample_key(messages.UPSTREAM, name): messages.sample(name, seq, load)
                for name, load in zip(ids, cpu, strict=True)
            },
            **{
                wire.traffic_key(messages.UPSTREAM, lb): report.replace(
                    f'"lb":"{mark}"'.encode(), f'"lb":"{lb}"'.encode(), 1
                )
                for lb in upstream.load_balancers
            },
        }
