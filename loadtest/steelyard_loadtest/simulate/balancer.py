"""One load balancer: its picker, and the counts of which its traffic reports are made. Pure."""

from dataclasses import dataclass

import numpy as np

from steelyard_loadtest.simulate.model import Floats
from steelyard_loadtest.simulate.pickers.picker import Picker
from steelyard_loadtest.simulate.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one balancer saw of each server in one window: k each; `latency_s` is the sum over `completed`."""

    ended_s: float
    completed: Floats
    failed: Floats
    in_flight: Floats
    latency_s: Floats


class Balancer:
    """Sends requests to where its picker says, and counts what becomes of them."""

    __slots__ = ("_completed", "_failed", "_in_flight", "_latency_s", "index", "picker")

    def __init__(self, index: int, picker: Picker, servers: int) -> None:
        self.index, self.picker = index, picker
        self._in_flight = [0] * servers
        self._clear(servers)

    def _clear(self, servers: int) -> None:
        self._completed, self._failed, self._latency_s = [0] * servers, [0] * servers, [0.0] * servers

    def pick(self, now_s: float, request: Request, key: int) -> int:
        """Choose the request's server."""
        server = self.picker.pick(now_s, key)
        request.server = server
        self._in_flight[server] += 1
        return server

    def answered(self, now_s: float, request: Request) -> None:
        """Count an answer, and tell the picker."""
        server = request.server
        self._in_flight[server] -= 1
        if request.ok:
            self._completed[server] += 1
            self._latency_s[server] += now_s - request.sent_s
        else:
            self._failed[server] += 1
        self.picker.answered(server, request.sent_s, now_s, request.ok)

    def report(self, now_s: float) -> Report:
        """Return the window's counts and begin the next window."""
        report = Report(
            ended_s=now_s,
            completed=np.array(self._completed, dtype=float),
            failed=np.array(self._failed, dtype=float),
            in_flight=np.array(self._in_flight, dtype=float),
            latency_s=np.array(self._latency_s),
        )
        self._clear(len(self._in_flight))
        return report
