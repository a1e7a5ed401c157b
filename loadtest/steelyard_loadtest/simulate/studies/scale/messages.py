"""The messages of an upstream of any size, as its agents, load balancers and controller write them.

Pure. Sizes on the wire are those of these messages, and not a guess at bytes per server. The
names are of the length that a fleet of this size needs (`server-00001`), the addresses IPv4.
"""

import json
from collections.abc import Sequence
from functools import cache

import numpy as np
from steelyard_agent import record, wire
from steelyard_agent.record import SampleRecord
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.pipeline import weight_table
from steelyard_controller.pipeline.weight_table import TablePeer, WeightTable
from steelyard_controller.quantize import quantize
from steelyard_controller.snapshot import Floats

UPSTREAM = "web"

# Milliseconds since 1970 have 13 digits until the year 2286.
TAKEN_AT_MS = 1_790_000_000_000

# A term is milliseconds since 1970 (docs/decisions/0001); a generation of a day of ticks has 5 digits.
TERM, GENERATION = TAKEN_AT_MS, 86_400


def names(servers: int) -> tuple[str, ...]:
    """Return the names of so many servers, all of one length, in order."""
    digits = len(str(servers))
    return tuple(f"server-{number:0{digits}}" for number in range(1, servers + 1))


def addresses(servers: int) -> tuple[str, ...]:
    """Return their addresses, in 10.0.0.0/8."""
    return tuple(
        f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:8080" for number in range(1, servers + 1)
    )


def lb_name(number: int) -> str:
    """Return the name of a load balancer."""
    return f"edge-{number}"


def sample(name: str, seq: int, cpu: float) -> bytes:
    """Return a server's sample, as its agent encodes it; utilizations have the agent's four digits."""
    return record.encode(
        SampleRecord(
            upstream=UPSTREAM,
            peer=name,
            boot="5f0c2a9e",
            seq=seq,
            taken_at_ms=TAKEN_AT_MS + 1000 * seq,
            interval_s=1.0,
            utilization=(round(cpu, 4), 0.0213, 0.0107, 0.4121),
            capacity=(2.0, 125_000_000.0, 5000.0, 2147483648.0),
            scope="cgroup",
        )
    )


def report(
    lb: str,
    ids: Sequence[str],
    seq: int,
    completed: Sequence[int],
    in_flight: Sequence[int],
    latency_ms: float,
) -> bytes:
    """Return a load balancer's traffic report, with the members that core/traffic.lua writes."""
    document = {
        "v": wire.VERSION,
        "upstream": UPSTREAM,
        "lb": lb,
        "boot": "77ab01c2",
        "seq": seq,
        "sent_at_ms": TAKEN_AT_MS,
        "interval_s": 1,
        "rung": "fresh",
        "order": [TERM, GENERATION],
        "peers": {
            name: {
                "completed": done,
                "failed": 0,
                "in_flight": waiting,
                "latency_ms": round(latency_ms + row % 997 / 1000, 3) if done else None,
            }
            for row, (name, done, waiting) in enumerate(zip(ids, completed, in_flight, strict=True))
        },
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def table(weights: Floats, baseline: Floats) -> WeightTable:
    """Return the weight table that publishes these weights, both of the same sum."""
    total = round(float(weights.sum()))
    rows = zip(
        names(len(weights)),
        addresses(len(weights)),
        quantize(weights, total).tolist(),
        quantize(baseline, total).tolist(),
        strict=True,
    )
    return WeightTable(
        upstream=UPSTREAM,
        term=TERM,
        generation=GENERATION,
        issued_at_ms=TAKEN_AT_MS,
        law="steelyard",
        picker="vnswrr2",
        peers=tuple(
            TablePeer(id=name, address=address, weight=weight, baseline=base, state="up")
            for name, address, weight, base in rows
        ),
    )


def uneven_table(servers: int) -> WeightTable:
    """Return a table of servers of four speeds, 1 : 2 : 3 : 4, whose baselines are equal."""
    total = law_total(0, servers)
    speeds = 1.0 + np.arange(servers) % 4
    return table(speeds * (total / speeds.sum()), np.full(servers, total / servers))


@cache  # a second of encoding
def most_servers_in_a_table(most: int = 65_536) -> int:
    """Return how many servers fit into one table: the most that the controller's encoder takes."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        try:
            weight_table.encode(uneven_table(middle))
            low = middle
        except weight_table.TableTooLarge:
            high = middle - 1
    return low
