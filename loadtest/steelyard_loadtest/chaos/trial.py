"""One fault on a stage under load: begun, held, ended, and watched until all is well again (I/O)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from steelyard_loadtest.chaos.judge import well_since
from steelyard_loadtest.chaos.model import Fault, Look
from steelyard_loadtest.chaos.records import Trial
from steelyard_loadtest.lab.generators.tally import Request

if TYPE_CHECKING:
    from steelyard_loadtest.stage.stage import Stage

CALM_S = 2.0
"""Before each fault: what follows is then its doing."""

SETTLED_S = 1.0
"""So long all must have been well, and so long the requests after it are still the fault's."""

MOMENT_S = 3.0
"""So long one of a moment is watched at the least: what it took away is missed only a second or two later."""

PATIENCE, PATIENCE_S = 2.0, 10.0
"""Times the bound, and seconds more, that are waited for recovery: how far it is missed tells something."""

LOOK_S = 0.1

STRAGGLERS_S = 12.0
"""More than a request's own limit: then even the last is answered or given up."""


class Load(Protocol):
    """The load that goes on meanwhile."""

    @property
    def requests(self) -> Sequence[Request]:
        """Return those that have ended, as far as it was read."""

    def read(self) -> None:
        """Take what has ended since the last call."""

    def complete(self, until_s: float) -> bool:
        """Say whether all that were due before a moment have ended."""


class Observer(Protocol):
    """Who looks meanwhile."""

    @property
    def looks(self) -> Sequence[Look]:
        """Return all looks so far, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where faults happen."""

    stage: "Stage"
    load: Load
    observer: Observer
    clock: Callable[[], float]
    sleep: Callable[[float], None]


def carry_out(fault: Fault, scene: Scene) -> Trial:
    """Do one fault to a stage that is well, and return when its last request has ended.

    Whatever its actions raise is in the trial. Raises ProgramError when the load has ended.
    """
    notes: dict[str, object] = {}
    wrong: list[str] = []

    def attempt(what: str, act: Callable[[], str | None]) -> None:
        try:
            said = act()
        except Exception as error:
            said = f"{what} failed: {type(error).__name__} {error}"
        if said is not None:
            wrong.append(said)

    began_s = scene.clock()
    attempt("its beginning", lambda: fault.begin(scene.stage, notes))
    if not wrong:
        scene.sleep(fault.lasts_s)
        if fault.check is not None:
            check = fault.check
            attempt("its check", lambda: check(scene.stage, notes))
    undone_s = scene.clock() if fault.lasts_s else began_s
    attempt("its end", lambda: fault.end(scene.stage, notes))
    recovered_s, until_s = _watch(fault, scene, undone_s)
    _wait_for_stragglers(scene, until_s)
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
    """Return when all was well for good, and until when it was watched."""
    now_s = scene.clock()
    least_s = now_s if fault.lasts_s else now_s + MOMENT_S
    deadline_s = now_s + PATIENCE * fault.bound.recover_s + PATIENCE_S
    while now_s < deadline_s:
        scene.sleep(LOOK_S)
        now_s = scene.clock()
        looks = list(scene.observer.looks)
        since_s = well_since(looks, undone_s)
        # By the last look, not by the clock: a look may be slow.
        if since_s is not None and looks[-1].at_s >= max(since_s + SETTLED_S, least_s):
            return since_s, max(since_s + SETTLED_S, least_s)
    return None, now_s


def _wait_for_stragglers(scene: Scene, until_s: float) -> None:
    deadline_s = until_s + STRAGGLERS_S
    while True:
        scene.load.read()
        if scene.load.complete(until_s) or scene.clock() > deadline_s:
            return
        scene.sleep(LOOK_S)
