"""A server at work: its speed over time, a request's stages, an agent's measurements.

Pure but for the generators passed in.

The speed is piecewise constant and known in advance; a neighbour's share and a capacity step both change it.
Work that runs while the speed changes is integrated across the change, so a job's end is known when it
starts.

A queue takes a request and its work in seconds at speed 1, and calls `leave(now_s, request)` when it is done.
`busy_s(now_s)` are the core seconds in which it served something since the start.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random

from steelyard_simulator.balancer import Request
from steelyard_simulator.engine import Engine, Rate
from steelyard_simulator.model import Draw, Server, Step, Work

# A server without any CPU left would never end a job; a thousandth is effectively nothing.
SLOWEST_FACTOR = 1e-3

# Constant: memory is a stock, and the model has no law for it.
MEMORY_UTILIZATION = 0.3


def speed_of(server: Server) -> Rate:
    """Return the work done per second and core, by time."""
    return Rate((edge, speed_at(server, edge)) for edge in speed_edges(server))


def speed_edges(server: Server) -> list[float]:
    """Return the moments at which a server's capacity may change, from 0 on."""
    edges = {0.0, *(step.at_s for step in server.steps)}
    for background in server.background:
        edges.update((background.start_s, background.end_s))
    for failing in server.failing:
        edges.update((failing.start_s, failing.end_s))
    for stretch in server.away:
        edges.update(stretch)
    return sorted(edge for edge in edges if edge >= 0)


def idle_utilization(server: Server, start_s: float, end_s: float) -> float:
    """Return the utilization that neighbours add to an idle core, averaged over a window: 0..1."""
    if not server.background or end_s <= start_s:
        return 0.0
    busy_s = sum(
        background.idle_utilization
        * max(0.0, min(end_s, background.end_s) - max(start_s, background.start_s))
        for background in server.background
    )
    return min(1.0, busy_s / (end_s - start_s))


def speed_at(server: Server, when_s: float) -> float:
    """Return the work done per second and core at a time."""
    taken = sum(b.share for b in server.background if b.start_s <= when_s < b.end_s)
    return server.speed * max(factor_at(server.steps, when_s) * (1.0 - taken), SLOWEST_FACTOR)


def factor_at(steps: Iterable[Step], when_s: float) -> float:
    """Return the factor of the last step until then (the second of two at once); 1 before the first."""
    came = sorted((step for step in steps if step.at_s <= when_s), key=lambda step: step.at_s)
    return came[-1].factor if came else 1.0


def is_away(server: Server, when_s: float) -> bool:
    """Return whether the server is out of service at a time."""
    return any(start_s <= when_s < end_s for start_s, end_s in server.away)


def able_at(server: Server, work: Work, when_s: float) -> float:
    """Return a server's capacity at a time in such requests a second, with all cores and channels busy.

    Work that queues for nothing counts as a second of a core.
    """
    if is_away(server, when_s):
        return 0.0
    kept = 1.0 - sum(each.part for each in server.failing if each.start_s <= when_s < each.end_s)
    rates = [
        rate / draw.mean_s
        for rate, draw in ((server.cores * speed_at(server, when_s), work.cpu), (server.io_channels, work.io))
        if draw.mean_s > 0
    ]
    return kept * min(rates, default=server.cores * speed_at(server, when_s))


Leave = Callable[[float, Request], object]


class Queue:
    """First come, first served by `cores` cores; a job's end is known when it starts."""

    __slots__ = ("_busy", "_busy_s", "_changed_s", "_cores", "_end", "_engine", "_leave", "_waiting")

    def __init__(self, engine: Engine, speed: Rate, cores: int, leave: Leave) -> None:
        self._engine, self._end, self._cores, self._leave = engine, speed.end, cores, leave
        self._waiting: deque[tuple[Request, float]] = deque()
        self._busy, self._busy_s, self._changed_s = 0, 0.0, 0.0

    def enter(self, now_s: float, request: Request, work_s: float) -> None:
        if self._busy < self._cores:
            self._busy_s += self._busy * (now_s - self._changed_s)
            self._changed_s = now_s
            self._busy += 1
            self._engine.at(self._end(now_s, work_s), self._done, request)
        else:
            self._waiting.append((request, work_s))

    def _done(self, now_s: float, request: Request) -> None:
        if self._waiting:
            following, work_s = self._waiting.popleft()
            self._engine.at(self._end(now_s, work_s), self._done, following)
        else:
            self._busy_s += self._busy * (now_s - self._changed_s)
            self._changed_s = now_s
            self._busy -= 1
        self._leave(now_s, request)

    def busy_s(self, now_s: float) -> float:
        return self._busy_s + self._busy * (now_s - self._changed_s)


