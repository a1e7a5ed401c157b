"""Measures one cell: load, readings twice a second, events at their times (I/O)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from steelyard_loadtest.lab import generators
from steelyard_loadtest.lab.generators import Job, Running
from steelyard_loadtest.lab.observe import observed
from steelyard_loadtest.lab.records import Cell, Measured, Reading
from steelyard_loadtest.lab.rig.balancers import Balancer
from steelyard_loadtest.lab.rig.place import Place
from steelyard_loadtest.lab.rig.servers import Servers
from steelyard_loadtest.lab.scenario.model import Event, Scenario

READ_S = 0.5
"""Twice as often as the agents sample; a reading costs a millisecond."""

LOOK_S = 0.05
"""How late an event may be."""


@dataclass(slots=True, kw_only=True)
class Visit:
    """An algorithm in front of the servers, about to be measured."""

    scenario: Scenario
    place: Place
    servers: Servers
    balancer: Balancer
    rates: dict[float, float]
    """By level, what the generator is told; differs from the level where that is a part of the capacity."""


@dataclass(slots=True)
class _Watch:
    """What is noted while the load runs."""

    readings: list[tuple[Reading, ...]] = field(default_factory=list)
    cpu_at_begin_s: float | None = None
    cpu_at_end_s: float | None = None
    begun: bool = False
    ended: bool = False
    due: list[Event] = field(default_factory=list)


WARM_ALWAYS = ("locust", "open")
"""Their warm-up runs into the counted part. Others are ended after theirs, and leave the servers a request
of each user that nobody waits for: at 2000 users those would be most of what is then measured."""


def measure(visit: Visit, cell: Cell, *, first: bool) -> Measured:
    """Load it for the scenario's time; `first`: the balancer was just started.

    Raises ProgramError (this one), SetupError (all).
    """
    scenario, load = visit.scenario, visit.scenario.load
    job = Job(
        generator=load.generator,
        url=visit.balancer.url + scenario.path,
        level=visit.rates.get(cell.level, cell.level),
        seconds=load.seconds,
        warm_up_s=load.warm_up_s if first or load.generator in WARM_ALWAYS else 0.0,
        folder=visit.place.folder,
        found=visit.place.found,
    )
    watch = _Watch(due=list(scenario.events))
    running = generators.start(job)
    try:
        _watch(visit, running, watch)
        outcome = running.outcome()
    finally:
        running.stop()
        if scenario.events:
            visit.balancer.set_members(list(visit.servers.addresses))
        visit.servers.rest()
    return Measured(
        cell=cell,
        generator=load.generator,
        outcome=outcome,
        observed=observed(
            watch.readings,
            running.began_s or 0.0,
            {server.name: server.cpu_cores for server in scenario.servers},
        ),
        balancer_cpu_s=_cpu_s(watch),
    )


def _watch(visit: Visit, running: Running, watch: _Watch) -> None:
    members = list(visit.servers.addresses)
    next_s = time.monotonic()
    while not running.poll():
        now_s = time.monotonic()
        if now_s >= next_s:
            watch.readings.append(visit.servers.read())
            next_s = now_s + READ_S
            visit.servers.check()
            visit.balancer.check()
        began_s = running.began_s
        if began_s is not None:
            if not watch.begun:
                watch.begun, watch.cpu_at_begin_s = True, visit.balancer.cpu_s()
            # Then, and not when the last answer is there: what a balancer does meanwhile is for no request.
            if not watch.ended and now_s - began_s >= visit.scenario.load.seconds:
                watch.ended, watch.cpu_at_end_s = True, visit.balancer.cpu_s()
            while watch.due and now_s - began_s >= watch.due[0].at_s:
                members = _happen(visit, watch.due.pop(0), members)
        time.sleep(LOOK_S)
    watch.readings.append(visit.servers.read())
    if not watch.ended:  # siege may end before its time
        watch.cpu_at_end_s = visit.balancer.cpu_s()


def _happen(visit: Visit, event: Event, members: Sequence[str]) -> list[str]:
    if event.do == "burn":
        visit.servers.burn(event.server, event.for_s, event.workers)
        return list(members)
    gone = {event.server} if event.do == "leave" else set()
    back = {event.server} if event.do == "join" else set()
    # In the scenario's order, which some methods depend on.
    wanted = [name for name in visit.servers.addresses if name in (set(members) | back) - gone]
    visit.balancer.set_members(wanted)
    return wanted


def _cpu_s(watch: _Watch) -> float | None:
    if watch.cpu_at_end_s is None or watch.cpu_at_begin_s is None:
        return None
    return max(watch.cpu_at_end_s - watch.cpu_at_begin_s, 0.0)
