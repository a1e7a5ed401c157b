"""The steps of churn: what operators do to an upstream, again and again, with ever new servers. Pure.

Whatever keeps something about each server or upstream that it ever heard of, and never lets
go of it, grows with the guests: each has an id and an address that were not there before. A
round leaves all as it was before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

PER_NETWORK = 250
"""Guests' addresses are 10.214.x.1 to 10.214.x.250."""
GUESTS = "10.214.0.0/16"
GUEST_NETWORKS = 256

PICKERS = ("vnswrr", "least_conn", "peak_ewma")
LAWS = ("cswrr", "paper", "static")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server of the upstream, as declared before the first step."""

    id: str
    address: str
    baseline: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request to the controller.

    members: of the upstream's declaration, which is read, changed by them and put back; without them, the
    document is sent as it is.
    """

    words: str
    method: str
    path: str
    document: Mapping[str, object] | None = None
    members: Mapping[str, object] | None = None
    standby: bool = False
    """Ask a controller that does not lead, which hands the request on."""
    watch: bool = False
    """Listen to the events for a moment, and leave without a word, as a closed page does."""


def steps(upstream: str, servers: Sequence[Server]) -> Iterator[Step]:
    """Return steps without end: round after round, each with the next servers. There are three at least."""
    for number in count():
        yield from _round(upstream, servers, number)


def guest_address(number: int, port: int) -> str:
    """Return the address of a guest; the same one comes again only after 64,000 others."""
    network, host = divmod(number, PER_NETWORK)
    return f"10.214.{network % GUEST_NETWORKS}.{host + 1}:{port}"


def _round(upstream: str, servers: Sequence[Server], number: int) -> Iterator[Step]:
    # Three different servers, so that most of them always serve.
    drained, changed, removed = (servers[(number + apart) % len(servers)] for apart in range(3))
    port = int(servers[0].address.rpartition(":")[2])
    guest, path = f"guest-{number}", f"/v1/upstreams/{upstream}"
    at = guest_address(number, port)
    picker, law = PICKERS[number % len(PICKERS)], LAWS[number % len(LAWS)]

    def peer(words: str, server: Server, **members: object) -> Step:
        return Step(words=words, method="PATCH", path=f"{path}/peers/{server.id}", document=members)

    def whole(words: str, **members: object) -> Step:
        return Step(words=words, method="PUT", path=path, members=members)

    yield Step(words="a guest comes", method="PUT", path=f"{path}/peers/{guest}", document={"address": at})
    yield peer("drain", drained, state="drain")
    yield peer("another baseline", changed, baseline=2.0)
    yield Step(words="look", method="GET", path=path)
    yield Step(words="watch", method="GET", path="/v1/events", watch=True)
    yield peer("up again", drained, state=None)
    yield whole("another picker", picker=picker)
    yield Step(words="explain a guest", method="GET", path=f"{path}/peers/{guest}/explain")
    yield Step(words="the guest leaves", method="DELETE", path=f"{path}/peers/{guest}")
    yield peer("pin", drained, pin=10.0)
    yield whole("another parameter", parameters={"H": 0.25})
    yield peer("the old baseline", changed, baseline=changed.baseline)
    yield Step(words="remove a server", method="DELETE", path=f"{path}/peers/{removed.id}")
    yield peer("unpin", drained, pin=None)
    yield Step(words="metrics", method="GET", path="/metrics")
    yield Step(
        words="add it again",
        method="PUT",
        path=f"{path}/peers/{removed.id}",
        document={"address": removed.address, "baseline": removed.baseline},
    )
    yield whole("another law", law=law, parameters={})
    yield Step(
        words="declare a guest upstream",
        method="PUT",
        path=f"/v1/upstreams/{guest}",
        document={"peers": [{"id": guest, "address": at}]},
        standby=True,
    )
    yield Step(words="the past", method="GET", path=f"{path}/history?seconds=60&step_s=5", standby=True)
    yield whole("all as before", law="steelyard", parameters={}, picker="vnswrr2")
    yield Step(words="forget the guest upstream", method="DELETE", path=f"/v1/upstreams/{guest}")
