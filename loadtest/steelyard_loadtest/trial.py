"""Measures one trial: load, readings twice a second, events at their times (I/O)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest import generators
from steelyard_loadtest.figures import motion
from steelyard_loadtest.generators import Job, Running
from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.measurements.trials import Measured, Reading, Trial, observed
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.algorithms import BY_NAME
from steelyard_loadtest.scenario.definition import Event, Scenario

CHECKOUT = Path(__file__).resolve().parents[2]

DAEMON_PORTS = 6

READ_S = 0.5
"""Twice as often as the agents sample; a reading costs a millisecond."""

LOOK_S = 0.05
"""Largest delay of an event."""


@dataclass(slots=True, kw_only=True)
class RunningSetup:
    """The running programs of a trial: the servers and a balancer in front of them, with the scenario."""

    scenario: Scenario
    place: Place
    servers: Servers
    balancer: Balancer
    rates: dict[float, float]
    """By level, the generator's rate; differs from the level if that is a part of the capacity, or a number
    of servers."""


def place_for(scenario: Scenario, folder: Path, programs: Programs) -> Place:
    """Return the folder with a free port for each daemon and server."""
    # The data plane's algorithms are its own, each with one balancer.
    known = [BY_NAME[name] for name in scenario.algorithms if name in BY_NAME]
    more = max((algorithm.balancers for algorithm in known), default=1) - 1 + bool(scenario.beside)
    ports = network.free_ports(DAEMON_PORTS + len(scenario.servers) + more)
    memcached, redis, balancer, api, follow, orca, *servers = ports
    return Place(
        folder=folder,
        checkout=CHECKOUT,
        programs=programs,
        memcached_port=memcached,
        redis_port=redis,
        balancer_port=balancer,
        api_port=api,
        follow_port=follow,
        orca_port=orca if any(algorithm.fed_by == "orca-stream" for algorithm in known) else 0,
        server_ports=tuple(servers[more:]),
        more_balancer_ports=tuple(servers[:more]),
    )


WARM_ALWAYS = ("locust", "open")
"""Generators whose warm-up runs into the counted part. Others end after theirs and leave the servers one
unwanted request of each user. At 2000 users those would be most of the measurement."""


def measure(setup: RunningSetup, trial: Trial, *, first: bool) -> Measured:
    """Load it for the scenario's time; `first`: the balancer was just started.

    Raises ProgramError (this one), SetupError (all).
    """
    scenario, load = setup.scenario, setup.scenario.load
    job = Job(
        generator=load.generator,
        url=" ".join(url + scenario.path for url in setup.balancer.urls),
        level=setup.rates.get(trial.level, trial.level),
        seconds=load.seconds,
        own_connections=load.own_connections,
        cuts_s=tuple(motion.moments_s(scenario.events)),
        warm_up_s=load.warm_up_s if first or load.generator in WARM_ALWAYS else 0.0,
        folder=setup.place.folder,
        programs=setup.place.programs,
    )
    readings: list[tuple[Reading, ...]] = []
    running = generators.start(job)
    try:
        balancer_cpu_s = _watch(setup, running, readings)
        outcome, resident_bytes = running.outcome(), setup.balancer.resident_bytes()
    finally:
        running.stop()
        if scenario.events:
            setup.balancer.set_members(list(setup.servers.addresses))
        setup.servers.rest()
    return Measured(
        trial=trial,
        generator=load.generator,
        outcome=outcome,
        observed=observed(readings, running.began_s or 0.0, scenario.servers),
        balancer_cpu_s=balancer_cpu_s,
        balancer_resident_bytes=resident_bytes,
    )


def _watch(setup: RunningSetup, running: Running, readings: list[tuple[Reading, ...]]) -> float | None:
    """Follow a load to its end; return the balancer's CPU time in the counted part."""
    members, due = list(setup.servers.addresses), list(setup.scenario.events)
    cpu_s: list[float | None] = []  # at the begin and at the end of the counted part
    next_s = time.monotonic()
    while not running.poll():
        now_s = time.monotonic()
        if now_s >= next_s:
            readings.append(setup.servers.read())
            next_s = now_s + READ_S
            setup.servers.check()
            setup.balancer.check()
            setup.servers.drift(0.0 if running.began_s is None else now_s - running.began_s)
        if running.began_s is not None:
            if not cpu_s:
                cpu_s.append(setup.balancer.cpu_s())
            # At that moment, not at the last answer: the balancer's later work is for no request.
            if len(cpu_s) == 1 and now_s - running.began_s >= setup.scenario.load.seconds:
                cpu_s.append(setup.balancer.cpu_s())
            while due and now_s - running.began_s >= due[0].at_s:
                members = _happen(setup, due.pop(0), members)
        time.sleep(LOOK_S)
    readings.append(setup.servers.read())
    if len(cpu_s) == 1:  # it may have ended between two looks
        cpu_s.append(setup.balancer.cpu_s())
    before_s, after_s = cpu_s or (None, None)
    return None if before_s is None or after_s is None else max(after_s - before_s, 0.0)


def _happen(setup: RunningSetup, event: Event, members: Sequence[str]) -> list[str]:
    servers = setup.servers
    match event.do:
        case "burn":
            servers.burn(event.server, event.for_s, event.workers, event.part)
        case "spin":
            servers.spin(event.server, event.for_s)
        case "hold":
            servers.hold(event.server, event.for_s, event.workers)
        case "fail":
            servers.fail(event.server, event.for_s)
        case "slow":
            servers.slow(event.server, event.for_s, event.ms)
        case "cold":
            servers.cold(event.server, event.entries, event.times)
    if event.lasts:
        return list(members)
    gone = {event.server} if event.do == "leave" else set()
    back = {event.server} if event.do == "join" else set()
    # In the scenario's order, which some methods depend on.
    wanted = [name for name in setup.servers.addresses if name in (set(members) | back) - gone]
    setup.balancer.set_members(wanted)
    return wanted
