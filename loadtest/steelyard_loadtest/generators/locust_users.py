"""Locust's side of a load: a closed loop of users without think time, as in the locust study.

Run by its path, with the arguments of `task`. A user sends, waits for the answer and sends again. While the
servers stall, nobody sends, so few requests see the stall.

A request costs locust 0.2 ms of CPU with 10 users, 0.25 ms with 100 and 0.3 ms with 500. This was measured
against an nginx on the same two cores that answers at once. So one process reaches its limit between 3000 and
4000 requests per second, and 400 per second take 13 % of a core. If a connection closes without an answer,
geventhttpclient tries again before it counts as `reset`.
"""

import gc
import logging
import sys
import time
from typing import Any

# Before all else, because its import replaces sockets and clocks.
from locust import FastHttpUser, task
from locust.env import Environment
from locust.exception import StopUser

from steelyard_loadtest.generators.job import Task, parse_task
from steelyard_loadtest.generators.recording import Recording
from steelyard_loadtest.generators.tally import UNANSWERED, Request, of_error, of_status
from steelyard_loadtest.machine.network import raise_files

START_S = 30.0
"""500 users start within a second, and later on a loaded machine."""

VISITORS: list["Visitor"] = []
"""Locust makes the users itself; this list knows them."""


class Visitor(FastHttpUser):  # type: ignore[misc]  # locust has no types
    """One user, who sends one request after the other until the end of the load."""

    path = ""
    until_s = float("inf")
    sent_s: float | None = None

    def on_start(self) -> None:
        """Register, so that an answer that never comes is counted, too."""
        VISITORS.append(self)

    @task  # type: ignore[untyped-decorator]
    def get(self) -> None:
        """Send one request; `record` writes it down."""
        self.sent_s = time.monotonic()
        if self.sent_s >= Visitor.until_s:
            self.sent_s = None
            raise StopUser
        self.client.get(self.path)
        self.sent_s = None


def run(load: Task) -> None:
    """Make the load, and leave its record in the load's folder."""
    Visitor.path = load.url
    Visitor.network_timeout = Visitor.connection_timeout = load.timeout_s
    environment = Environment(user_classes=[Visitor], host=load.url)
    recording = Recording(load.folder)

    def record(response_time: float, response: Any, exception: Any, **_: Any) -> None:  # noqa: ANN401
        status = getattr(response, "status_code", 0) or 0
        failure = of_status(status) or (of_error(exception) if exception else "")
        sent_s = time.monotonic() - response_time / 1000
        recording.add(Request(due_s=sent_s, latency_ms=response_time, failure=failure))

    environment.events.request.add_listener(record)
    runner = environment.create_local_runner()
    users = round(load.level)
    runner.start(users, spawn_rate=users, wait=False)
    runner.spawning_greenlet.get(timeout=START_S)
    began_s = time.monotonic() + load.warm_up_s
    Visitor.until_s = began_s + load.seconds
    recording.announce(began_s)
    time.sleep(max(began_s - time.monotonic(), 0.0))
    cpu_s = -time.process_time()
    time.sleep(max(Visitor.until_s - time.monotonic(), 0.0))
    cpu_s += time.process_time()
    for visitor in VISITORS:
        if visitor.sent_s is None:
            visitor.stop(force=True)
    runner.user_greenlets.join(timeout=load.finish_s)
    now_s = time.monotonic()
    for visitor in VISITORS:
        if visitor.sent_s is not None:
            waited_ms = (now_s - visitor.sent_s) * 1000
            recording.add(Request(due_s=visitor.sent_s, latency_ms=waited_ms, failure=UNANSWERED))
    recording.end(cpu_s)


if __name__ == "__main__":
    raise_files()
    logging.getLogger("locust").setLevel(logging.ERROR)  # all users at once are intended
    gc.freeze()  # the collector need not look through imported modules while requests wait
    run(parse_task(sys.argv[1:]))
