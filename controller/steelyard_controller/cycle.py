"""One upstream's loop: read, assemble, decide, publish, remember; then wait for the next tick.

The order within a tick is fixed: everything is read into an immutable
snapshot, the law decides on that alone, then the table is written. Each side
of a tick may fail by itself: with Memcached away the law still steps (and
learns nothing), with Redis away the loop goes on from memory.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from steelyard_agent import signature, wire
from steelyard_agent.wire import Refused

from steelyard_controller import intake as intakes
from steelyard_controller import laws, memcached, state, weight_table
from steelyard_controller.assemble import assemble
from steelyard_controller.blend import blend, step_all
from steelyard_controller.intake import Intake
from steelyard_controller.memcached import Memcached
from steelyard_controller.outcome import Outcome
from steelyard_controller.saved import Saved
from steelyard_controller.tabulate import tabulate
from steelyard_controller.upstream import Upstream
from steelyard_controller.weight_table import WeightTable

log = logging.getLogger("steelyard.controller")

# A table outlives its controller by this long, so that a new leader can read the order from it.
TABLE_TTL_S = 86_400


class Cycle:
    """The control loop of one upstream; `tick` may be called alone.

    With a `key`, all that is read from Memcached must be signed, and the table is.
    """

    def __init__(
        self,
        name: str,
        upstream: Upstream,
        *,
        pipeline: Memcached,
        store: state.Store,
        tick_s: float,
        key: bytes | None = None,
    ) -> None:
        self.name = name
        self.upstream = upstream
        self.outcome: Outcome | None = None
        self.overruns = 0
        self._pipeline = pipeline
        self._store = store
        self._tick_s = tick_s
        self._key = key
        self._laws = upstream.made_laws()
        self._memories: Mapping[str, laws.Memory] = {}
        self._intake = Intake()
        self._term = 0
        self._generation = 0
        self._faults: dict[str, str] = {}

    async def start(self, *, unix_s: int) -> None:
        """Choose the term, and take up the memory of the controller before.

        The term is one more than any that Redis or Memcached knows. Where Redis
        has been wiped it is the time in seconds, if that is more: larger than
        any term counted up from an earlier start, so that the order never goes
        backwards and the data plane need not forget what it has seen. Memcached
        alone is not asked, because what lies there may have been put back: an
        old table is signed as well as a new one.
        """
        saved = await self._load()
        published = await self._published()
        known = [found for found in (saved, published) if found is not None]
        self._term = max([found.term + 1 for found in known] + ([unix_s] if saved is None else []))
        self._generation = max((found.generation for found in known), default=0)
        if saved is not None:
            found = {
                name: laws.decode_memory(law, saved.memories.get(name)) for name, law in self._laws.items()
            }
            self._memories = {name: memory for name, memory in found.items() if memory is not None}
            for name in self._laws:
                how = (
                    "goes on from its saved memory"
                    if name in self._memories
                    else "starts with nothing learnt"
                )
                log.info("%s: law %s %s (term %d)", self.name, name, how, self._term)

    async def tick(self, now_s: float) -> Outcome:
        """Do one tick; `now_s` is this process's monotonic clock."""
        before = self._intake
        self._intake = await self._look(now_s)
        for line in intakes.changes(before, self._intake):
            log.warning("%s: %s", self.name, line)
        snapshot = assemble(self._intake, self.upstream.peers, now_s=now_s, tick_s=self._tick_s)
        stepped = step_all(self._laws, self._memories, snapshot)
        self._memories = stepped.memories
        decision = stepped.decisions[self.upstream.law]
        if self.upstream.blend is not None:
            migration = self.upstream.blend
            decision = blend(decision, stepped.decisions[migration.law], migration.percent)
        self._generation += 1
        table = tabulate(
            decision,
            self.upstream,
            name=self.name,
            term=self._term,
            generation=self._generation,
            issued_at_ms=time.time_ns() // 1_000_000,
        )
        await self._publish(table)
        await self._save()
        self.outcome = Outcome(
            table=table,
            decision=decision,
            shadows={name: stepped.decisions[name] for name in self.upstream.shadows},
            snapshot=snapshot,
            intake=self._intake,
            now_s=now_s,
            degraded=tuple(f"{part}: {fault}" for part, fault in self._faults.items()),
        )
        return self.outcome

    async def run(self) -> None:
        """Tick for ever, on a schedule without drift; ticks that were overrun are skipped and counted."""
        next_s = time.monotonic()
        while True:
            try:
                await self.tick(time.monotonic())
            except Exception:
                # The loop must outlive a mistake of ours: the last table holds, the next tick tries again.
                log.exception("%s: this tick failed; the last table holds", self.name)
            next_s += self._tick_s
            late_s = time.monotonic() - next_s
            if late_s > 0:
                missed = int(late_s / self._tick_s) + 1
                self.overruns += missed
                next_s += missed * self._tick_s
                log.warning("%s: a tick took %.2f s too long, %d skipped", self.name, late_s, missed)
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))

    async def _look(self, now_s: float) -> Intake:
        samples = {peer.id: wire.sample_key(self.name, peer.id) for peer in self.upstream.peers}
        reports = {lb: wire.traffic_key(self.name, lb) for lb in self.upstream.load_balancers}
        try:
            found = await self._pipeline.get_many([*samples.values(), *reports.values()])
        except memcached.Unavailable:
            return replace(self._intake, refusals={})
        finally:
            self._note_servers()
        return intakes.take(
            self._intake,
            now_s,
            upstream=self.name,
            samples={peer: found.get(key) for peer, key in samples.items()},
            reports={lb: found.get(key) for lb, key in reports.items()},
            key=self._key,
        )

    async def _publish(self, table: WeightTable) -> None:
        try:
            text = weight_table.encode(table)
            value = text if self._key is None else signature.sign(self._key, text)
            await self._pipeline.set(wire.weights_key(self.name), value, ttl_s=TABLE_TTL_S)
        except (memcached.Unavailable, weight_table.TableTooLarge) as error:
            self._fault("publishing", str(error))
        else:
            self._fault("publishing", None)

    async def _save(self) -> None:
        memories = {name: laws.encode_memory(name, memory) for name, memory in self._memories.items()}
        saved = Saved(term=self._term, generation=self._generation, memories=memories)
        try:
            await self._store.save(self.name, saved)
        except state.Unavailable as error:
            self._fault("state", str(error))
        else:
            self._fault("state", None)

    async def _load(self) -> Saved | None:
        try:
            return await self._store.load(self.name)
        except state.Unavailable as error:
            self._fault("state", str(error))
            return None

    async def _published(self) -> WeightTable | None:
        key = wire.weights_key(self.name)
        try:
            value = (await self._pipeline.get_many([key])).get(key)
        except memcached.Unavailable:
            self._note_servers()
            return None
        if value is None:
            return None
        table = signature.read(self._key, value, weight_table.decode)
        if not isinstance(table, Refused) and table.upstream != self.name:
            table = Refused("name", f"the key holds the table of {table.upstream}")
        if isinstance(table, Refused):
            self._intake = intakes.count(self._intake, table)
            log.warning("%s: the published weight table is %s; its order is not taken up", self.name, table)
            return None
        return table

    def _note_servers(self) -> None:
        for server, fault in self._pipeline.faults.items():
            self._fault(f"memcached {server}", fault)

    def _fault(self, part: str, fault: str | None) -> None:
        if fault is None:
            if self._faults.pop(part, None) is not None:
                log.info("%s: %s works again", self.name, part)
        else:
            if part not in self._faults:
                log.warning("%s: %s: %s; the loop goes on", self.name, part, fault)
            self._faults[part] = fault
