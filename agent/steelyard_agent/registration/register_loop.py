"""Registers this server at a controller at intervals, in its own thread: sampling never waits.

`register_request` has the requests and the intervals. Every change is logged once.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from steelyard_agent.http_exchange import Answer
from steelyard_agent.registration import register_request
from steelyard_agent.registration.controller_client import NoAnswer
from steelyard_agent.registration.register_flags import Url
from steelyard_agent.registration.register_request import Registration, Verdict

log = logging.getLogger(__name__)

Client = Callable[..., Answer | NoAnswer]
"""Sends a request, as `controller_client.ControllerClient` does; never raises."""


class RegisterLoop:
    """One server's registration at the first of several controllers that answers.

    `step` may be called alone; `random` is within 0..1 and spreads requests.
    """

    def __init__(
        self, wanted: Registration, urls: Sequence[Url], client: Client, *, random: Callable[[], float]
    ) -> None:
        self._wanted = wanted
        self._urls = list(urls)
        self._client = client
        self._random = random
        self._failures = 0
        self._fault: str | None = None
        self._registered_at = ""
        self._withdraw = False
        self._ended = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="register", daemon=True)

    def start(self) -> None:
        """Start the thread: register now, and then again and again."""
        self._thread.start()

    def register_now(self) -> None:
        """Register now instead of at the end of the pause."""
        self._woken.set()

    def stop(self, *, withdraw: bool) -> None:
        """End, after taking the registration back if so; waits for nothing."""
        self._withdraw = withdraw
        self._ended.set()
        self._woken.set()

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended, but not longer."""
        self._thread.join(timeout_s)
        if self._withdraw and self._thread.is_alive():
            log.warning("%s: no controller answered in time: it stays declared", self._name)

    @property
    def registered(self) -> bool:
        """Return whether a controller accepted the last registration."""
        return bool(self._registered_at) and self._fault is None

    def step(self) -> float:
        """Register once; return the seconds to the next time."""
        faults = []
        for _ in self._urls:
            url = self._urls[0]
            answer = self._client(url, "PUT", self._wanted.path, self._wanted.body)
            if self._ended.is_set():
                return 0.0
            verdict, why = _judged(answer)
            if isinstance(answer, Answer) and verdict is Verdict.TAKEN:
                self._taken(answer, url)
                return register_request.pause_after_taken_s(self._random())
            self._urls.append(self._urls.pop(0))
            if isinstance(answer, Answer) and verdict is Verdict.REFUSED:
                self._failed(why, f"{url} does not register it: {why}")
                return register_request.pause_after_refusal_s(answer.status, self._random())
            faults.append(f"{url}: {why}")
        self._failures += 1
        self._failed("no answer", f"no controller registers it ({', '.join(faults)})")
        return register_request.pause_after_failure_s(self._failures, self._random())

    def withdraw(self) -> None:
        """Take the registration back; one try at each controller."""
        faults = []
        for url in self._urls:
            answer = self._client(url, "DELETE", self._wanted.path)
            verdict, why = _judged(answer)
            if verdict is Verdict.TAKEN or (isinstance(answer, Answer) and answer.status == 404):
                log.info("%s is deregistered with %s", self._name, url)
                return
            faults.append(f"{url}: {why}")
        log.warning("%s is not deregistered and stays declared (%s)", self._name, ", ".join(faults))

    @property
    def _name(self) -> str:
        return f"{self._wanted.upstream}/{self._wanted.peer}"

    def _run(self) -> None:
        pause_s = register_request.SPREAD_S * self._random()
        while True:
            self._woken.wait(pause_s)
            self._woken.clear()
            if self._ended.is_set():
                break
            try:
                pause_s = self.step()
            except Exception:
                # The agent must outlive a mistake of ours here.
                log.exception("registering failed; sampling goes on")
                pause_s = register_request.RARELY_S
        if self._withdraw:
            self.withdraw()

    def _taken(self, answer: Answer, url: Url) -> None:
        at = self._wanted.reached_at(answer.source_ip)
        if self._fault is not None or at != self._registered_at:
            again = " again" if at == self._registered_at else ""
            log.info("%s is registered%s at %s with %s", self._name, again, at, url)
        elif answer.status == 201:
            log.info("%s is registered again at %s with %s, which had lost it", self._name, at, url)
        self._registered_at, self._fault, self._failures = at, None, 0

    def _failed(self, kind: str, fault: str) -> None:
        # By kind: which controller was asked first, and how each one failed, changes with every try.
        if kind != self._fault:
            log.warning("%s: %s; sampling goes on, and it is tried again", self._name, fault)
        self._fault = kind


def _judged(answer: Answer | NoAnswer) -> tuple[Verdict, str]:
    if isinstance(answer, NoAnswer):
        return Verdict.NO_ANSWER, answer.why
    return register_request.verdict(answer.status), register_request.reason(answer.status, answer.body)
