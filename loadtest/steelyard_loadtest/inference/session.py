"""Measurements: contenders in turns before emptied engines, with the same timed requests (I/O)."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import uvloop
from pydantic import TypeAdapter

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import HOST, Part
from steelyard_loadtest.inference import load
from steelyard_loadtest.inference.arrivals import Arrival, generated, loaded, read
from steelyard_loadtest.inference.contenders import BY_NAME, SIZES, SLOWED, SLOWED_TO
from steelyard_loadtest.inference.engine import MOST_RUNNING, cost_s
from steelyard_loadtest.inference.figures import EngineReading, Run, figures
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.measurements.trials import Trial
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.rig import balancers
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.trial import place_for

COMPRESSION = 20.0
"""An hour takes three minutes; a balancer's own time counts multiplied by it."""

AGENT = '[[indicator]]\nname = "running"\npreset = "vllm-running"\nport = {port}\nlimit = {limit}\n'
"""Reading of an engine's agent: the running sequences, as a part of the maximum."""

TRIALS = "trials"
"""Folder of the trials, below the folder for results."""

AROUND_S, LEAD_S, READ_S = 8.0, 0.5, 0.25

_RUN = TypeAdapter(Run)


class Engines(Servers):
    """The scenario's servers as simulated engines, one process each; a context manager."""

    at_one_address = True

    def __init__(self, scenario: Scenario, place: Place, compression: float) -> None:
        super().__init__(scenario, place)
        self._compression = compression

    def state(self, began_s: float) -> list[EngineReading]:
        """Return each engine's state and totals; an engine that is too busy to answer is left out."""
        found = []
        for name, address in self.addresses.items():
            if values := http_ask.look(HOST, int(address.split(":")[1]), "/state"):
                at_s = (time.monotonic() - began_s) * self._compression
                found.append(EngineReading(at_s=at_s, engine=name, values=values))
        return found

    def send(self, name: str, path: str) -> None:
        """Send a request to an engine. Raises ProgramError."""
        http_ask.ask(HOST, int(self.addresses[name].split(":")[1]), path, method="POST")

    def _start_servers(self) -> None:
        for name, port in zip(self._names, self._place.server_ports, strict=True):
            words, files = (str(port), str(SIZES[name]), f"{self._compression}"), self._files[name]
            command = (sys.executable, "-m", "steelyard_loadtest.inference.engine_server", *words)
            self._start(Part(name=name, command=command), files.server_log)
            files.agent_config.write_text(AGENT.format(port=port, limit=MOST_RUNNING))
            memcached = f"{HOST}:{self._place.memcached_port}"
            agent = parts.agent(name, memcached=memcached, config=files.agent_config)
            self._start(replace(agent, name=f"{name}'s agent"), files.agent_log)

    def _begin_reading(self) -> None:
        self._wait(self._without_sample, "has a sample of its agent in Memcached")


def run(
    scenario: Scenario, trace: Path | None, out: Path, programs: Programs
) -> tuple[list[Run], dict[str, str]]:
    """Measure the trials that `out` lacks; return all, and reasons for missing ones. Raises SetupError."""
    reasons = {name: balancers.why_missing(BY_NAME[name], programs) for name in scenario.algorithms}
    missing = {name: why for name, why in reasons.items() if why}
    here = [name for name in scenario.algorithms if name not in missing]
    done = {one.trial for one in measured(scenario, trace, out)}
    todo = [trial for trial in _trials(scenario, here) if trial not in done]
    if not todo and not missing:
        return measured(scenario, trace, out), missing
    arrivals = read(trace.read_text("utf-8").splitlines()) if trace else generated(Random(1), 12_031)
    compression, each_s = _compression(arrivals, scenario), AROUND_S + _seconds(scenario)
    with (
        Progress(sys.stderr, steps=len(todo), expected_s=len(todo) * each_s) as progress,
        tempfile.TemporaryDirectory(prefix="steelyard-lab-") as folder,
    ):
        for name, why in missing.items():
            progress.say(f"{BY_NAME[name].title} is not measured: {why}")
        place = place_for(scenario, Path(folder), programs)
        with Engines(scenario, place, compression) as engines:
            for trial in todo:
                progress.begin(f"{trial.level:g}, {BY_NAME[trial.algorithm].title}")
                try:
                    new = _measure(scenario, trial, arrivals, compression, engines, place)
                except ProgramError as error:
                    missing[trial.algorithm] = str(error)
                    progress.end(f"failed: {error}")
                else:
                    file = f"{trial.algorithm}-{trial.level:g}-{trial.repeat}.json"
                    write_text(_folder(scenario, trace, out) / file, _RUN.dump_json(new).decode())
                    known = [f"{key} {value:.3g}" for key, value in figures(new).items() if value is not None]
                    progress.end(", ".join(known))
    return measured(scenario, trace, out), missing


