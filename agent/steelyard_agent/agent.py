"""One tick: read, sample, send, show; and the last sample of an agent that ends. `loop` decides when.

I/O comes in as arguments: the reader, the pool, the outputs, the clocks. This
module keeps the last good reading, and nothing else.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from steelyard_protocol.memcached_writer import MemcachedWriter
from steelyard_protocol.sample_record import SampleRecord

from steelyard_agent import sample
from steelyard_agent.evidence import Evidence
from steelyard_agent.outputs import orca_report
from steelyard_agent.outputs.metrics import Status
from steelyard_agent.record_stream import RecordStream
from steelyard_agent.sample import Indicators, Sample
from steelyard_agent.scopes.cgroup import CgroupReading
from steelyard_agent.scopes.process import ProcessReading
from steelyard_agent.scopes.reading import Absent, Reading, sample_between

log = logging.getLogger(__name__)

Reader = Callable[[], Reading | Absent]

Further = Callable[[], Sequence[Evidence]]
"""Returns the newest of the application's own indicators, without waiting."""


class Sampler:
    """Turns readings into samples, and logs when the watched program ends, appears or restarts.

    `absent` is why the last step had no reading, or None.
    """

    def __init__(self, read: Reader, limits: Indicators, further: Further = lambda: ()) -> None:
        self._read = read
        self._limits = limits
        self._further = further
        self._before: Reading | None = None
        self.absent: Absent | None = None
        self._root: tuple[int, float] | None = None
        self._group: tuple[object, ...] | None = None
        self._began_at_s: float | None = None

    def step(self) -> Sample | None:
        """Return the sample since the last step; None at the first step and without a reading."""
        now = self._read()
        if isinstance(now, Absent):
            if now != self.absent:
                log.warning("%s: no samples until it is there", now.why)
            self._before, self.absent = None, now
            return None
        if isinstance(now, ProcessReading):
            self._announce(now)
        elif isinstance(now, CgroupReading) and self.absent is not None:
            log.info("watching %s", now.name)
        up_s = self._up_s(now)
        before, self._before, self.absent = self._before, now, None
        taken = sample_between(before, now, self._limits) if before is not None else None
        if taken is None:
            return None
        return replace(sample.with_further(taken, self._further()), up_s=up_s)

    def _up_s(self, now: Reading) -> float | None:
        """Return the uptime of the sampled program; for a group that replaced another, since then."""
        if isinstance(now, CgroupReading) and now.up_s is None:
            if self._group not in {None, now.identity}:
                self._began_at_s = now.at_s
            self._group = now.identity
            return None if self._began_at_s is None else now.at_s - self._began_at_s
        return now.up_s

    def _announce(self, now: ProcessReading) -> None:
        if now.root != self._root or self.absent is not None:
            again = " again" if now.root == self._root else ", which was restarted" if self._root else ""
            log.info("watching process %d (%s)%s", now.root_pid, now.name, again)
            self._root = now.root


class Agent:
    """One server's samples on their way to the pool.

    `clock` is monotonic; `last` is the last sample. A status is stale after `stale_s`.
    """

    def __init__(
        self,
        sampler: Sampler,
        stream: RecordStream,
        pool: MemcachedWriter,
        *,
        interval_s: float,
        stale_s: float,
        clock: Callable[[], float],
        show: Sequence[Callable[[Status], None]] = (),
        registered: Callable[[], bool | None] = lambda: None,
        application: Callable[[], orca_report.LoadReport] = dict,
    ) -> None:
        self._sampler = sampler
        self._stream = stream
        self._pool = pool
        self.interval_s = interval_s
        self._stale_s = stale_s
        self._clock = clock
        self._show = show
        self._registered = registered
        self._application = application
        self.name = stream.name
        # The sample of an agent that leaves before its first measurement.
        self.last = Sample(interval_s=interval_s, utilization=sample.NOTHING, capacity=sample.NOTHING)
        self._delivered = 0
        self._dropped = 0

    @property
    def seq(self) -> int:
        """Return the number of the last record."""
        return self._stream.seq

    def tick(self) -> SampleRecord | None:
        """Take a sample, send it and show it; return the record, or None without a sample."""
        taken = self._sampler.step()
        if taken is not None:
            self.last = taken
        sent = self._send(taken) if taken is not None else None
        if self._show:
            status = Status(
                at_s=self._clock(),
                stale_s=self._stale_s,
                record=sent,
                delivered=self._delivered,
                dropped=self._dropped,
                reachable=self._pool.reachable,
                registered=self._registered(),
                application=self._application(),
            )
            for show in self._show:
                show(status)
        return sent

    def leave(self) -> SampleRecord:
        """Send a last sample marked as leaving: a fresh one, or else the previous one."""
        return self._send(self._sampler.step() or self.last, leaving=True)

    def _send(self, taken: Sample, *, leaving: bool = False) -> SampleRecord:
        sent, value = self._stream.next(taken, leaving=leaving)
        if self._pool.put_many({self._stream.at: value}):
            self._delivered += 1
        elif self._pool.reachable:  # it has a server
            self._dropped += 1
        return sent
