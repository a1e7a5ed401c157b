"""The timetable of a soak: its length and load, and the steps of churn. Pure.

The steps are an operator's changes to an upstream, again and again, with new servers. Each churned server has
a new id and a new address, so a process that never forgets a server or an upstream grows with them. A round
restores the state before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import count

from steelyard_controller import laws
from steelyard_controller.declarations.upstream import Peer

RELOADED_PART = 1 / 3
"""All reloads are in this part of a soak. The last workers live through the rest, because a leak shows better
in a longer life."""

RELOADS = 6
RELOAD_EVERY_LEAST_S = 20.0

LEAST_S, MOST_S = 90.0, 7000.0
"""A shorter soak leaves too little to judge after the warm-up; the load's generator ends after two hours."""

READINGS = 360
"""Readings of a soak, enough for its slopes; two of them are at least a second apart."""

CHURNED = IPv4Network("10.214.0.0/16")
"""The addresses of the churned servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A soak: its length, its load, and the interval of its changes."""

    seconds: float = 1800.0
    rate_per_s: float = 200.0
    servers: int = 5
    nginx_workers: int = 2
    step_every_s: float = 1.0

    @property
    def read_every_s(self) -> float:
        """Return the time between two readings."""
        return max(1.0, self.seconds / READINGS)

    @property
    def reloads_s(self) -> tuple[float, ...]:
        """Return the times of nginx's reloads."""
        until_s = self.seconds * RELOADED_PART
        every_s = max(RELOAD_EVERY_LEAST_S, until_s / RELOADS)
        return tuple(every_s * number for number in range(1, int(until_s / every_s) + 1))


@dataclass(frozen=True, slots=True)
class Step:
    """One request to the controller.

    members: changes to the upstream's declaration, which is read, changed and put back; without them, the
    document is sent unchanged.
    """

    words: str
    method: str
    path: str
    document: Mapping[str, object] | None = None
    members: Mapping[str, object] | None = None
    standby: bool = False
    """Send it to the standby, which forwards it."""
    watch: bool = False
    """Read events for a moment, and disconnect without a message, like a closed page."""


def steps(upstream: str, servers: Sequence[Peer], pickers: Sequence[str]) -> Iterator[Step]:
    """Return steps without end: round after round, each with the next servers and picker.

    servers: the declared servers, at least three. pickers: without the default.
    """
    for number in count():
        yield from _round(upstream, servers, pickers[number % len(pickers)], number)


def churned_address(number: int, port: int) -> str:
    """Return the address of a churned server; addresses repeat only after 65,000 others."""
    return f"{CHURNED[1 + number % (CHURNED.num_addresses - 2)]}:{port}"


def _round(upstream: str, servers: Sequence[Peer], picker: str, number: int) -> Iterator[Step]:
    # Three different servers, so that most of them always serve.
    drained, changed, removed = (servers[(number + apart) % len(servers)] for apart in range(3))
    port = int(servers[0].address.rpartition(":")[2])
    churned, path = f"churned-{number}", f"/v1/upstreams/{upstream}"
    at = churned_address(number, port)
    others = laws.NAMES[1:]
    law = others[number % len(others)]

    def peer(words: str, server: Peer, **members: object) -> Step:
        return Step(words, "PATCH", f"{path}/peers/{server.id}", members)

    def whole(words: str, **members: object) -> Step:
        return Step(words, "PUT", path, members=members)

    yield Step("add a server", "PUT", f"{path}/peers/{churned}", {"address": at})
    yield peer("drain", drained, state="drain")
    yield peer("another baseline", changed, baseline=2.0)
    yield Step("look", "GET", path)
    yield Step("watch", "GET", "/v1/events", watch=True)
    yield peer("up again", drained, state=None)
    yield whole("another picker", picker=picker)
    yield Step("explain it", "GET", f"{path}/peers/{churned}/explain")
    yield Step("remove it", "DELETE", f"{path}/peers/{churned}")
    yield peer("pin", drained, pin=10.0)
    yield whole("another parameter", parameters={"H": 0.25})
    yield peer("the old baseline", changed, baseline=changed.baseline)
    yield Step("remove a server", "DELETE", f"{path}/peers/{removed.id}")
    yield peer("unpin", drained, pin=None)
    yield Step("metrics", "GET", "/metrics")
    again = {"address": removed.address, "baseline": removed.baseline}
    yield Step("add it again", "PUT", f"{path}/peers/{removed.id}", again)
    yield whole("another law", law=law, parameters={})
    own = {"peers": [{"id": churned, "address": at}]}
    yield Step("declare an upstream of it", "PUT", f"/v1/upstreams/{churned}", own, standby=True)
    yield Step("the past", "GET", f"{path}/history?seconds=60&step_s=5", standby=True)
    yield whole("restore the settings", law="steelyard", parameters={}, picker="vnswrr2")
    yield Step("forget its upstream", "DELETE", f"/v1/upstreams/{churned}")
