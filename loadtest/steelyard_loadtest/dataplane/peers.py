"""The servers behind the proxies, and their weight tables. Pure.

One listener on every address of this machine answers for all of them: 127/8 is
loopback, so each server has an address of its own.
"""

from dataclasses import dataclass, replace

from steelyard_controller.pipeline.weight_table import TablePeer, WeightTable

UPSTREAM = "web"
HEAVIEST = 10
STRIDE = 7
"""Prime to HEAVIEST: any ten neighbours have all ten weights, and no two alike stand together."""

MOST = 250 * 250 * 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A server: its id, IP:port and weight."""

    id: str
    address: str
    weight: int


def peers(count: int, port: int) -> tuple[Peer, ...]:
    """Return that many servers with weights 1..10, at distinct loopback addresses; none at 127.0.*."""
    if not 1 <= count <= MOST:
        raise ValueError(f"from 1 to {MOST} servers, not {count}")
    return tuple(
        Peer(
            id=f"server-{number:05}",
            address=f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}:{port}",
            weight=1 + STRIDE * number % HEAVIEST,
        )
        for number in range(count)
    )


def reweighed(before: tuple[Peer, ...]) -> tuple[Peer, ...]:
    """Return the servers with every weight changed: the heavy become light. Twice gives the first again."""
    return tuple(replace(peer, weight=HEAVIEST + 1 - peer.weight) for peer in before)


def cycle(servers: tuple[Peer, ...]) -> int:
    """Return after how many picks a round robin over these weights has begun again."""
    return sum(peer.weight for peer in servers)


def table(servers: tuple[Peer, ...], *, picker: str, generation: int, issued_at_ms: int) -> WeightTable:
    """Return the weight table that the controller would publish."""
    return WeightTable(
        upstream=UPSTREAM,
        term=1,
        generation=generation,
        issued_at_ms=issued_at_ms,
        law="static",
        picker=picker,
        peers=tuple(
            TablePeer(id=peer.id, address=peer.address, weight=peer.weight, baseline=peer.weight, state="up")
            for peer in servers
        ),
    )
