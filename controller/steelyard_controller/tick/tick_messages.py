"""The messages that a tick reads from Memcached, for all its upstreams in one round trip. I/O only."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from steelyard_protocol import announced, memcached_client, wire
from steelyard_protocol.memcached_pool import MemcachedPool

from steelyard_controller.messages.published_tables import Held
from steelyard_controller.tick.cycle import Cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """The contents of Memcached: lists and runs (`lists`), tables, and samples and reports (`values`)."""

    lists: Held
    tables: Held
    values: dict[str, bytes] | None


async def read(
    pipeline: MemcachedPool,
    due: Sequence[Cycle],
    cycles: Mapping[str, Cycle],
    skip: set[str],
    *,
    list_key: str = wire.UPSTREAMS_KEY,
) -> Messages:
    """Read the messages of the upstreams that are `due`, and what load balancers announce to any of `cycles`.

    `list_key` is the key of this installation's list of upstreams.
    `skip` are Memcached servers that failed in this tick; more of them may be added.
    """
    list_keys = [list_key, wire.ANNOUNCED_KEY, wire.RUNS_KEY]
    table_keys = [wire.weights_key(cycle.name) for cycle in due]
    message_keys = _keys(due)
    try:
        held, values = await pipeline.read([*list_keys, *table_keys], message_keys, skip)
    except memcached_client.Unavailable:
        return Messages(lists={}, tables={}, values=None)
    lists = {
        server: {key: seen.pop(key) for key in list_keys if key in seen} for server, seen in held.items()
    }
    announcing = _announce(lists, cycles)
    new_keys = set(_keys([cycle for cycle in due if cycle.name in announcing]))
    if new_keys:
        new_keys.difference_update(message_keys)
    if new_keys:  # Rarely: most load balancers that announce themselves have done so before.
        with suppress(memcached_client.Unavailable):  # The next tick reads them.
            values |= await pipeline.get_many(sorted(new_keys), skip)
    return Messages(lists=lists, tables=held, values=values)


def _keys(cycles: Sequence[Cycle]) -> list[str]:
    return [key for cycle in cycles for key in cycle.keys()]  # noqa: SIM118


def _announce(lists: Held, cycles: Mapping[str, Cycle]) -> Collection[str]:
    """Have the reports of announced load balancers read; return their upstreams."""
    values = [seen[wire.ANNOUNCED_KEY].value for seen in lists.values() if wire.ANNOUNCED_KEY in seen]
    by_upstream = announced.read(values)
    for name, cycle in cycles.items():
        cycle.announce(by_upstream.get(name, ()))
    return by_upstream
