"""A deterministic fluid model of servers under a law: share -> utilization at the next tick.

Per tick of 1 s, servers j of capacity C_j requests per busy second, demand d:

    in_j   = d w_j / sum w                     w: the law's last published weights
    done_j = min(q_j + in_j, C_j)              q_j += in_j - done_j
    u_j    = done_j / C_j                      in flight: q_j + u_j

There is no noise and no randomness, so only the law moves. Samples and reports
reach the law some ticks late, and carry their age.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace
from steelyard_controller.laws import Law
from steelyard_controller.laws.blend import Due, step_upstreams
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import Floats, Snapshot

# The other indicators move less than cpu, as on a server that computes.
OTHER_INDICATORS = np.array([0.3, 0.05, 0.1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One tick's events; arrays of k."""

    utilization: Floats
    completed: Floats
    failed: Floats
    in_flight: Floats
    latency_s: Floats


@dataclass(slots=True, kw_only=True)
class Servers:
    """k servers and their queues.

    failing    the part of requests that fail at once, unserved
    taken      the part of each server that a neighbour uses, independent of our requests
    shared     a neighbour gives way to our work, down to half of the server, as with control groups of equal
               weight
    others     net, io and mem, as parts of cpu
    """

    capacity: Floats
    failing: Floats = field(default_factory=lambda: np.zeros(1))
    taken: Floats = field(default_factory=lambda: np.zeros(1))
    shared: bool = False
    queue: Floats = field(default_factory=lambda: np.zeros(1))
    others: Floats = field(default_factory=OTHER_INDICATORS.copy)

    def serve(self, arriving: Floats) -> Window:
        """Take one tick's requests."""
        failed = arriving * self.failing
        waiting = self.queue + arriving - failed
        taken = self.taken
        if self.shared:
            taken = np.minimum(taken, np.maximum(0.5, 1.0 - waiting / self.capacity))
        done = np.minimum(waiting, self.capacity * (1.0 - taken))
        self.queue = waiting - done
        busy = done / self.capacity + taken
        in_flight = self.queue + done / self.capacity
        return Window(
            utilization=np.column_stack((busy, *(busy * part for part in self.others))),
            completed=done,
            failed=failed,
            in_flight=in_flight,
            latency_s=np.where(done > 0, (self.queue + 1.0) / self.capacity, np.nan),
        )


def decisions(law: Law, loop: Generator[Snapshot, Decision, None]) -> Iterator[Decision]:
    """Run one loop under a law; yield each tick's decision."""
    memory = law.start()
    given = next(loop)
    with contextlib.suppress(StopIteration):
        while True:
            memory, decision = law.step(memory, given)
            yield decision
            given = loop.send(decision)


def decisions_at_once(law: Law, loops: Sequence[Generator[Snapshot, Decision, None]]) -> list[list[Decision]]:
    """Run loops under a law; return the decisions of each.

    Upstreams that step at once decide as each would alone, in a tenth of the time.
    """
    due = {number: Due(laws={"": law}, memories={}, snapshot=next(loop)) for number, loop in enumerate(loops)}
    made: list[list[Decision]] = [[] for _ in loops]
    while due:
        for number, stepped in zip(list(due), step_upstreams([*due.values()]), strict=True):
            decision = stepped.decisions[""]
            made[number].append(decision)
            try:
                snapshot = loops[number].send(decision)
            except StopIteration:
                del due[number]
            else:
                due[number] = replace(due[number], memories=stepped.memories, snapshot=snapshot)
    return made


def closed_loop(
    servers: Servers,
    *,
    ticks: int,
    demand: Callable[[int], float],
    baseline: Sequence[float] | None = None,
    late_samples: int = 0,
    late_reports: int = 0,
    event: Callable[[int, Servers], None] = lambda _tick, _servers: None,
) -> Generator[Snapshot, Decision, None]:
    """Yield each tick's snapshot; the decision on it is sent back, and the servers follow it."""
    k = len(servers.capacity)
    weights = np.array([1.0] * k if baseline is None else baseline)
    given = weights.copy()
    windows: deque[Window] = deque(maxlen=8)
    nothing = np.full(k, np.nan)
    unseen = Window(
        utilization=np.full((k, 4), np.nan),
        completed=nothing, failed=nothing, in_flight=nothing, latency_s=nothing,
    )  # fmt: skip
    for tick in range(ticks):
        event(tick, servers)
        windows.appendleft(servers.serve(demand(tick) * weights / weights.sum()))
        sample = windows[late_samples] if late_samples < len(windows) else unseen
        report = windows[late_reports] if late_reports < len(windows) else unseen
        decision = yield Snapshot(
            t_s=float(tick),
            ids=tuple(f"server-{j}" for j in range(k)),
            utilization=sample.utilization,
            sample_age_ticks=np.full(k, late_samples),
            capacity=np.full((k, 4), np.nan),
            baseline=given,
            completed=report.completed,
            failed=report.failed,
            in_flight=report.in_flight,
            latency_s=report.latency_s,
            leaving=np.zeros(k, dtype=np.bool_),
            report_age_ticks=late_reports,
        )
        weights = decision.published.astype(np.float64)
