"""Weight tables for the tests of Envoy's protocol."""

from typing import Any

from steelyard_protocol.weight_table import State, TablePeer, WeightTable


def peer(name: str, address: str = "10.0.0.1:80", weight: int = 20, state: State = "up") -> TablePeer:
    """Return a row."""
    return TablePeer(id=name, address=address, weight=weight, baseline=20, state=state)


def table(*peers: TablePeer, **changes: Any) -> WeightTable:
    """Return a table of upstream `web`."""
    fields = {"upstream": "web", "term": 1, "generation": 1, "issued_at_ms": 0, "law": "steelyard"}
    return WeightTable(**{**fields, "picker": "vnswrr2", "peers": peers, **changes})
