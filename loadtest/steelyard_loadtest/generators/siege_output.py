"""Reads what siege says: a line for each answer, its errors, and its figures at the end. Pure.

siege measures with times(2), whose ticks are 10 ms: so is the resolution of every
latency here, 0 among them; a mean of many is finer. It ends on a whole second of the
clock, up to 1 s before its time, and tells how long it was. Requests that are then
under way are counted nowhere, at most one of each user; nor are those that never get
an answer, which siege 4.0.7 did not end at its `timeout`.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from steelyard_loadtest.generators.tally import REFUSED, RESET, TIMEOUT, of_status, other, outcome_of
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.measurements.trials import Outcome

# Two threads may write into one line: whatever stands before the answer is left out.
_ANSWER = re.compile(r"HTTP/\d\.\d (\d{3}) +(\d+\.\d\d) secs:")
_COLOUR = re.compile(r"\x1b?\[[\d;]*m")
_PROBLEM = re.compile(r"\[(?:error|warning|alert)\] (.+)", re.IGNORECASE)
_PLACE = re.compile(r"\s*\w+\.c:\d+:?|socket:|\b\d{4,}\b")

LIFTED = "Lifting the server siege"
"""It says so when it begins to end."""

SILENT = other("siege does not say which")


@dataclass(frozen=True, slots=True, kw_only=True)
class Siege:
    """What one siege told: latencies of the answers that are successes, and failures by kind."""

    seconds: float
    requests: int
    kinds: Counter[str]
    latencies_ms: list[float]
    concurrency: float
    cpu_s: float


def shared_out(users: int, most: int) -> list[int]:
    """Share users out as evenly as can be over as few sieges of at most `most` as there can be."""
    sieges = max(math.ceil(users / most), 1)
    return [users // sieges + (number < users % sieges) for number in range(sieges)]


def together(sieges: Sequence[Siege]) -> Outcome:
    """Return the outcome of sieges that ran at the same time; there is at least one."""
    return outcome_of(
        list(chain.from_iterable(siege.latencies_ms for siege in sieges)),
        sum((siege.kinds for siege in sieges), Counter()),
        requests=sum(siege.requests for siege in sieges),
        seconds=max(siege.seconds for siege in sieges),
        concurrency=sum(siege.concurrency for siege in sieges),
        cpu_s=sum(siege.cpu_s for siege in sieges),
    )


def parse_siege(answers: Iterable[str], said: str, *, length_s: float, cpu_s: float) -> Siege:
    """Read siege's standard output (`answers`, verbose) and standard error (`said`).

    Concurrency is as siege has it: the time that all answers took, by the length of the
    siege. length_s: how long it was if it hung before it told its figures; all that is
    not in its lines is then missing. cpu_s: its CPU time. Raises UnreadableError.
    """
    latencies_ms: list[float] = []
    statuses: Counter[str] = Counter()
    in_flight_s = 0.0
    for line in answers:
        for status, latency_s in _ANSWER.findall(line):
            in_flight_s += float(latency_s)
            failure = of_status(int(status))
            if failure:
                statuses[failure] += 1
            else:
                latencies_ms.append(float(latency_s) * 1000)
    problems = Counter(map(_kind_of, _PROBLEM.findall(_COLOUR.sub("", said))))
    if LIFTED in said and "Transactions:" not in said:
        kinds = statuses + problems
        requests, seconds = len(latencies_ms) + kinds.total(), length_s
        concurrency = in_flight_s / seconds
    else:
        seconds = _figure(said, "Elapsed time")
        if seconds <= 0:
            raise UnreadableError("siege measured for less than 10 ms")
        kinds = _kinds(int(_figure(said, "Failed transactions")), statuses, problems)
        requests = int(_figure(said, "Transactions")) + kinds.total()
        concurrency = _figure(said, "Concurrency")
    return Siege(
        seconds=seconds,
        requests=requests,
        kinds=kinds,
        latencies_ms=latencies_ms,
        concurrency=concurrency,
        cpu_s=cpu_s,
    )


def _figure(said: str, name: str) -> float:
    match = re.search(rf"^{name}:\s+(\d+(?:\.\d+)?)", said, re.MULTILINE)
    if match is None:
        raise UnreadableError(f"siege did not say its `{name}`: {said[-300:].strip() or 'it said nothing'}")
    return float(match[1])


def _kinds(failures: int, statuses: Counter[str], problems: Counter[str]) -> Counter[str]:
    # Those with a status are sure; its error lines explain the rest, as far as they go.
    kinds = Counter(statuses)
    for kind, count in problems.items():
        explained = min(count, failures - kinds.total())
        if explained > 0:
            kinds[kind] += explained
    if kinds.total() < failures:
        kinds[SILENT] += failures - kinds.total()
    return kinds


def _kind_of(problem: str) -> str:
    text = problem.lower()
    if "timed out" in text:
        return TIMEOUT
    if "refused" in text:
        return REFUSED
    if "reset" in text or "broken pipe" in text:
        return RESET
    return other(_PLACE.sub("", problem))
