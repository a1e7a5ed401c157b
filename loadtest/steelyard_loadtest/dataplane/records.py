"""What was measured, and how it is read from wrk's and the kernel's words. Pure."""

import re
from dataclasses import dataclass

from steelyard_loadtest.machine.errors import UnreadableError

_FIGURES = re.compile(r"^figures((?: [a-z0-9_]+=-?\d+)+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What wrk counted in one run."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    non_2xx: int
    socket_errors: int

    @property
    def requests_per_s(self) -> float:
        """The rate at which requests were answered."""
        return self.requests / self.seconds

    @property
    def failed(self) -> int:
        """Requests that got no answer, or not the one they should have."""
        return self.non_2xx + self.socket_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One contender in one round. `cpu_s` and `resident_bytes` are the proxy's; None: there is no proxy."""

    contender: str
    peers: int
    round: int
    load: Load
    cpu_s: float | None
    resident_bytes: int | None

    @property
    def cpu_us_per_request(self) -> float | None:
        """The proxy's user and system time over the requests that wrk counted."""
        return None if self.cpu_s is None else 1e6 * self.cpu_s / self.load.requests

    @property
    def cpu_utilization(self) -> float | None:
        """How much of its one core the proxy used."""
        return None if self.cpu_s is None else self.cpu_s / self.load.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Reweighed:
    """One change of every weight: the load in the seconds before it and after it."""

    contender: str
    peers: int
    round: int
    before: Load
    after: Load


def parse_load(output: str) -> Load:
    """Read the line that templates/figures.lua has wrk print. Raises UnreadableError."""
    match = _FIGURES.search(output)
    if match is None:
        raise UnreadableError(f"wrk printed no figures but:\n{output.strip()[-500:]}")
    found = {name: int(value) for name, value in (pair.split("=") for pair in match[1].split())}
    try:
        load = Load(
            requests=found["requests"],
            seconds=found["duration_us"] / 1e6,
            p50_ms=found["p50_us"] / 1000,
            p99_ms=found["p99_us"] / 1000,
            p999_ms=found["p999_us"] / 1000,
            max_ms=found["max_us"] / 1000,
            non_2xx=found["non_2xx"],
            socket_errors=found["socket_errors"],
        )
    except KeyError as missing:
        raise UnreadableError(f"wrk printed no {missing.args[0]}") from None
    if load.requests < 1 or load.seconds <= 0:
        raise UnreadableError("wrk got no answer at all")
    return load
