"""The Memcached and the Redis of a comparison."""

import os
import shutil
from pathlib import Path

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError
from steelyard_agent import wire

from steelyard_loadtest.lab.rig import commands
from steelyard_loadtest.lab.rig.place import UPSTREAM, Place
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.process import Process

ANSWER_S = 2.0
"""Both answer within a millisecond, on a busy machine within some."""


def start_memcached(place: Place) -> Process:
    """Start Memcached. Raises SetupError."""
    program = place.found.memcached
    if program is None:
        raise SetupError("memcached is not installed (apt-get install memcached)")
    command = commands.memcached(program, place.memcached_port, root=os.geteuid() == 0)
    return Process(command, place.folder / "memcached.log")


def start_redis(place: Place) -> Process:
    """Start Redis. Raises SetupError."""
    program = shutil.which("redis-server")
    if program is None:
        raise SetupError("redis-server is not installed (apt-get install redis-server)")
    folder: Path = place.folder
    return Process(commands.redis(program, place.redis_port, folder), folder / "redis.log")


def without_sample(names: list[str], memcached_port: int) -> list[str]:
    """Return those of the servers that have no sample in Memcached."""
    keys = {wire.sample_key(UPSTREAM, name): name for name in names}
    client = Client((commands.HOST, memcached_port), connect_timeout=ANSWER_S, timeout=ANSWER_S)
    try:
        there = client.get_many(list(keys))
    except (OSError, MemcacheError):
        return names
    finally:
        client.close()
    return [name for key, name in keys.items() if key not in there]
