"""The loop: read, sample, send, wait. A tick can be called alone.

I/O comes in as arguments: the reader, the stores, the clocks, and the wait that
a signal ends. The last good reading is kept here; all else is in the modules it calls.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from steelyard_agent import record, sample, schedule, signature, wire
from steelyard_agent.reading import Absent, ProcessReading, Reading
from steelyard_agent.record import SampleRecord
from steelyard_agent.sample import Indicators, Sample

log = logging.getLogger(__name__)

Reader = Callable[[], Reading | Absent]


class Puts(Protocol):
    """Where records go."""

    def put(self, key: str, value: bytes) -> bool:
        """Store a value; tell whether it was taken."""
        ...


class Sampler:
    """Turns readings into samples, and logs when what is watched goes, comes or is restarted."""

    def __init__(self, read: Reader, limits: Indicators) -> None:
        self._read = read
        self._limits = limits
        self._before: Reading | None = None
        self._absent: Absent | None = None
        self._root: tuple[int, float] | None = None

    def step(self) -> Sample | None:
        """Return the sample since the last step; None at the first and while there is nothing to sample."""
        now = self._read()
        if isinstance(now, Absent):
            if now != self._absent:
                log.warning("%s: no samples until it is there", now.why)
            self._before, self._absent = None, now
            return None
        if isinstance(now, ProcessReading):
            self._announce(now)
        before, self._before, self._absent = self._before, now, None
        return sample.take(before, now, self._limits) if before is not None else None

    @property
    def absent(self) -> Absent | None:
        """Return why there was nothing to sample at the last step, if so."""
        return self._absent

    def _announce(self, now: ProcessReading) -> None:
        if now.root != self._root or self._absent is not None:
            again = " again" if now.root == self._root else ", which was restarted" if self._root else ""
            log.info("watching process %d (%s)%s", now.root_pid, now.name, again)
            self._root = now.root


class Agent:
    """One server's samples on their way to the stores, signed if there is a key.

    `wall_clock` is seconds since 1970, for people.
    """

    def __init__(
        self,
        sampler: Sampler,
        stores: Sequence[Puts],
        *,
        upstream: str,
        peer: str,
        scope: str,
        boot: str,
        interval_s: float,
        wall_clock: Callable[[], float],
        key: bytes | None = None,
    ) -> None:
        self._sampler = sampler
        self._stores = stores
        self._upstream = upstream
        self._peer = peer
        self._scope = scope
        self._boot = boot
        self._wall_clock = wall_clock
        self._key = key
        # What is sent by an agent that leaves before it measured anything.
        self._last = Sample(interval_s=interval_s, utilization=sample.NOTHING, capacity=sample.NOTHING)
        self._seq = 0

    def tick(self) -> SampleRecord | None:
        """Take a sample and send it; return what was sent, None when there was nothing to."""
        taken = self._sampler.step()
        if taken is None:
            return None
        self._last = taken
        return self._send(taken)

    def leave(self) -> SampleRecord:
        """Send a last sample that says so: a fresh one, or else the last that could be taken."""
        return self._send(self._sampler.step() or self._last, leaving=True)

    def _send(self, taken: Sample, *, leaving: bool = False) -> SampleRecord:
        self._seq += 1
        sent = SampleRecord(
            upstream=self._upstream,
            peer=self._peer,
            boot=self._boot,
            seq=self._seq,
            taken_at_ms=int(self._wall_clock() * 1000),
            interval_s=round(taken.interval_s, 6),
            utilization=_columns(taken.utilization, decimals=6),
            capacity=_columns(taken.capacity, decimals=3),
            scope=self._scope,
            leaving=leaving,
        )
        text = record.encode(sent)
        log.debug("%s", text.decode())
        value = text if self._key is None else signature.sign(self._key, text)
        for store in self._stores:
            store.put(wire.sample_key(self._upstream, self._peer), value)
        return sent


def run(
    agent: Agent, *, interval_s: float, clock: Callable[[], float], wait: Callable[[float], bool]
) -> None:
    """Tick at every interval until `wait` (for so many seconds) says that a signal came; then leave."""
    start_s = clock()
    tick = 0
    agent.tick()
    while True:
        tick = schedule.following(tick, clock() - start_s, interval_s)
        if wait(max(0.0, start_s + tick * interval_s - clock())):
            agent.leave()
            return
        agent.tick()


def _columns(values: Indicators, *, decimals: int) -> tuple[float | None, ...]:
    # In the order of record.INDICATORS; a microshare is beyond what any reader resolves.
    columns = (values.cpu, values.net, values.io, values.mem)
    return tuple(None if value is None else round(value, decimals) for value in columns)
