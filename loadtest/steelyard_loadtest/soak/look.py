"""One look at the whole: what nginx, Memcached and Redis count (I/O)."""

from collections.abc import Callable, Mapping
from typing import Any

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.soak.nginx_status import dict_free_bytes, in_flight
from steelyard_loadtest.soak.records import Overview
from steelyard_loadtest.soak.store_counts import memcached_counts, redis_keys, redis_used_bytes
from steelyard_loadtest.stage.stage import Stage


def overview(
    stage: Stage, status: Mapping[str, Any] | None, *, at_s: float, sent: int, failed: int, steps: int
) -> Overview:
    """Ask the stores, and add what the status says; who does not answer is left out."""
    items, items_bytes = memcached_counts(_asked(lambda: stage.memcached_command("stats\r\n")))
    return Overview(
        at_s=at_s,
        sent=sent,
        failed=failed,
        steps=steps,
        in_flight=in_flight(status),
        dict_free_bytes=dict_free_bytes(status),
        items=items,
        items_bytes=items_bytes,
        redis_bytes=redis_used_bytes(_asked(lambda: stage.redis_command("INFO", "memory"))),
        keys=redis_keys(_asked(lambda: stage.redis_command("DBSIZE"))),
    )


def _asked(ask: Callable[[], bytes]) -> bytes:
    try:
        return ask()
    except (OSError, ProgramError):
        return b""