def measured(scenario: Scenario, trace: Path | None, out: Path) -> list[Run]:
    """Return the trials in `out` of this form of the scenario and this trace."""
    files = sorted(_folder(scenario, trace, out).glob("*.json"))
    return [_RUN.validate_json(file.read_bytes()) for file in files]


def _folder(scenario: Scenario, trace: Path | None, out: Path) -> Path:
    return out / TRIALS / f"{trace.stem if trace else 'generated'}-{scenario.load.seconds:g}s"


def _seconds(scenario: Scenario) -> float:
    return scenario.load.warm_up_s + scenario.load.seconds


def _compression(arrivals: Sequence[Arrival], scenario: Scenario) -> float:
    """Return COMPRESSION, or a lower value that the trace is long enough for."""
    cost = sum(cost_s(one.input_tokens, one.output_tokens) for one in arrivals)
    lasts_s = cost / (max(scenario.load.levels) * sum(SIZES.values()))
    return min(COMPRESSION, lasts_s / _seconds(scenario))


def _trials(scenario: Scenario, names: Sequence[str]) -> Iterator[Trial]:
    """Yield all contenders at each load, once a repeat; each repeat begins with another one."""
    for repeat in range(1, scenario.load.repeats + 1):
        turn = (repeat - 1) % max(len(names), 1)
        for level in scenario.load.levels:
            for name in (*names[turn:], *names[:turn]):
                yield Trial(scenario=scenario.name, algorithm=name, level=level, repeat=repeat)


def _measure(
    scenario: Scenario, trial: Trial, arrivals: Sequence[Arrival], compression: float, engines: Engines,
    place: Place,
) -> Run:  # fmt: skip
    seconds = _seconds(scenario) * compression
    asked = loaded(arrivals, load=trial.level, size=sum(SIZES.values()), seconds=seconds)
    for name in SIZES:
        engines.send(name, "/reset")
    nothing = Run(
        trial=trial, compression=compression, begin_s=scenario.load.warm_up_s * compression, end_s=seconds,
        slowed=SLOWED, sizes=SIZES, balancer_cpu_s=0.0, streams=(), readings=(),
    )  # fmt: skip
    with Balancer(BY_NAME[trial.algorithm], scenario, engines.addresses, place) as balancer:
        return uvloop.run(_loaded(nothing, asked, engines, balancer, place.balancer_port))


async def _loaded(run: Run, asked: Sequence[Arrival], engines: Engines, balancer: Balancer, port: int) -> Run:
    began_s, readings = time.monotonic() + LEAD_S, list[EngineReading]()
    making = asyncio.create_task(load.make(asked, port, began_s, run.compression))

    async def at(moment_s: float) -> None:
        while (left_s := began_s + moment_s / run.compression - time.monotonic()) > 0:
            balancer.check()
            readings.extend(await asyncio.to_thread(engines.state, began_s))
            await asyncio.sleep(min(left_s, READ_S))

    await at(run.begin_s)
    cpu_s = balancer.cpu_s() or 0.0
    await at(run.slowed_s)
    await asyncio.to_thread(engines.send, SLOWED, f"/speed?to={SLOWED_TO}")
    await at(run.end_s)
    cpu_s = (balancer.cpu_s() or 0.0) - cpu_s
    return replace(run, balancer_cpu_s=cpu_s, streams=await making, readings=readings)
