"""The messages of an upstream of any size, encoded as the product does, and their bytes per second.

Pure. Sizes are those of these messages, not an estimate of bytes per server. Names have the length that a
fleet of this size needs (`server-00001`), and addresses are IPv4.

Bytes per second out of Memcached are encoded messages times the number of reads. They include Memcached's
text protocol (protocol.txt of its source: the answers to `get` and `gets`), but not the headers of TCP and
IP. A load balancer fetches the head of the table, which has the weights. It fetches the table itself only
when a server joins, leaves or changes otherwise, and that does not happen here.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from ipaddress import IPv4Address

import numpy as np
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.quantize import quantize
from steelyard_protocol import sample_record, table_chunks, traffic_report, weight_table, wire
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.weight_table import TablePeer, WeightTable

UPSTREAM = "web"

# Milliseconds since 1970 have 13 digits until the year 2286.
TAKEN_AT_MS = 1_790_000_000_000

# A term is milliseconds since 1970 (docs/decisions/0001-a-fresh-term-is-the-time.md); a generation of a day
# of ticks has 5 digits.
TERM, GENERATION = TAKEN_AT_MS, 86_400


def names(servers: int) -> tuple[str, ...]:
    """Return the names of this many servers, all of one length, in order."""
    digits = len(str(servers))
    return tuple(f"server-{number:0{digits}}" for number in range(1, servers + 1))


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


def report(lb: str, ids: Sequence[str], completed: Sequence[int], in_flight: Sequence[int]) -> bytes:
    """Return a load balancer's traffic report, with the members that core/traffic_report.lua writes."""
    rows = enumerate(completed)
    traffic = TrafficReport(
        upstream=UPSTREAM, lb=lb, boot="77ab01c2", seq=4217, sent_at_ms=TAKEN_AT_MS, interval_s=1,
        rung="fresh", order=(TERM, GENERATION), ids=ids, completed=completed, failed=[0] * len(ids),
        in_flight=in_flight,
        latency_ms=[round(4.0 + row % 997 / 1000, 3) if done else None for row, done in rows],
    )  # fmt: skip
    return traffic_report.encode(traffic)


def uneven_table(servers: int) -> WeightTable:
    """Return a table of servers of four speeds, 1 : 2 : 3 : 4, in 10.0.0.0/8, whose baselines are equal."""
    total = law_total(0, servers)
    speeds = 1.0 + np.arange(servers) % 4
    weights = quantize(speeds * (total / speeds.sum()), total).tolist()
    baselines = quantize(np.full(servers, total / servers), total).tolist()
    rows = enumerate(zip(names(servers), weights, baselines, strict=True), start=1)
    made = WeightTable(
        upstream=UPSTREAM,
        term=TERM,
        generation=GENERATION,
        issued_at_ms=TAKEN_AT_MS,
        law="steelyard",
        picker="vnswrr2",
        peers=tuple(
            TablePeer(
                id=name, address=f"{IPv4Address('10.0.0.0') + number}:8080", weight=weight,
                baseline=baseline, state="up",
            )
            for number, (name, weight, baseline) in rows
        ),
    )  # fmt: skip
    return weight_table.with_digest(made)


@cache  # a second of encoding
def most_servers_in_an_item() -> int:
    """Return the most servers whose table fits into one Memcached item."""

    def table_bytes(servers: int) -> int:
        return len(weight_table.to_json(uneven_table(servers)))

    return bisect_right(range(1, 1 << 16), table_chunks.ITEM_BYTES, key=table_bytes)


@cache
def most_servers_in_a_table() -> int:
    """Return the most servers of a table that nginx reads, rounded down to thousands."""
    servers = 50_000
    row_bytes = len(weight_table.to_json(uneven_table(servers))) / servers
    return int(wire.MAX_TABLE_BYTES / row_bytes) // 1000 * 1000


# nginx's default (core/options.lua); the tick of agents, reports and the controller.
FETCH_INTERVAL_S, TICK_S = 0.5, 1.0

# The answer to `gets` is longer than that to `get`: a mark of about seven digits, and a space.
MARK_BYTES = 8

GIGABIT_BYTES_PER_S = 125e6
"""Capacity of one direction of a link of 1 Gbit/s, including headers."""


def out_of_memcached(servers: int, load_balancers: int, requests_per_s: float) -> float:
    """Return the bytes per second that load balancers and controller read: the larger direction.

    The load balancers share the requests evenly. A report grows with the digits of its counts, so the rate
    matters a little.
    """
    ids, lb = names(servers), f"edge-{load_balancers}"
    each = requests_per_s * TICK_S / (servers * load_balancers)
    # Whole requests: a load balancer with fewer requests than servers counts 1 in some rows and 0 in others.
    counts = np.diff(np.floor(np.arange(servers + 1) * each)).astype(int).tolist()
    waiting = [min(count, 1) for count in counts]
    table = uneven_table(servers)
    samples = servers * read_bytes(wire.sample_key(UPSTREAM, ids[0]), sample(ids[0], 4217, 0.4213))
    reports = load_balancers * read_bytes(wire.traffic_key(UPSTREAM, lb), report(lb, ids, counts, waiting))
    # The controller reads the table before it replaces it ("check and set").
    looked_at = read_bytes(wire.weights_key(UPSTREAM), weight_table.to_json(table)) + MARK_BYTES
    heads = load_balancers * read_bytes(wire.head_key(UPSTREAM), weight_table.encode_head(table))
    return (samples + reports + looked_at) / TICK_S + heads / FETCH_INTERVAL_S


def read_bytes(key: str, value: bytes | str) -> int:
    """Return the length of Memcached's answer to a `get` of one key."""
    # If many keys share a `get`, all but the last lack the five bytes of END.
    return len(f"VALUE {key} 0 {len(value)}\r\n") + len(value) + len("\r\nEND\r\n")


@cache  # twenty tables are encoded
def most_load_balancers(servers: int, requests_per_server_s: float, bytes_per_s: float) -> int:
    """Return the most load balancers for `bytes_per_s` out of Memcached; 0 if one already needs more."""

    def out_of(load_balancers: int) -> float:
        return out_of_memcached(servers, load_balancers, requests_per_server_s * servers)

    return bisect_right(range(1, 1 << 20), bytes_per_s, key=out_of)
