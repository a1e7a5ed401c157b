"""Changes the servers while the load runs: a step each second, over the REST API (I/O)."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.soak.steps import Server, Step
from steelyard_loadtest.stage.stage import Stage

CONTROLLER = "controller-"

SHOWN = 200
"""So many characters of an answer that refuses: its problem's title and detail."""


class Churn:
    """Takes one step after another in a thread of its own, until it is left."""

    def __init__(
        self, stage: Stage, watch: Callable[[str], None], upstream: str, steps: Iterator[Step], every_s: float
    ) -> None:
        self._stage, self._watch, self._path = stage, watch, f"/v1/upstreams/{upstream}"
        self._steps, self._every_s = steps, every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="churn", daemon=True)
        self.done = 0
        self.refused: list[str] = []

    def __enter__(self) -> "Churn":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        next_s = time.monotonic()
        for step in self._steps:
            next_s += self._every_s
            if self._stopped.wait(max(0.0, next_s - time.monotonic())):
                return
            why = self._take(step)
            self.done += 1
            if why is not None:
                self.refused.append(f"{step.words}: {why}")

    def _take(self, step: Step) -> str | None:
        try:
            document = step.document
            if step.members is not None:
                status, answer = self._stage.api("GET", f"{self._path}/declaration")
                if status != 200:
                    return _words(status, answer)
                document = json.loads(answer) | step.members
            if step.watch:
                self._watch(step.path)
                return None
            controller = self._standby() if step.standby else None
            status, answer = self._stage.api(step.method, step.path, document, controller)
        except (ProgramError, OSError, ValueError) as error:
            return str(error)
        return None if 200 <= status < 300 else _words(status, answer)

    def _standby(self) -> str | None:
        leader = self._stage.leader()
        return next(
            (name for name in self._stage.names if name.startswith(CONTROLLER) and name != leader), None
        )


def declared(stage: Stage, upstream: str) -> list[Server]:
    """Return the servers of an upstream. Raises ProgramError."""
    status, answer = stage.api("GET", f"/v1/upstreams/{upstream}/declaration")
    if status != 200:
        raise ProgramError(
            f"the controller does not tell what is declared of {upstream}: {_words(status, answer)}"
        )
    return [
        Server(id=peer["id"], address=peer["address"], baseline=peer["baseline"])
        for peer in json.loads(answer)["peers"]
    ]


def _words(status: int, answer: bytes) -> str:
    return f"{status} {answer[:SHOWN].decode(errors='replace').strip()}"
