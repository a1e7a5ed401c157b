"""The messages of an upstream of any size, as they are written, and what they are in bytes per second.

Pure. Sizes on the wire are those of these messages, and not a guess at bytes per server. The names are of
the length that a fleet of this size needs (`server-00001`), the addresses IPv4.

Bytes per second through Memcached are encoded messages times how often each is written and read.
Memcached's text protocol is counted (protocol.txt of its source: `set`, `get`, `gets`, `cas` and their
answers), the headers of TCP and IP are not. A load balancer fetches the head of the table, which has the
weights; the table itself only when a server comes, goes or changes otherwise, which none does here.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from ipaddress import IPv4Address

import numpy as np
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.quantize import quantize
from steelyard_controller.laws.snapshot import Floats
from steelyard_protocol import sample_record, table_chunks, traffic_report, weight_table, wire
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.weight_table import TablePeer, WeightTable

UPSTREAM = "web"

# Milliseconds since 1970 have 13 digits until the year 2286.
TAKEN_AT_MS = 1_790_000_000_000

# A term is milliseconds since 1970 (docs/decisions/0001-a-fresh-term-is-the-time.md); a generation of a day
# of ticks has 5 digits.
TERM, GENERATION = TAKEN_AT_MS, 86_400


def names(servers: int) -> tuple[str, ...]:
    """Return the names of so many servers, all of one length, in order."""
    digits = len(str(servers))
    return tuple(f"server-{number:0{digits}}" for number in range(1, servers + 1))


def addresses(servers: int) -> tuple[str, ...]:
    """Return their addresses, in 10.0.0.0/8."""
    return tuple(f"{IPv4Address('10.0.0.0') + number}:8080" for number in range(1, servers + 1))


def lb_name(number: int) -> str:
    """Return the name of a load balancer."""
    return f"edge-{number}"


def sample(name: str, seq: int, cpu: float) -> bytes:
    """Return a server's sample, as its agent encodes it; utilizations have the agent's four digits."""
    return sample_record.encode(
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
    lb: str, ids: Sequence[str], seq: int, completed: Sequence[int], in_flight: Sequence[int],
    latency_ms: float,
) -> bytes:  # fmt: skip
    """Return a load balancer's traffic report, with the members that core/traffic_report.lua writes."""
    document = {
        "v": traffic_report.VERSION,
        "upstream": UPSTREAM,
        "lb": lb,
        "boot": "77ab01c2",
        "seq": seq,
        "sent_at_ms": TAKEN_AT_MS,
        "interval_s": 1,
        "rung": "fresh",
        "order": [TERM, GENERATION],
        "ids": list(ids),
        "completed": list(completed),
        "failed": [0] * len(ids),
        "in_flight": list(in_flight),
        "latency_ms": [
            round(latency_ms + row % 997 / 1000, 3) if done else None for row, done in enumerate(completed)
        ],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def table(weights: Floats, baseline: Floats) -> WeightTable:
    """Return the weight table that publishes these weights, both of the same sum."""
    total, servers = round(float(weights.sum())), len(weights)
    whole, rest = quantize(weights, total).tolist(), quantize(baseline, total).tolist()
    rows = zip(names(servers), addresses(servers), whole, rest, strict=True)
    made = WeightTable(
        upstream=UPSTREAM,
        term=TERM,
        generation=GENERATION,
        issued_at_ms=TAKEN_AT_MS,
        law="steelyard",
        picker="vnswrr2",
        report_version=traffic_report.VERSION,
        peers=tuple(
            TablePeer(id=name, address=address, weight=weight, baseline=base, state="up")
            for name, address, weight, base in rows
        ),
    )
    return weight_table.with_digest(made)


def uneven_table(servers: int) -> WeightTable:
    """Return a table of servers of four speeds, 1 : 2 : 3 : 4, whose baselines are equal."""
    total = law_total(0, servers)
    speeds = 1.0 + np.arange(servers) % 4
    return table(speeds * (total / speeds.sum()), np.full(servers, total / servers))


@cache  # a second of encoding
def most_servers_in_an_item() -> int:
    """Return the most servers whose table is written as one Memcached item; of more it goes in chunks."""

    def too_large(servers: int) -> bool:
        return len(weight_table.to_json(uneven_table(servers))) > table_chunks.ITEM_BYTES

    # One more than the most is the first that is too large.
    return bisect_left(range(2, 1 << 16), True, key=too_large) + 1


@cache
def most_servers_in_a_table() -> int:
    """Return how many servers a table may have that nginx reads, rounded down to thousands."""
    servers = 50_000
    row_bytes = len(weight_table.to_json(uneven_table(servers))) / servers
    return int(wire.MAX_TABLE_BYTES / row_bytes) // 1000 * 1000


# What nginx does by default (core/options.lua); the tick of an agent and of a controller.
FETCH_INTERVAL_S, REPORT_INTERVAL_S, SAMPLE_INTERVAL_S, TICK_S = 0.5, 1.0, 1.0, 1.0

# Times to live as they stand in a `set`: seconds, one or two digits.
TTL = "10"

# What a `gets` and a `cas` have more than a `get` and a `set`: a mark of some seven digits, and a space.
MARK_BYTES = 8

GIGABIT_BYTES_PER_S = 125e6
"""What one direction of a link of 1 Gbit/s carries, headers and all."""


def volume(servers: int, load_balancers: int, requests_per_s: float) -> dict[str, float]:
    """Return what goes through Memcached, the load balancers sharing `requests_per_s` evenly.

    *_bytes   size of a message; a report grows with the digits of its counts, so the rate matters a little
    *_in      bytes per second that agents, load balancers and controller write: together `into`
    *_out     those that load balancers and controller read: together `out_of`, the larger direction
    """
    ids, lb = names(servers), lb_name(load_balancers)
    each = requests_per_s * REPORT_INTERVAL_S / max(servers * load_balancers, 1)
    # Whole requests: a load balancer that sends less than one to each server counts 1 in some rows, else 0.
    counts = np.diff(np.floor(np.arange(servers + 1) * each)).astype(int).tolist()
    waiting = [min(count, 1) for count in counts]
    one = wire.sample_key(UPSTREAM, ids[0]), len(sample(ids[0], 4217, 0.4213))
    traffic = wire.traffic_key(UPSTREAM, lb), len(report(lb, ids, 4217, counts, waiting, 4.0))
    made = uneven_table(servers)
    weights = wire.weights_key(UPSTREAM), len(weight_table.to_json(made))
    head = wire.head_key(UPSTREAM), len(weight_table.encode_head(made))
    rates = {
        "samples_in": servers * _written(*one) / SAMPLE_INTERVAL_S,
        "samples_out": servers * _read(*one) / TICK_S,
        "reports_in": load_balancers * _written(*traffic) / REPORT_INTERVAL_S,
        "reports_out": load_balancers * _read(*traffic) / TICK_S,
        "table_in": (_written(*weights) + MARK_BYTES + _written(*head)) / TICK_S,
        # The controller looks at the table before it puts another in its place ("check and set").
        "table_out": (_read(*weights) + MARK_BYTES) / TICK_S
        + load_balancers * _read(*head) / FETCH_INTERVAL_S,
    }
    sizes = {"sample": one[1], "report": traffic[1], "table": weights[1], "head": head[1]}
    both = {"into": "_in", "out_of": "_out"}
    return {
        **{f"{message}_bytes": float(size) for message, size in sizes.items()},
        **rates,
        **{name: sum(rate for of, rate in rates.items() if of.endswith(end)) for name, end in both.items()},
    }


@cache  # twenty tables are encoded
def most_load_balancers(servers: int, requests_per_server_s: float, bytes_per_s: float) -> int:
    """Return with how many load balancers at most `bytes_per_s` leaves Memcached; 0: not even with one."""

    def out_of(load_balancers: int) -> float:
        return volume(servers, load_balancers, requests_per_server_s * servers)["out_of"]

    return bisect_right(range(1, 1 << 20), bytes_per_s, key=out_of)


def _written(key: str, size: int) -> int:
    return len(f"set {key} 0 {TTL} {size}\r\n") + size + len("\r\n")


def _read(key: str, size: int) -> int:
    # An answer of one key; where many share a `get`, all but one lack the five bytes of END.
    return len(f"VALUE {key} 0 {size}\r\n") + size + len("\r\nEND\r\n")
