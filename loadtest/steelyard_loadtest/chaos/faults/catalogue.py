"""All faults, in the order of the table."""

from steelyard_loadtest.chaos.faults import (
    clocks,
    disk,
    memcached,
    network,
    nginx,
    processes,
    redis,
    samples,
    servers,
    tables,
)
from steelyard_loadtest.chaos.model import Fault

FAULTS: tuple[Fault, ...] = (
    *processes.faults(),
    *nginx.faults(),
    *memcached.faults(),
    *redis.faults(),
    *network.faults(),
    *servers.faults(),
    *tables.faults(),
    *samples.faults(),
    *disk.faults(),
    # Last, because they need a stage of their own.
    *clocks.faults(),
)
