"""A controller in this process for the tests of its API: a real service, a store in memory, no Memcached."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from steelyard_controller.api.app import create
from steelyard_controller.api.tokens import access
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.discovery.discovery import Discovery
from steelyard_controller.faults import Faults
from steelyard_controller.instruments import Instruments
from steelyard_controller.leader.election import Election
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.service import Service
from steelyard_controller.store.interface import Store
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_controller.tick.tick_loop import TickLoop
from steelyard_protocol.memcached_pool import MemcachedPool

from testing.waiting import wait_until

from ..session import no_names

ADMIN = "admin-token-of-the-tests"
AGENT = "agent-token-of-the-tests"
READ = "read-token-of-the-tests"

# Nothing listens there, and no unprivileged process can.
NO_MEMCACHED = "127.0.0.1:1"

WEB: dict[str, Any] = {
    "parameters": {"H": 0.3},
    "shadows": {"paper": {}},
    "peers": [
        {"id": "server-1", "address": "10.0.0.11:80", "baseline": 1},
        {"id": "server-2", "address": "10.0.0.12:80", "baseline": 2},
    ],
}


class Standby(Service):
    """A service on standby, with a leader that does not exist; without a lease it waits. It has no store."""

    lease: Lease | None = Lease(holder="one", boot="b", url="http://127.0.0.1:1", term=1)

    @property
    def leader(self) -> Lease | None:
        """Return the test's lease."""
        return self.lease

    @property
    def role(self) -> Any:
        """Return the role under that lease."""
        return "standby" if self.lease else "waiting"


def service_of(
    *,
    store: Store | None = None,
    id: str = "one",
    memcached: str = NO_MEMCACHED,
    upstreams: Sequence[str] = ("web",),
    discovery_of: Callable[[Faults], Discovery] | None = None,
) -> Service:
    """Return a service that is not running yet."""
    faults, store = Faults(), MemoryStore() if store is None else store
    pipeline = MemcachedPool(memcached)
    return Service(
        id=id,
        loop=TickLoop(
            pipeline=pipeline, store=store, tick_s=0.05, history_s=60, keys=Keyring(), faults=faults
        ),
        election=Election(
            store,
            holder=id,
            boot="boot",
            url="http://127.0.0.1:8081",
            lease_s=3.0,
            clock=time.monotonic,
            unix=time.time,
            faults=faults,
        ),
        store=store,
        faults=faults,
        file={name: Upstream.model_validate(WEB) for name in upstreams},
        tick_s=0.05,
        lease_s=3.0,
        version="0.1.0",
        instruments=Instruments("0.1.0"),
        addresses=no_names,
        discovery=None if discovery_of is None else discovery_of(faults),
    )


@contextlib.contextmanager
def serving(
    *,
    service: Service | None = None,
    client: str = "127.0.0.1",
    base_url: str = "http://127.0.0.1:8081",
    tokens: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[TestClient]:
    """Yield a client of a running controller that leads and has had its first tick.

    Without `tokens` the controller makes one, and the client sends it.
    """
    service = service_of() if service is None else service
    known = access(generated=ADMIN) if tokens is None else access(**tokens)
    app = create(service, lifespan=_running(service), access=known, **options)
    headers = bearer(ADMIN) if tokens is None else {}
    with TestClient(app, base_url=base_url, client=(client, 50_000), headers=headers) as api:
        wait_until(lambda: api.get("/readyz").status_code == 200)
        yield api


def bearer(token: str) -> dict[str, str]:
    """Return the header with a token."""
    return {"Authorization": f"Bearer {token}"}


def _running(service: Service) -> Any:
    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(service.run())
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    return lifespan
