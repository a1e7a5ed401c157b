"""Weight tables too large for one Memcached item: a manifest, and the rows in chunks."""

from typing import TYPE_CHECKING

import pytest
from steelyard_protocol import signature, table_chunks, weight_table, wire
from steelyard_protocol.weight_table import WeightTable

from openresty.tests.test_heads import HEAD, KEYED, SECRET, TABLE, put, table

if TYPE_CHECKING:
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

CHUNK_BYTES = 160
"""Two rows."""


def publish(rig: "Rig", made: WeightTable, secret: str | None = None, *, but: int = 0) -> list[str]:
    """Write a table in chunks as the controller does, `but` one of them; return their keys."""
    texts = table_chunks.split(made, CHUNK_BYTES)
    values = [text if secret is None else signature.sign(secret.encode(), text) for text in texts]
    names = [table_chunks.name_of(value) for value in values]
    keys = [wire.chunk_key("web", name) for name in names]
    for number, (key, value) in enumerate(zip(keys, values, strict=True), start=1):
        if number != but:
            rig.memcached.set(key, value)
    put(rig, TABLE, table_chunks.encode_manifest(made, names), secret)
    put(rig, HEAD, weight_table.encode_head(made), secret)
    return keys


def servers(rig: "Rig", count: int = 5) -> list[tuple[str, str, int]]:
    """Return rows. The first and the last are servers that answer; the others have no share."""
    a, z = rig.backend("a"), rig.backend("z")
    rows = [(f"m{number}", f"127.0.0.1:{number}", 1) for number in range(1, count - 1)]
    return [("a", a.address, 500), *rows, ("z", z.address, 500)]


def split_evenly(shares: dict[str, int]) -> bool:
    # A request that a server refuses is tried elsewhere.
    return 15 <= shares.get("a", 0) <= 25 and sum(shares.values()) == 40


@pytest.mark.parametrize("secret", [None, SECRET])
def test_a_table_in_chunks_is_served_and_its_weights_are_read_from_the_head(
    rig: "Rig", secret: str | None
) -> None:
    rows = servers(rig)
    assert len(publish(rig, table(*rows, generation=1), secret)) == 3
    edge = rig.edge(options=KEYED if secret else "")
    edge.wait_for(1)
    rig.wait_until(lambda: split_evenly(edge.shares(40)), "both are served")
    put(rig, HEAD, weight_table.encode_head(table(("a", rows[0][1], 1), *rows[1:], generation=2)), secret)
    edge.wait_for(2)
    assert edge.peer("a")["weight"] == 1
    assert edge.peer("z")["weight"] == 500
    publish(rig, table(*rows[1:], generation=3), secret)
    edge.wait_for(3)
    rig.wait_until(lambda: edge.shares(10) == {"z": 10}, "the servers of the new table")
    # A late reader, whose head does not rise any more, finds the manifest of generation 1.
    assert edge.logged("is refused (") == edge.logged("is refused (older)")


def test_while_a_chunk_is_missing_the_last_table_holds_and_the_chunk_is_asked_for_again(rig: "Rig") -> None:
    rows = servers(rig)
    publish(rig, table(*rows, generation=1))
    edge = rig.edge()
    edge.wait_for(1)
    changed = table(*rows[1:], generation=2)
    publish(rig, changed, but=2)
    line = "is not whole: 1 of its 2 chunks are not there; the last table holds, and they are asked for again"
    rig.wait_until(lambda: edge.logged(line) == 1, "the missing chunk is logged once")
    edge.wait_for(1)
    rig.wait_until(lambda: split_evenly(edge.shares(40)), "the last table is served")
    publish(rig, changed)
    edge.wait_for(2)
    rig.wait_until(lambda: edge.shares(10) == {"z": 10}, "the table is taken whole")


def test_a_chunk_that_somebody_else_has_written_changes_nothing(rig: "Rig") -> None:
    rows = servers(rig)
    publish(rig, table(*rows, generation=1), SECRET)
    edge = rig.edge(options=KEYED)
    edge.wait_for(1)
    changed = table(*rows[1:], generation=2)
    first, second = table_chunks.split(changed, CHUNK_BYTES)
    key = wire.chunk_key("web", table_chunks.name_of(signature.sign(SECRET.encode(), first)))
    put(rig, key, first, "another key")
    publish(rig, changed, SECRET, but=1)
    edge.wait_refused("signature")
    put(rig, key, second, SECRET)  # signed, but another part
    publish(rig, table(*rows[1:], generation=3), SECRET, but=1)
    edge.wait_refused("name")
    edge.wait_for(1)
    publish(rig, table(*rows[1:], generation=4), SECRET)
    edge.wait_for(4)


def test_a_manifest_whose_rows_are_in_use_needs_no_chunks(rig: "Rig") -> None:
    rows = servers(rig)
    publish(rig, table(*rows, generation=1))
    edge = rig.edge()
    edge.wait_for(1)
    later = table(("a", rows[0][1], 7), *rows[1:], generation=2)
    put(rig, TABLE, table_chunks.encode_manifest(later, ["0a", "0b"]))
    edge.wait_for(2)  # its head does not rise, so nginx reads the table's key
    assert edge.peer("a")["weight"] == 7
