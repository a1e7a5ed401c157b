"""One fault after the other on a made-up stage, with a made-up clock."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.reporting.progress import Progress
from steelyard_resilience.chaos.fault import Bound, Fault, Gathered, Look, Trial
from steelyard_resilience.chaos.session import (
    MOMENT_S,
    PATIENCE,
    PATIENCE_S,
    SETTLED_S,
    Open,
    Scene,
    carry_out,
    run,
)
from steelyard_resilience.running_load import Load
from steelyard_resilience.stage.hosts import FRONT_PORTS, Front

if TYPE_CHECKING:
    from steelyard_resilience.stage.stage import Stage

RECOVER_S = 4.0
TAKES_S = 0.5
"""Time that the end of a fault takes."""


@dataclass
class World:
    """Stage, load, looks and time: ill from a fault's beginning until heals_s after its end."""

    heals_s: float | None = 1.0
    now_s: float = 1000.0
    done: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    ill_until_s: float = 0.0
    gone_at_s: float | None = None

    def sleep(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self.now_s < until_s - 1e-9:
            self.now_s = min(round(self.now_s + 0.1, 6), until_s)
            ill = self.now_s < self.ill_until_s
            self.looks.append(Look(at_s=self.now_s, rung="fresh", not_well="ill" if ill else None))
            self.requests.append(Request(due_s=self.now_s, latency_ms=1.0, failure=""))

    def clock(self) -> float:
        return self.now_s

    def wait_well(self, patience_s: float) -> None:
        if self.ill_until_s > self.now_s + patience_s:
            raise ProgramError("still ill")
        self.sleep(max(self.ill_until_s - self.now_s, 0.0))

    @contextmanager
    def act(self, *, stage: "Stage") -> Iterator[None]:
        assert stage is not None
        self.done.append("begin")
        self.ill_until_s = 1e9
        yield
        self.end()

    def end(self) -> None:
        self.done.append("end")
        self.sleep(TAKES_S)
        self.ill_until_s = 1e9 if self.heals_s is None else self.now_s + self.heals_s

    def read(self) -> None:
        if self.gone_at_s is not None and self.now_s > self.gone_at_s:
            raise ProgramError("the load ended")

    def over(self, until_s: float, now_s: float) -> bool:
        return now_s >= until_s

    def fault(self, name: str = "a fault", **changed: object) -> Fault:
        fields: dict[str, object] = {
            "name": name,
            "group": "made up",
            "act": self.act,
            "lasts_s": 8.0,
            "bound": Bound(worst_ms=300.0, recover_s=RECOVER_S),
        }
        return Fault(**(fields | changed))  # type: ignore[arg-type]

    def scene(self) -> Scene:
        return Scene(
            stage=cast("Stage", self), load=cast(Load, self), looks=self.looks,
            clock=self.clock, sleep=self.sleep,
        )  # fmt: skip

    def trial(self, **changed: object) -> Trial:
        return carry_out(self.fault(**changed), self.scene())  # type: ignore[arg-type]


def test_a_fault_is_held_and_recovery_counts_from_the_start_of_its_end() -> None:
    world = World()
    trial = world.trial()
    assert world.done == ["begin", "end"]
    assert (trial.began_s, trial.undone_s, trial.wrong) == (1000.0, 1008.0, ())
    assert trial.recovered_s is not None
    assert trial.recovered_s == pytest.approx(1008.0 + TAKES_S + 1.0, abs=0.11)
    assert trial.until_s == trial.recovered_s + SETTLED_S


def test_recovery_of_an_instant_counts_from_its_beginning() -> None:
    world = World(heals_s=0.0)
    trial = world.trial(lasts_s=0.0)
    assert (trial.began_s, trial.undone_s) == (1000.0, 1000.0)
    assert trial.until_s == pytest.approx(1000.0 + TAKES_S + MOMENT_S)


def test_a_relapse_is_no_recovery() -> None:
    world = World()

    @contextmanager
    def act(*, stage: "Stage") -> Iterator[None]:
        with world.act(stage=stage):
            yield
        # Well for half a second, which is not enough, and then ill for one.
        well_s = world.now_s + 0.5
        world.ill_until_s = 0.0
        world.sleep(0.5)
        world.ill_until_s = well_s + 1.0

    trial = world.trial(act=act)
    assert trial.recovered_s == pytest.approx(1008.0 + TAKES_S + 0.5 + 1.0, abs=0.11)


def test_recovery_is_awaited_for_twice_its_bound() -> None:
    world = World(heals_s=None)
    trial = world.trial()
    assert trial.recovered_s is None
    assert trial.until_s == pytest.approx(1008.0 + TAKES_S + PATIENCE * RECOVER_S + PATIENCE_S, abs=0.11)


def test_a_failed_beginning_is_reported() -> None:
    world = World()

    @contextmanager
    def act(*, stage: "Stage") -> Iterator[None]:
        raise ProgramError(f"no leader of {stage is not None}")
        yield

    trial = world.trial(act=act)
    assert trial.wrong == ("its beginning failed: ProgramError no leader of True",)
    assert trial.undone_s == trial.began_s


@pytest.mark.parametrize(
    ("verdict", "wrong"),
    [
        (lambda: "not so", ("not so",)),
        (lambda: None, ()),
        (lambda: 1 / 0, ("its check failed: ZeroDivisionError division by zero",)),
    ],
)
def test_a_check_runs_before_the_end_and_the_end_always_runs(
    verdict: Callable[[], str | None], wrong: tuple[str, ...]
) -> None:
    world = World()
    asked = []

    def check() -> str | None:
        asked.append((world.now_s, list(world.done)))
        return verdict()

    @contextmanager
    def act(*, stage: "Stage") -> Iterator[Callable[[], str | None]]:
        with world.act(stage=stage):
            yield check

    assert world.trial(act=act).wrong == wrong
    assert asked == [(1008.0, ["begin"])]
    assert world.done == ["begin", "end"]


def test_a_load_that_has_ended_ends_the_run() -> None:
    world = World(gone_at_s=1000.0)
    with pytest.raises(ProgramError, match="the load ended"):
        world.trial()


class RecordedProgress(Progress):
    """Records the progress."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.lines: list[str] = []

    def show(self, text: str, *, always: bool = False) -> None:
        del always
        self.lines.append(f"scene {'clocks' in text}")

    def begin(self, what: str) -> None:
        self.lines.append(what)

    def end(self, result: str = "", *, expected_s: float | None = None, keep: bool = False) -> None:
        del expected_s, keep
        self.lines.append(result.partition(":")[0])


def opened(world: World) -> Open:
    """Scenes of this world, each of which begins well."""

    @contextmanager
    def scene(_faketime: bool, _front: Front) -> Iterator[Scene]:
        world.ill_until_s = 0.0
        yield world.scene()

    return scene


def test_faults_share_a_scene_and_those_with_faketime_another() -> None:
    world, progress, gathered = World(), RecordedProgress(), Gathered()
    faults = [world.fault("clock", faketime=True), world.fault("one"), world.fault("two")]
    run(faults, opened(world), gathered, progress)
    assert progress.lines == ["scene False", "one", "PASS", "two", "PASS", "scene True", "clock", "PASS"]
    assert [outcome.fault for outcome in gathered.outcomes] == ["one", "two", "clock"]
    assert [trial.fault for trial in gathered.trials] == ["one", "two", "clock"]


def test_every_fault_runs_on_some_scene() -> None:
    world, progress, gathered = World(), RecordedProgress(), Gathered()
    needs = [(faketime, front) for faketime in (False, True) for front in FRONT_PORTS]
    faults = [world.fault(f"{each}", faketime=each[0], front=each[1]) for each in needs]
    run(faults, opened(world), gathered, progress)
    assert {outcome.fault for outcome in gathered.outcomes} == {f"{each}" for each in needs}


def test_a_fault_without_recovery_needs_a_new_scene() -> None:
    world, progress, gathered = World(heals_s=None), RecordedProgress(), Gathered()
    run([world.fault("one"), world.fault("two")], opened(world), gathered, progress)
    assert progress.lines == ["scene False", "one", "BROKEN", "scene False", "two", "BROKEN"]


def test_a_new_scene_that_is_not_well_ends_the_run_and_keeps_earlier_results() -> None:
    world, progress, gathered = World(heals_s=None), RecordedProgress(), Gathered()

    @contextmanager
    def scene(_faketime: bool, _front: Front) -> Iterator[Scene]:
        yield world.scene()

    with pytest.raises(ProgramError, match="still ill"):
        run([world.fault("one"), world.fault("two")], scene, gathered, progress)
    assert [outcome.fault for outcome in gathered.outcomes] == ["one"]
