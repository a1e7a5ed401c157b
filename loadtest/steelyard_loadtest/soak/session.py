"""A run: the stage, the load, the churn, the readings beside them, and what is left at the end (I/O)."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.soak import guests, look, sampling
from steelyard_loadtest.soak.bounds import IN_FLIGHT_WITHIN_S
from steelyard_loadtest.soak.churn import Churn, declared
from steelyard_loadtest.soak.load import Load
from steelyard_loadtest.soak.nginx_status import in_flight, lua_bytes
from steelyard_loadtest.soak.plan import Plan
from steelyard_loadtest.soak.records import Ending, Overview, Reading, Soaked
from steelyard_loadtest.soak.steps import steps
from steelyard_loadtest.soak.watcher import Watcher
from steelyard_loadtest.stage.hosts import API_PORT
from steelyard_loadtest.stage.settings import Settings
from steelyard_loadtest.stage.stage import Stage

STAGE = "stage"
"""The folder in which the stage works."""

WELL_S = 60.0
"""A start takes some seconds; on a machine that is busy otherwise, some more."""

TURN_S = 0.25
AGAIN_S = 0.2

SENT_AWAY_S = 5.0
"""Workers that a reload sent away have nothing to wait for once the load has ended."""

Tell = Callable[[Soaked], None]


class Session:
    """One run, and what it has seen so far."""

    def __init__(self, plan: Plan, folder: Path, tell: Tell) -> None:
        self._plan, self._folder, self._tell = plan, folder, tell
        self._readings: list[Reading] = []
        self._overviews: list[Overview] = []
        self._reloads: list[float] = []
        self._refused: list[str] = []
        self._load: Load | None = None
        self._churn: Churn | None = None
        self._ending: Ending | None = None
        self._interrupted = False

    def run(self) -> Soaked:
        """Run it to its end, or to Ctrl-C. Raises SetupError or ProgramError where that cannot be."""
        plan = self._plan
        settings = Settings(servers=plan.servers, nginx_workers=plan.nginx_workers, jit=plan.jit)
        try:
            with Stage(self._folder / STAGE, settings) as stage:
                stage.wait_well(WELL_S)
                servers = declared(stage, settings.upstream)
                guests.invite(stage, stage.host_of("server-1"))
                load = self._load = Load(stage.url, plan.rate_per_s, plan.seconds, self._folder / "load")
                try:
                    rounds = steps(settings.upstream, servers)
                    watch = self._watcher(stage).watch
                    with Churn(stage, watch, settings.upstream, rounds, plan.step_every_s) as self._churn:
                        self._beside(stage, load)
                finally:
                    load.stop()
        except KeyboardInterrupt:
            self._interrupted = True
        return self.seen()

    def _watcher(self, stage: Stage) -> Watcher:
        # Events reach whoever leads as well through a controller that stands by.
        token_file = self._folder / STAGE / "secrets" / "read-token"
        return Watcher(stage.address("controller-1"), API_PORT, token_file)

    def seen(self) -> Soaked:
        """Return what it has seen so far."""
        load, churn = self._load, self._churn
        return Soaked(
            seconds=self._plan.seconds,
            readings=tuple(self._readings),
            overviews=tuple(self._overviews),
            sent=load.sent if load else 0,
            failures=dict(load.failures) if load else {},
            reloads=tuple(self._reloads),
            steps=churn.done if churn else 0,
            refused=(*self._refused, *(churn.refused if churn else ())),
            ending=self._ending,
            first_failure_s=load.first_failure_s if load else None,
            interrupted=self._interrupted,
        )

    def _beside(self, stage: Stage, load: Load) -> None:
        plan = self._plan
        pids = {name: stage.daemon(name).pid for name in stage.names}
        reloads = list(plan.reloads_s)
        next_read_s = 0.0
        while not load.poll():
            time.sleep(TURN_S)
            at_s = time.monotonic() - load.began_s
            if reloads and at_s >= reloads[0]:
                reloads.pop(0)
                self._reload(stage, at_s)
            if at_s >= next_read_s:
                # Where a reading took too long, those that were missed are not made up for.
                next_read_s = max(next_read_s, at_s - plan.read_every_s) + plan.read_every_s
                self._read(stage, load, at_s)
                self._tell(self.seen())
        load.stop()
        self._ending = self._end(stage, pids)

    def _reload(self, stage: Stage, at_s: float) -> None:
        try:
            stage.daemon("nginx").signal(signal.SIGHUP)
            self._reloads.append(at_s)
        except (ProgramError, OSError) as error:
            self._refused.append(f"reload: {error}")

    def _read(self, stage: Stage, load: Load, at_s: float) -> None:
        status = stage.status()
        self._readings += sampling.readings(stage, at_s, lua_bytes(status))
        steps_done = self._churn.done if self._churn else 0
        self._overviews.append(
            look.overview(
                stage, status, at_s=at_s, sent=load.sent, failed=load.failures.total(), steps=steps_done
            )
        )

    def _end(self, stage: Stage, pids: dict[str, int | None]) -> Ending:
        ended_s = time.monotonic()
        settled_s, left = None, {}
        while settled_s is None and time.monotonic() - ended_s < IN_FLIGHT_WITHIN_S:
            status = stage.status()
            left = in_flight(status)
            if status is not None and not any(left.values()):
                settled_s = time.monotonic() - ended_s
            else:
                time.sleep(AGAIN_S)
        while len(workers := stage.daemon("nginx").children()) > self._plan.nginx_workers:
            if time.monotonic() - ended_s > IN_FLIGHT_WITHIN_S + SENT_AWAY_S:
                break
            time.sleep(AGAIN_S)
        return Ending(
            in_flight=left,
            settled_s=settled_s,
            workers_left=len(workers),
            restarted=tuple(
                f"{name} is not the process that it was"
                for name, pid in pids.items()
                if stage.daemon(name).pid != pid
            ),
        )
