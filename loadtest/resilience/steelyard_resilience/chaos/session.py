"""A run: a stage for faults that can share it, the load on it, one fault after the other (I/O).

A fault begins, lasts and ends. Ten looks a second, or two with --quick, watch until all is well again. Each
look has its own thread.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.repeating import repeating
from steelyard_loadtest.reporting.progress import Progress

from steelyard_resilience.chaos.fault import RUNGS, Check, Fault, Gathered, Look, Outcome, Trial
from steelyard_resilience.chaos.outcomes import outcome, well_since
from steelyard_resilience.chaos.page import line
from steelyard_resilience.running_load import Load
from steelyard_resilience.stage.hosts import UPSTREAM, Front, Settings
from steelyard_resilience.stage.stage import Stage

WELL_S = 30.0
"""Patience before a fault. If the cluster recovered from the previous one, all is well at once."""

CALM_S = 2.0
"""A calm before each fault, so that what follows is its effect."""

SETTLED_S = 1.0
"""All must be well for this long after recovery, and requests due meanwhile are still the fault's."""

MOMENT_S = 3.0
"""Minimum watch over a fault of an instant: its effects begin only a second or two later."""

PATIENCE, PATIENCE_S = 2.0, 10.0
"""Recovery is awaited for twice its bound and 10 s more, because the size of a miss is informative."""

LOOK_S = 0.1

QUICK_LOOK_S = 0.5
"""A look costs the stage some 25 ms of CPU, more than the requests of a tenth of a second."""

AT_ONCE = 8
"""Looks at a time. A look at silent hosts takes a few seconds, and the next ones should not wait for it."""


@contextmanager
def looking(stage: Stage, looks: list[Look], look_s: float = LOOK_S) -> Iterator[None]:
    """Look each look_s while the block runs; `looks` grows in the order in which the answers arrive."""
    free, adding = threading.Semaphore(AT_ONCE), threading.Lock()

    def look() -> None:
        try:
            status, not_well = stage.look()
            rung = rung_of(status)
        except Exception as error:
            rung, not_well = None, f"the look failed: {type(error).__name__} {error}"
        # The stamp is taken after the last answer: a look that waited proves nothing about earlier moments.
        with adding:
            looks.append(Look(at_s=time.monotonic(), rung=rung, not_well=not_well))
        free.release()

    def turn() -> None:
        # Late turns are skipped.
        if free.acquire(blocking=False):
            pool.submit(look)

    with ThreadPoolExecutor(AT_ONCE, "look") as pool, repeating(turn, interval_s=look_s):
        yield


def rung_of(status: Mapping[str, object] | None) -> str | None:
    """Return the upstream's rung in nginx's status document; None if there is none."""
    document: object = status
    for name in ("upstreams", UPSTREAM, "rung"):
        document = document.get(name) if isinstance(document, Mapping) else None
    return document if isinstance(document, str) and document in RUNGS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The setting of a fault: the stage, its load, the looks, and the clock."""

    stage: Stage
    load: Load
    looks: list[Look]
    clock: Callable[[], float]
    sleep: Callable[[float], None]


def carry_out(fault: Fault, scene: Scene) -> Trial:
    """Carry out one fault on a stage that is well, and return after its last request has ended.

    Errors of its actions go into the trial. Raises ProgramError when the load has ended.
    """
    wrong: list[str] = []
    checks: list[Check | None] = []
    doing = ExitStack()

    def attempt(step: str, act: Callable[[], str | None]) -> None:
        try:
            problem = act()
        except Exception as error:
            problem = f"{step} failed: {type(error).__name__} {error}"
        if problem is not None:
            wrong.append(problem)

    began_s = scene.clock()
    attempt("its beginning", lambda: checks.append(doing.enter_context(fault.act(stage=scene.stage))))
    if not wrong:
        scene.sleep(fault.lasts_s)
        for check in filter(None, checks):
            attempt("its check", check)
    undone_s = scene.clock() if fault.lasts_s else began_s
    attempt("its end", doing.close)
    recovered_s, until_s = _watch(fault, scene, undone_s)
    scene.load.read()
    while not scene.load.over(until_s, scene.clock()):
        scene.sleep(LOOK_S)
        scene.load.read()
    return Trial(
        fault=fault.name,
        group=fault.group,
        bound=fault.bound,
        began_s=began_s,
        undone_s=undone_s,
        recovered_s=recovered_s,
        until_s=until_s,
        wrong=tuple(wrong),
    )


def _watch(fault: Fault, scene: Scene, undone_s: float) -> tuple[float | None, float]:
    """Return the moment of recovery, and the end of the watch."""
    now_s = scene.clock()
    least_s = now_s if fault.lasts_s else now_s + MOMENT_S
    deadline_s = now_s + PATIENCE * fault.bound.recover_s + PATIENCE_S
    while now_s < deadline_s:
        scene.sleep(LOOK_S)
        now_s = scene.clock()
        looks = list(scene.looks)
        since_s = well_since(looks, undone_s)
        # The last look counts, not the clock: a look may be slow.
        if since_s is not None and looks[-1].at_s >= max(since_s + SETTLED_S, least_s):
            return since_s, max(since_s + SETTLED_S, least_s)
    return None, now_s


Open = Callable[[bool, Front], AbstractContextManager[Scene]]
"""Sets up a scene, with faketime or without, behind the load balancer under test."""


def run(faults: Sequence[Fault], open_scene: Open, gathered: Gathered, progress: Progress) -> None:
    """Carry out every fault; `gathered` always has the results so far. Raises SetupError, ProgramError."""
    for faketime, front in sorted({(fault.faketime, fault.front) for fault in faults}):
        left = [fault for fault in faults if (fault.faketime, fault.front) == (faketime, front)]
        kind = " with adjustable clocks" if faketime else f" behind {front}"
        while left:
            progress.show(f"starting the cluster{kind}")
            with open_scene(faketime, front) as scene:
                left = _on_scene(left, scene, gathered, progress)


def _on_scene(faults: Sequence[Fault], scene: Scene, gathered: Gathered, progress: Progress) -> list[Fault]:
    """Carry out faults until one leaves the scene unfit for the next; return the remaining faults."""
    for position, fault in enumerate(faults):
        try:
            scene.stage.wait_well(WELL_S)
        except ProgramError:
            if position == 0:
                raise  # this scene is new, so another new one would not be well either
            return list(faults[position:])
        scene.sleep(CALM_S)
        progress.begin(fault.name)
        trial = carry_out(fault, scene)
        result = outcome(trial, scene.load.requests, scene.looks)
        gathered.trials.append(trial)
        gathered.outcomes.append(result)
        show(progress, result)
        if trial.recovered_s is None or trial.wrong:
            return list(faults[position + 1 :])
    return []


@contextmanager
def scene(
    folder: Path, settings: Settings, rate_per_s: float, gathered: Gathered, look_s: float = LOOK_S
) -> Iterator[Scene]:
    """Set up a scene, take it down, and add its requests and looks to `gathered`.

    Raises SetupError, ProgramError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with Stage(folder, settings) as stage:
        load = Load(stage.url, rate_per_s, folder)
        looks = list[Look]()
        try:
            with looking(stage, looks, look_s):
                yield Scene(stage=stage, load=load, looks=looks, clock=time.monotonic, sleep=time.sleep)
        finally:
            # The load stops before the stage does, so that no request fails without a fault.
            load.stop()
            gathered.requests += load.requests
            gathered.looks += looks


def show(progress: Progress, result: Outcome) -> None:
    """Show the outcome of a fault, and each broken bound."""
    progress.end(line(result))
    for text in result.broken:
        progress.say(f"    {text}")
