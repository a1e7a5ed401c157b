"""Leader election: take the lease, renew it, and notice that it is lost.

One `step` each third of a lease: a standby asks whether the lease is free, the
leader renews it. The lease counts from before the request that took it, on
this machine's own clock. So it ends here before it ends in Redis.

A leader whose lease ran out without an answer (Redis is unreachable, or this
process was paused) is *uncertain*. It asks Redis before anything else. While
Redis does not answer, it goes on, because no other controller can take the
lease either. The exception is a Redis that is unreachable from this machine
alone. Then Memcached has a table of a higher term, and the tick loop, which
reads before it publishes, ends this lead. A Redis that answers but takes no
writes (a replica, or its disk is full) is the same case: the lease runs out
there, and no controller can take it.

A wiped store has lost the last leader and all declarations. The last leader
still has them, so it takes the lease at once. The others wait for it, for
`PATIENCE_LEASES`, because they would begin without any upstream.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from steelyard_controller.faults import Faults
from steelyard_controller.store.interface import Store, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.saved_state import NewerVersion

log = logging.getLogger("steelyard.controller")

# One lease for the last leader to notice, at one of its steps; one more for a slow start of Redis.
PATIENCE_LEASES = 2

# A controller that fails to take over leaves the lease to others for this long.
REST_LEASES = 2


class Election:
    """This controller as a candidate; `clock` is monotonic and counts on while the process is stopped."""

    def __init__(
        self,
        store: Store,
        *,
        holder: str,
        boot: str,
        url: str,
        lease_s: float,
        clock: Callable[[], float],
        unix: Callable[[], float],
        faults: Faults,
    ) -> None:
        self._store = store
        self._holder = holder
        self._boot = boot
        self._url = url
        self._lease_s = lease_s
        self._clock = clock
        self._unix = unix
        self._faults = faults
        self._lease: Lease | None = None
        self._seen: Lease | None = None
        self._until_s = 0.0
        self._asked_s = -math.inf
        self._rest_until_s = 0.0
        self._empty_since_s: float | None = None
        self._highest = 0
        self._own_term = 0
        self._stepping = asyncio.Lock()

    @property
    def lease(self) -> Lease | None:
        """Return this controller's lease; None while it does not lead."""
        return self._lease

    @property
    def seen(self) -> Lease | None:
        """Return the leader's lease as last seen, this controller's or another's; None: none, or unknown."""
        return self._seen

    @property
    def certain(self) -> bool:
        """Return whether no other controller can have the lease now."""
        return self._lease is not None and (self._store.volatile or self._clock() < self._until_s)

    @property
    def left_s(self) -> float | None:
        """Return the seconds for which the lease is certain; None: there is none."""
        return None if self._lease is None else max(0.0, self._until_s - self._clock())

    @property
    def is_due(self) -> bool:
        """Return whether a third of a lease or more has passed since the last step."""
        return self._clock() - self._asked_s >= self._lease_s / 3

    async def step(self, above: Callable[[], Awaitable[int]]) -> None:
        """Take or renew the lease; `above` returns the highest term in use."""
        async with self._stepping:
            try:
                await self._keep_or_ask(above)
            except (Unavailable, NewerVersion) as error:
                self._faults.note("state", str(error))
            else:
                self._faults.note("state", None)
            self._asked_s = self._clock()

    def drop(self, why: str, *, rest: bool = False) -> None:
        """Stop leading; with `rest`, leave the lease to others for `REST_LEASES`."""
        if self._lease is not None:
            log.warning(
                "term %d is over: %s; this controller publishes nothing more", self._lease.term, why,
                extra={"event": "stepped_down", "term": self._lease.term},
            )  # fmt: skip
        if rest:
            self._rest_until_s = self._clock() + REST_LEASES * self._lease_s
        self._lease = self._seen = None

    async def release(self) -> None:
        """Release the lease, so that a standby need not wait until it expires."""
        async with self._stepping:
            lease, self._lease, self._seen = self._lease, None, None
            if lease is not None:
                try:
                    await self._store.release(lease)
                except Unavailable:
                    return
                log.info("term %d released", lease.term, extra={"event": "released", "term": lease.term})

    async def _keep_or_ask(self, above: Callable[[], Awaitable[int]]) -> None:
        lease, began_s = self._lease, self._clock()
        if lease is not None:
            kept = await self._store.renew(lease, lease_s=self._lease_s)
            # `drop` may have been called during the request.
            if self._lease is lease and kept:
                self._until_s = began_s + self._lease_s
                return
        # A lost lease is dropped when its new holder is known, or it is taken again. If it has run out and
        # the store takes no writes, this raises. Then no other controller can take it: the leader goes on.
        await self._ask(above, lost=lease)

    async def _ask(self, above: Callable[[], Awaitable[int]], *, lost: Lease | None) -> None:
        leader = await self._store.leader()
        if leader is not None and self._is_ours(leader):
            # It was dropped here but has not expired there. Leading again needs a new term, so release it.
            await self._store.release(leader)
            leader = None
        if leader is None and self._clock() >= self._rest_until_s:
            leader = await self._take(max(self._highest, await above()))
        if lost is not None and self._lease is lost:
            self.drop("the lease was lost")
        if leader is not None:
            self._highest = max(self._highest, leader.term)
        is_news = self._seen is None or leader is None or self._seen.term != leader.term
        if leader is not None and self._lease is None and is_news:
            log.info(
                "standing by: %s leads (term %d, %s)", leader.holder, leader.term, leader.url,
                extra={"event": "standby", "term": leader.term, "leader": leader.holder},
            )  # fmt: skip
        self._seen = leader

    async def _take(self, highest: int) -> Lease | None:
        began_s = self._clock()
        draft = Lease(holder=self._holder, boot=self._boot, url=self._url, term=int(self._unix()))
        lease = await self._store.acquire(
            draft, lease_s=self._lease_s, above=highest, patient=self._is_patient(highest, began_s)
        )
        if lease is None and self._empty_since_s is None:
            self._empty_since_s = began_s
            log.warning(
                "the state store is empty, although term %d was led: the last leader has %g s to refill it",
                highest, PATIENCE_LEASES * self._lease_s, extra={"event": "empty_store"},
            )  # fmt: skip
        elif lease is not None:
            self._empty_since_s = None
            if self._is_ours(lease):
                self._until_s = began_s + self._lease_s
                self._own_term = lease.term
                self._lease = lease
        return lease

    def _is_patient(self, highest: int, now_s: float) -> bool:
        if self._own_term >= highest:
            return False  # No other controller has led since, or none ever has.
        since_s = self._empty_since_s
        return since_s is None or now_s - since_s < PATIENCE_LEASES * self._lease_s

    def _is_ours(self, lease: Lease) -> bool:
        return (lease.holder, lease.boot) == (self._holder, self._boot)
