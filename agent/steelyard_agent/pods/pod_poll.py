"""Asks for the node's pods every few seconds, in its own thread: no sample waits for the API server.

A poll is simpler than a watch: one GET, answered from the API server's cache, has nothing to
resume and nothing that can hang. Without an answer the known pods stay. Every change is
logged once.
"""

import logging
import threading
from collections.abc import Callable, Mapping

from steelyard_protocol.name_list import shown

from steelyard_agent.pods.api_client import ApiFault
from steelyard_agent.pods.pod_list import Pod, PodList

log = logging.getLogger(__name__)

# A pod is not ready within less, and a thousand nodes ask 200 times a second.
EVERY_S = 5.0

# A pause is shorter by up to this share of it, so that nodes started together do not ask together.
PAUSE_SPREAD = 0.2

# After failures the pause doubles up to this.
LONGEST_PAUSE_S = 40.0

# Names in a line of the log, at most.
MOST_NAMES = 10


def pause_s(failures: int, random: float) -> float:
    """Return the pause after this number of failures in a row; `random` is within 0..1. Pure."""
    doubled_s = EVERY_S * 2.0 ** min(max(failures - 1, 0), 10)
    return min(doubled_s, LONGEST_PAUSE_S) * (1.0 - PAUSE_SPREAD * random)


class PodPoll:
    """The node's pods in the API server's last list; `step` may be called alone.

    `fault` is why the last answer had no list; None if it had one, or before the first request.
    """

    def __init__(self, ask: Callable[[], PodList | ApiFault], *, random: Callable[[], float]) -> None:
        self._ask = ask
        self._random = random
        self.pods: tuple[Pod, ...] = ()
        self._faults: Mapping[str, str] = {}
        self.fault: ApiFault | None = None
        self._asked = False
        self._failures = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pods", daemon=True)

    @property
    def reachable(self) -> bool:
        """Return whether the API server's last answer was a list."""
        return self._asked and self.fault is None

    def start(self) -> None:
        """Start the thread: ask now, and then again and again."""
        self._thread.start()

    def close(self) -> None:
        """End; waits for nothing."""
        self._ended.set()

    def step(self) -> float:
        """Ask once; return the seconds to the next time."""
        answer = self._ask()
        self._asked = True
        if isinstance(answer, ApiFault):
            self._failures += 1
            if self.fault is None or answer.kind != self.fault.kind:
                log.warning("%s; the known pods (%d) go on", answer.why, len(self.pods))
            self.fault = answer
        else:
            if self.fault is not None:
                log.info("the API server lists the pods again")
            self._failures, self.fault = 0, None
            self._take(answer)
        return pause_s(self._failures, self._random())

    def _take(self, listed: PodList) -> None:
        for name, why in listed.faults.items():
            if self._faults.get(name) != why:
                log.warning("pod %s is not sampled: %s", name, why)
        before, now = ({pod.uid: pod.full_name for pod in pods} for pods in (self.pods, listed.pods))
        come = [name for uid, name in now.items() if uid not in before]
        gone = [name for uid, name in before.items() if uid not in now]
        if come or gone:
            named = {"new": shown(come, MOST_NAMES), "gone": shown(gone, MOST_NAMES)}
            changes = [f"{what}: {names}" for what, names in named.items() if names]
            log.info("pods to be sampled: %d; %s", len(listed.pods), "; ".join(changes))
        self.pods, self._faults = listed.pods, listed.faults

    def _run(self) -> None:
        wait_s = 0.0
        while not self._ended.wait(wait_s):
            try:
                wait_s = self.step()
            except Exception:
                # The agent must outlive a mistake of ours here.
                log.exception("asking for pods failed; sampling goes on")
                wait_s = LONGEST_PAUSE_S
