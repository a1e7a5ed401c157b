"""A server at work: the stages a request goes through, and what an agent would measure of it.

Pure but for the generators passed in.
"""

from collections.abc import Callable
from random import Random

from steelyard_loadtest.simulate.engine import Engine
from steelyard_loadtest.simulate.model import Draw, Server, Work
from steelyard_loadtest.simulate.request import Request
from steelyard_loadtest.simulate.speed import Speed, idle_utilization
from steelyard_loadtest.simulate.stations import Delay, Queue, Sharing, Station

UNITY = Speed(Server())
"""I/O channels know no speed of their own: their work is their time."""


class Site:
    """One server of a running simulation; `answered(now_s, request)` is called when one is served.

    `speed` and what `drawn` returns for a `Draw` may be shared with servers that are alike.
    """

    __slots__ = (
        "_answered", "_busy_before_s", "_cpu", "_engine", "_io", "_io_before_s", "_random", "_sampled_s",
        "_server", "_stages",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        server: Server,
        work: Work,
        random: Random,
        answered: Callable[[float, Request], object],
        *,
        speed: Speed,
        drawn: Callable[[Draw], Callable[[], float]],
    ) -> None:
        self._engine, self._server, self._random, self._answered = engine, server, random, answered
        cores = Queue if server.discipline == "fcfs" else Sharing
        self._cpu: Station = cores(engine, speed, server.cores, self._advance)
        self._io: Station = Queue(engine, UNITY, server.io_channels, self._advance)
        delay = Delay(engine, self._advance)
        stages: list[tuple[Station, Draw]] = [
            (self._cpu, work.cpu), (self._io, work.io), (delay, work.latency), (delay, server.latency),
        ]  # fmt: skip
        self._stages = [(station.enter, drawn(draw)) for station, draw in stages if draw.mean_s > 0]
        self._sampled_s = self._busy_before_s = self._io_before_s = 0.0

    @property
    def entrance(self) -> Callable[[float, Request], object]:
        """What takes a request: `entrance(now_s, request)`."""
        return self._enter if self._server.failing else self._advance

    def _enter(self, now_s: float, request: Request) -> None:
        for failing in self._server.failing:
            if failing.start_s <= now_s < failing.end_s and self._random.random() < failing.part:
                request.ok = False
                self._engine.at(now_s + failing.after_s, self._answered, request)
                return
        self._advance(now_s, request)

    def _advance(self, now_s: float, request: Request) -> None:
        stage = request.stage
        if stage == len(self._stages):
            self._answered(now_s, request)
            return
        request.stage = stage + 1
        enter, work_s = self._stages[stage]
        enter(now_s, request, work_s())

    def sample(self, now_s: float) -> tuple[float, float, float, float]:
        """Return the utilization since the last sample: cpu, net, io, mem.

        A core that a neighbour shares is busy while it serves a request and, to the neighbour's
        `idle_utilization`, while it does not. The network carries nothing in the model: 0.
        """
        window_s = now_s - self._sampled_s
        if window_s <= 0:
            return (0.0, 0.0, 0.0, self._server.memory_utilization)
        busy_s, io_s = self._cpu.busy_s(now_s), self._io.busy_s(now_s)
        own = (busy_s - self._busy_before_s) / (window_s * self._server.cores)
        io = (io_s - self._io_before_s) / (window_s * self._server.io_channels)
        neighbours = idle_utilization(self._server, self._sampled_s, now_s)
        self._sampled_s, self._busy_before_s, self._io_before_s = now_s, busy_s, io_s
        return (own + (1.0 - own) * neighbours, 0.0, io, self._server.memory_utilization)
