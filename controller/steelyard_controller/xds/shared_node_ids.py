"""Node ids that Envoys here share with other programs, on a controller that does not lead. I/O only.

The leader names such a fault for every load balancer. A person who looks at the controller that an Envoy
reports to finds it there, too.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection

from steelyard_protocol import balancer_runs, wire
from steelyard_protocol.memcached_client import Unavailable
from steelyard_protocol.memcached_pool import MemcachedPool

from steelyard_controller.messages.balancers_of_one_name import SharedNames
from steelyard_controller.service import Service
from steelyard_controller.xds.load_stats import INTERVAL_S

log = logging.getLogger("steelyard.controller")


class SharedNodeIds:
    """Looks for the names of `own`, the Envoys that report here, until cancelled."""

    def __init__(self, service: Service, *, memcached: str, own: Callable[[], Collection[str]]) -> None:
        self._service = service
        self._own = own
        self._pool = MemcachedPool(memcached)
        self._names = SharedNames()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    async def run(self) -> None:
        """Look once a second until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            if self._service.role == "leader":
                self._names = SharedNames()  # Its ticks note the fault.
                continue
            try:
                await self._look()
            except Exception:
                log.exception("the runs of load balancers could not be read")

    async def _look(self) -> None:
        own, values = self._own(), list[bytes]()
        if own:
            try:
                seen = await self._pool.seen([wire.RUNS_KEY])
            except Unavailable:
                return  # It is a fault of its own; the next turn looks again.
            values = [each[wire.RUNS_KEY].value for each in seen.values() if wire.RUNS_KEY in each]
        lines = (run for run in balancer_runs.read(values) if run.lb in own)
        self._names = self._names.after(lines, time.monotonic())
        if self._service.role != "leader":
            self._service.faults.note("load balancers", self._names.fault)
