"""Bytes per second through Memcached: encoded messages times how often each is written and read.

Pure. Memcached's text protocol is counted (protocol.txt of its source: `set`, `get`, `gets`,
`cas` and their answers), the headers of TCP and IP are not. A load balancer fetches the whole
table whether it has changed or not.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from steelyard_agent import wire
from steelyard_controller.pipeline import weight_table

from steelyard_loadtest.simulate.studies.scale import messages

# What nginx does by default (openresty/lua/steelyard/core/options.lua); an agent's and a controller's tick.
FETCH_INTERVAL_S, REPORT_INTERVAL_S, SAMPLE_INTERVAL_S, TICK_S = 0.5, 1.0, 1.0, 1.0

# Times to live as they stand in a `set`: seconds, one or two digits.
TTL = "10"

# What a `gets` and a `cas` have more than a `get` and a `set`: a mark of some seven digits, and a space.
MARK_BYTES = 8

GIGABIT_BYTES_PER_S = 125e6
"""What one direction of a link of 1 Gbit/s carries, headers and all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The sizes of the three messages, and bytes per second into and out of Memcached."""

    sample_bytes: int
    report_bytes: int
    table_bytes: int
    samples_in: float
    samples_out: float
    reports_in: float
    reports_out: float
    table_in: float
    table_out: float

    @property
    def into(self) -> float:
        """Return what agents, load balancers and controller write."""
        return self.samples_in + self.reports_in + self.table_in

    @property
    def out_of(self) -> float:
        """Return what load balancers and controller read: the larger direction."""
        return self.samples_out + self.reports_out + self.table_out


def volume(servers: int, load_balancers: int, requests_per_s: float) -> Volume:
    """Return the bytes per second of an upstream whose load balancers share `requests_per_s` evenly.

    A report grows with the digits of its counts, so the rate matters a little.
    """
    ids, lb = messages.names(servers), messages.lb_name(load_balancers)
    each = requests_per_s * REPORT_INTERVAL_S / max(servers * load_balancers, 1)
    # Whole requests: a load balancer that sends less than one to each server counts 1 in some rows, else 0.
    counts = np.diff(np.floor(np.arange(servers + 1) * each)).astype(int).tolist()
    waiting = [min(count, 1) for count in counts]
    sample = _Item(wire.sample_key(messages.UPSTREAM, ids[0]), len(messages.sample(ids[0], 4217, 0.4213)))
    report = _Item(
        wire.traffic_key(messages.UPSTREAM, lb), len(messages.report(lb, ids, 4217, counts, waiting, 4.0))
    )
    table = _Item(
        wire.weights_key(messages.UPSTREAM), len(weight_table.to_json(messages.uneven_table(servers)))
    )
    return Volume(
        sample_bytes=sample.size,
        report_bytes=report.size,
        table_bytes=table.size,
        samples_in=servers * sample.written / SAMPLE_INTERVAL_S,
        samples_out=servers * sample.read / TICK_S,
        reports_in=load_balancers * report.written / REPORT_INTERVAL_S,
        reports_out=load_balancers * report.read / TICK_S,
        table_in=(table.written + MARK_BYTES) / TICK_S,
        # The controller looks at the table before it puts another in its place ("check and set").
        table_out=(table.read + MARK_BYTES) / TICK_S + load_balancers * table.read / FETCH_INTERVAL_S,
    )


@cache  # twenty tables are encoded
def most_load_balancers(servers: int, requests_per_server_s: float, bytes_per_s: float) -> int:
    """Return with how many load balancers at most `bytes_per_s` leaves Memcached; 0: not even with one."""
    low, high = 0, 1 << 20
    while low < high:
        middle = (low + high + 1) // 2
        if volume(servers, middle, requests_per_server_s * servers).out_of <= bytes_per_s:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, slots=True)
class _Item:
    key: str
    size: int

    @property
    def written(self) -> int:
        return len(f"set {self.key} 0 {TTL} {self.size}\r\n") + self.size + len("\r\n")

    @property
    def read(self) -> int:
        # An answer of one key; where many share a `get`, all but one lack the five bytes of END.
        return len(f"VALUE {self.key} 0 {self.size}\r\n") + self.size + len("\r\nEND\r\n")
