"""Servers that follow their weights, for the page's tests and pictures: tables in, samples and reports out.

Deterministic by its seed. A server is a queue without surprises:
busy = arrivals / speed, latency = 1 / (1 - busy), and a neighbour takes a part.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..examples import sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A server: its requests per busy second, how full its memory is, and when a neighbour burns its CPU."""

    id: str
    speed: float
    mem: float = 0.35
    io: float = 0.05
    burned_s: tuple[float, float] = (-1.0, -1.0)


FIVE = (
    Machine(id="server-1", speed=420.0, mem=0.42),
    Machine(id="server-2", speed=400.0, mem=0.38, burned_s=(330.0, 620.0)),
    Machine(id="server-3", speed=210.0, mem=0.55, io=0.12),
    Machine(id="server-4", speed=205.0, mem=0.31),
    Machine(id="server-5", speed=800.0, mem=0.27, io=0.08),
)

DEMAND_PER_S = 900.0


class World:
    """Machines under a demand in requests per second.

    With `application` each reports the use of its pool of workers and of its cache, and its queue.
    """

    def __init__(
        self,
        machines: Sequence[Machine] = FIVE,
        *,
        demand: float = DEMAND_PER_S,
        seed: int = 1,
        application: bool = False,
    ) -> None:
        self.machines = tuple(machines)
        self.demand = demand
        self.application = application
        self._random = random.Random(seed)
        self._seq = 0
        self._backlog = {machine.id: 0.0 for machine in machines}

    def step(
        self,
        now_s: float,
        share: Mapping[str, float],
        *,
        order: tuple[int, int] | None,
        interval_s: float = 1.0,
        upstream: str = "web",
        lbs: Sequence[str] = ("edge-1",),
    ) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return the samples by peer, and the reports by load balancer, of one interval."""
        self._seq += 1
        rows: dict[str, tuple[int, int, int, float]] = {}
        samples: dict[str, bytes] = {}
        for machine in self.machines:
            arrivals = (
                self.demand * share.get(machine.id, 0.0) * self._random.uniform(0.93, 1.07) * interval_s
            )
            burned = 0.55 if machine.burned_s[0] <= now_s < machine.burned_s[1] else 0.0
            able = machine.speed * (1 - burned) * interval_s
            waiting = self._backlog[machine.id] + arrivals
            completed = min(waiting, able)
            self._backlog[machine.id] = min(waiting - completed, 50.0)
            work = completed / able
            busy = min(1.0, burned + work * (1 - burned) + self._random.uniform(0, 0.02))
            latency_ms = 1000 / machine.speed * 2 / max(0.06, 1.03 - work) * self._random.uniform(0.9, 1.1)
            in_flight = round(completed / interval_s * latency_ms / 1000 + self._backlog[machine.id])
            rows[machine.id] = (int(completed), 0, in_flight, round(latency_ms, 3))
            used = (
                busy,
                min(1.0, 0.22 * work + self._random.uniform(0, 0.01)),
                min(1.0, machine.io * (0.5 + work) + self._random.uniform(0, 0.02)),
                min(1.0, machine.mem + 0.1 * work + self._random.uniform(-0.01, 0.01)),
            )
            samples[machine.id] = sample(
                machine.id, seq=self._seq, upstream=upstream, interval_s=interval_s, utilization=used,
                further=self._further(machine, work) if self.application else (),
            )  # fmt: skip
        return samples, {lb: self._report(lb, upstream, rows, order, interval_s, len(lbs)) for lb in lbs}

    def _further(self, machine: Machine, work: float) -> tuple[tuple[str, float | None], ...]:
        # The fifth cannot measure its cache.
        cache = None if machine.id == self.machines[-1].id else min(1.0, machine.mem + 0.4 * work)
        queue = self._backlog[machine.id] / 20
        return (("workers", min(1.0, 1.15 * work)), ("kv_cache_usage", cache), ("queue", queue))

    def _report(
        self,
        lb: str,
        upstream: str,
        rows: Mapping[str, tuple[int, int, int, float]],
        order: tuple[int, int] | None,
        interval_s: float,
        parts: int,
    ) -> bytes:
        document = {
            "v": 1,
            "upstream": upstream,
            "lb": lb,
            "boot": "n1",
            "seq": self._seq,
            "sent_at_ms": 1000 * self._seq,
            "interval_s": interval_s,
            "rung": "fresh",
            "ids": list(rows),
            "completed": [row[0] // parts for row in rows.values()],
            "failed": [row[1] // parts for row in rows.values()],
            "in_flight": [row[2] // parts for row in rows.values()],
            "latency_ms": [row[3] for row in rows.values()],
        }
        if order is not None:
            document["order"] = list(order)
        return json.dumps(document).encode()