# I/O channels have no speed: their work is their time.
UNITY = speed_of(Server())


class SimulatedServer:
    """One server of a running simulation; `answered(now_s, request)` is called for each served request.

    Similar servers may share `speed` and the results of `drawn`.
    """

    __slots__ = (
        "_answered", "_busy_before_s", "_cpu", "_engine", "_io", "_io_before_s", "_random", "_sampled_s",
        "_server", "_stages", "draws_first",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        server: Server,
        work: Work,
        random: Random,
        answered: Callable[[float, Request], object],
        *,
        speed: Rate,
        drawn: Callable[[Draw], Callable[[], float]],
    ) -> None:
        self._engine, self._server, self._random, self._answered = engine, server, random, answered
        self._cpu = Queue(engine, speed, server.cores, self._advance)
        self._io = Queue(engine, UNITY, server.io_channels, self._advance)
        stages = (
            (self._cpu.enter, work.cpu), (self._io.enter, work.io),
            (self._delay, work.latency), (self._delay, server.latency),
        )  # fmt: skip
        self._stages = [(enter, drawn(draw)) for enter, draw in stages if draw.mean_s > 0]
        self.draws_first = self._stages[0][1] if self._stages else None
        self._sampled_s = self._busy_before_s = self._io_before_s = 0.0

    @property
    def entrance(self) -> Callable[[float, Request], object]:
        """The function that takes a request: `entrance(now_s, request)`."""
        return self._enter if self._server.failing or self._server.late else self._advance

    def _enter(self, now_s: float, request: Request) -> None:
        for failing in self._server.failing:
            if failing.start_s <= now_s < failing.end_s and self._random.random() < failing.part:
                request.ok = False
                self._engine.at(now_s + failing.after_s, self._answered, request)
                return
        by_s = sum(late.by_s for late in self._server.late if late.start_s <= now_s < late.end_s)
        if by_s > 0:
            self._delay(now_s, request, by_s)
        else:
            self._advance(now_s, request)

    def _delay(self, now_s: float, request: Request, work_s: float) -> None:
        self._engine.at(now_s + work_s, self._advance, request)

    def _advance(self, now_s: float, request: Request) -> None:
        stage = request.stage
        if stage == len(self._stages):
            self._answered(now_s, request)
            return
        request.stage = stage + 1
        enter, work_s = self._stages[stage]
        enter(now_s, request, work_s() if stage or request.cost is None else request.cost)

    def sample(self, now_s: float) -> tuple[float, float, float, float]:
        """Return the utilization since the last sample: cpu, net, io, mem.

        A core that a neighbour shares is busy while it serves a request. Otherwise it is busy by the
        neighbour's `idle_utilization`. The network carries nothing in the model: 0.
        """
        window_s = now_s - self._sampled_s
        if window_s <= 0:
            return (0.0, 0.0, 0.0, MEMORY_UTILIZATION)
        cpu, busy_s = self.cpu_between(self._sampled_s, self._busy_before_s, now_s)
        io_s = self._io.busy_s(now_s)
        io = (io_s - self._io_before_s) / (window_s * self._server.io_channels)
        self._sampled_s, self._busy_before_s, self._io_before_s = now_s, busy_s, io_s
        return (cpu, 0.0, io, MEMORY_UTILIZATION)

    def cpu_between(self, from_s: float, busy_from_s: float, now_s: float) -> tuple[float, float]:
        """Return the CPU utilization since an earlier reading, and this reading: core seconds so far."""
        busy_s = self._cpu.busy_s(now_s)
        own = (busy_s - busy_from_s) / ((now_s - from_s) * self._server.cores)
        return own + (1.0 - own) * idle_utilization(self._server, from_s, now_s), busy_s


class CpuMeter:
    """A server's CPU utilization between readings, for a reader other than the agent."""

    __slots__ = ("_at_s", "_busy_s", "_server")

    def __init__(self, server: SimulatedServer) -> None:
        self._server, self._at_s, self._busy_s = server, 0.0, 0.0

    def read(self, now_s: float) -> float:
        """Return the utilization since the last reading (or the start), which was earlier: 0..1."""
        utilization, self._busy_s = self._server.cpu_between(self._at_s, self._busy_s, now_s)
        self._at_s = now_s
        return utilization
