"""Servers that follow their weights, for the page's tests and pictures: tables in, samples and reports out.

Deterministic by its seed. A server is a queue without surprises:
busy = arrivals / speed, latency = 1 / (1 - busy), and a neighbour takes a part.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard_controller.tick.outcome import shares
from steelyard_protocol.weight_table import WeightTable

from ..examples import sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A server: its requests per busy second, how full its memory is, and when a neighbour burns its CPU.

    `fails` is the part of its requests that fail, and `silent` says that it has no agent.
    """

    id: str
    speed: float
    mem: float = 0.35
    io: float = 0.05
    burned_s: tuple[float, float] = (-1.0, -1.0)
    fails: float = 0.0
    silent: bool = False


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

    With `application` each reports the use of its pool of workers and of its cache, and its queue. `zones`
    has the zones of load balancers, `brings` their parts of the demand (equal ones by default).
    """

    def __init__(
        self,
        machines: Sequence[Machine] = FIVE,
        *,
        demand: float = DEMAND_PER_S,
        seed: int = 1,
        application: bool = False,
        zones: Mapping[str, str] | None = None,
        brings: Mapping[str, float] | None = None,
    ) -> None:
        self.machines = tuple(machines)
        self.demand = demand
        self.application = application
        self.zones = zones or {}
        self.brings = brings or {}
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
        table: WeightTable | None = None,
    ) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return the samples by peer, and the reports by load balancer, of one interval.

        With a `table` of zones, each load balancer follows its zone's factors.
        """
        self._seq += 1
        follows = {lb: near_shares(table, self.zones.get(lb)) or share for lb in lbs}
        sent = {
            lb: {id: part * self.brings.get(lb, 1 / len(lbs)) for id, part in parts.items()}
            for lb, parts in follows.items()
        }
        rows: dict[str, tuple[int, int, int, float]] = {}
        samples: dict[str, bytes] = {}
        for machine in self.machines:
            parts = [sent[lb].get(machine.id, 0.0) for lb in lbs]
            arrivals = self.demand * sum(parts) * self._random.uniform(0.93, 1.07) * interval_s
            burned = 0.55 if machine.burned_s[0] <= now_s < machine.burned_s[1] else 0.0
            able = machine.speed * (1 - burned) * interval_s
            waiting = self._backlog[machine.id] + arrivals
            completed = min(waiting, able)
            self._backlog[machine.id] = min(waiting - completed, 50.0)
            work = completed / able
            busy = min(1.0, burned + work * (1 - burned) + self._random.uniform(0, 0.02))
            latency_ms = 1000 / machine.speed * 2 / max(0.06, 1.03 - work) * self._random.uniform(0.9, 1.1)
            in_flight = round(completed / interval_s * latency_ms / 1000 + self._backlog[machine.id])
            failed = completed * machine.fails
            rows[machine.id] = (int(completed - failed), int(failed), in_flight, round(latency_ms, 3))
            used = (
                busy,
                min(1.0, 0.22 * work + self._random.uniform(0, 0.01)),
                min(1.0, machine.io * (0.5 + work) + self._random.uniform(0, 0.02)),
                min(1.0, machine.mem + 0.1 * work + self._random.uniform(-0.01, 0.01)),
            )
            if machine.silent:
                continue
            samples[machine.id] = sample(
                machine.id, seq=self._seq, upstream=upstream, interval_s=interval_s, utilization=used,
                further=self._further(machine, work) if self.application else (),
            )  # fmt: skip
        totals = {each.id: sum(sent[lb].get(each.id, 0.0) for lb in lbs) or 1.0 for each in self.machines}
        return samples, {
            lb: self._report(
                lb, upstream, rows, order, interval_s,
                {id: sent[lb].get(id, 0.0) / total for id, total in totals.items()},
            )
            for lb in lbs
        }  # fmt: skip

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
        parts: Mapping[str, float],
    ) -> bytes:
        """Return the report of a load balancer that sent these parts of each server's requests."""
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
            "completed": [int(row[0] * parts[id]) for id, row in rows.items()],
            "failed": [int(row[1] * parts[id]) for id, row in rows.items()],
            "in_flight": [int(row[2] * parts[id]) for id, row in rows.items()],
            "latency_ms": [row[3] for row in rows.values()],
        }
        if order is not None:
            document["order"] = list(order)
        if lb in self.zones:
            document["zone"] = self.zones[lb]
        return json.dumps(document).encode()


def near_shares(table: WeightTable | None, zone: str | None) -> dict[str, float] | None:
    """Return the shares of a zone's load balancers by a table's factors; None if it has none for the zone."""
    if table is None or table.zone_factors is None or table.zones is None or zone not in table.zones:
        return None
    row, places = table.zone_factors[table.zones.index(zone)], {name: n for n, name in enumerate(table.zones)}
    parts = {
        peer.id: part * row[places.get(peer.zone or "", len(places))]
        for peer, part in zip(table.peers, shares(table), strict=True)
    }
    total = sum(parts.values())
    return {id: part / total for id, part in parts.items()} if total > 0 else None
