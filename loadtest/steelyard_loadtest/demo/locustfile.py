"""What locust runs in a phase of the demo: users that GET one path at a constant total rate.

Locust imports this file by its path, so it is told what to do by environment:
    STEELYARD_DEMO_PATH       what to GET
    STEELYARD_DEMO_USER_RATE  requests per second of each user
    STEELYARD_DEMO_REQUESTS   CSV to write: started_s, latency_ms, status, server
    STEELYARD_DEMO_READY      file to write the time to, once all users run
Times are the monotonic clock's, which on Linux all processes share.
"""

import csv
import os
import random
import time
from pathlib import Path
from typing import Any

from locust import FastHttpUser, events, task

PATH = os.environ["STEELYARD_DEMO_PATH"]
USER_RATE = float(os.environ["STEELYARD_DEMO_USER_RATE"])
READY = Path(os.environ["STEELYARD_DEMO_READY"])
# 64 KiB, a few thousand requests: writing each line by itself would cost locust more than sending it.
OUTPUT = Path(os.environ["STEELYARD_DEMO_REQUESTS"]).open("w", newline="", buffering=1 << 16)  # noqa: SIM115
ROWS = csv.writer(OUTPUT)


class DemoUser(FastHttpUser):  # type: ignore[misc]  # locust has no types
    """One user, who sends at random moments (a Poisson process) whatever the answers' latency.

    Locust's own constant_throughput keeps users who were started together in step:
    every period all of them would send at once.
    """

    network_timeout = 30.0
    connection_timeout = 5.0
    due_s = 0.0

    def on_start(self) -> None:
        """Begin with a wait, so that the users do not begin with one burst."""
        self.due_s = time.monotonic()
        time.sleep(self.wait_time())

    def wait_time(self) -> float:
        """Give the seconds until the next request is due; 0 when late, at most one being made up for."""
        now_s = time.monotonic()
        self.due_s = max(self.due_s, now_s - 1 / USER_RATE) + random.expovariate(USER_RATE)
        return max(self.due_s - now_s, 0.0)

    @task  # type: ignore[untyped-decorator]
    def get(self) -> None:
        """Send one request; the listener below records it."""
        self.client.get(PATH)


@events.request.add_listener  # type: ignore[untyped-decorator]
def record(response_time: float, response: Any, **_: Any) -> None:  # noqa: ANN401
    """Write one request down: called by locust when its answer is there, or will not come."""
    latency_s = response_time / 1000
    status = getattr(response, "status_code", 0) or 0
    headers = getattr(response, "headers", None) or {}
    row = (time.monotonic() - latency_s, response_time, status, headers.get("X-Served-By", ""))
    ROWS.writerow((f"{row[0]:.4f}", f"{row[1]:.3f}", row[2], row[3]))


@events.spawning_complete.add_listener  # type: ignore[untyped-decorator]
def ready(**_: Any) -> None:  # noqa: ANN401
    """Tell the demo that all users run, in one step, so that it never reads half a number."""
    fresh = READY.with_suffix(".new")
    fresh.write_text(repr(time.monotonic()))
    fresh.replace(READY)


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def close(**_: Any) -> None:  # noqa: ANN401
    """Write out what is buffered."""
    OUTPUT.flush()
