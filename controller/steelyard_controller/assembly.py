"""Puts a controller together from its settings: pipeline, store, leadership, loop, service."""

import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from steelyard_controller import __version__
from steelyard_controller.credentials import Credentials
from steelyard_controller.faults import Faults
from steelyard_controller.leading.leadership import Leadership
from steelyard_controller.loop import Loop
from steelyard_controller.names.naming import Naming
from steelyard_controller.names.resolve import Resolver
from steelyard_controller.pipeline.memcached import Memcached
from steelyard_controller.service import Service
from steelyard_controller.settings import Settings
from steelyard_controller.state.memory_store import InMemory
from steelyard_controller.state.redis_store import Redis
from steelyard_controller.state.store import Store


@asynccontextmanager
async def controller(settings: Settings, known: Credentials) -> AsyncIterator[Service]:
    """Yield a controller that does nothing yet; close its connections at the end of the block."""
    faults = Faults()
    pipeline = Memcached(settings.memcached)
    store = _store(settings.state_url, known.state_password)
    loop = Loop(
        pipeline=pipeline,
        store=store,
        tick_s=settings.tick_s,
        history_s=settings.history_s,
        key=known.key,
        faults=faults,
    )
    naming = Naming(Resolver(), faults_of=loop.faults_of, clock=time.monotonic)
    name = settings.id or f"{socket.gethostname()}-{settings.api_port}"
    try:
        yield Service(
            id=name,
            loop=loop,
            leadership=_leadership(settings, store, faults, name),
            store=store,
            faults=faults,
            file=settings.upstreams,
            tick_s=settings.tick_s,
            lease_s=settings.lease_s,
            version=__version__,
            addresses=naming.addresses,
        )
    finally:
        await naming.close()
        pipeline.close()
        await store.close()


def in_url(address: str) -> str:
    """Return an address as it stands in a URL: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def _leadership(settings: Settings, store: Store, faults: Faults, name: str) -> Leadership:
    return Leadership(
        store,
        holder=name,
        boot=secrets.token_hex(4),
        url=settings.advertise_url or _own_url(settings),
        lease_s=settings.lease_s,
        # Runs on while this process is stopped or the machine sleeps, as the lease in Redis does.
        clock=lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        unix=time.time,
        faults=faults,
    )


def _own_url(settings: Settings) -> str:
    """Return how others reach this API; one that listens everywhere is reached by the machine's name."""
    everywhere = settings.api_host in {"", "0.0.0.0", "::"}  # noqa: S104
    host = socket.gethostname() if everywhere else in_url(settings.api_host)
    return f"http://{host}:{settings.api_port}"


def _store(url: str, password: str | None) -> Store:
    return InMemory() if url.startswith("memory://") else Redis(url, password=password)
