"""The newest accepted table comes from any server that has it, whole or in chunks."""

from collections.abc import Sequence

from msgspec.structs import replace
from steelyard_protocol import signature, table_chunks, weight_table, wire
from steelyard_protocol.memcached_client import Unavailable
from steelyard_protocol.weight_table import TablePeer, WeightTable
from steelyard_reporter.newest_tables import Tables

KEY = b"0123456789abcdef0123456789abcdef"


class Server:
    """A Memcached in memory; without values it is unreachable."""

    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.values: dict[str, bytes] | None = {}
        self.asked: list[str] = []

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the existing values."""
        if self.values is None:
            raise Unavailable("timed out")
        self.asked += keys
        return {key: self.values[key] for key in keys if key in self.values}

    def put(self, table: WeightTable) -> None:
        """Hold a table."""
        assert self.values is not None
        self.values[wire.weights_key("web")] = weight_table.encode(table)

    def put_chunks(self, table: WeightTable, key: bytes | None = None) -> list[str]:
        """Hold a table in a chunk for each server; return the chunks' keys."""

        def held(text: bytes) -> bytes:
            return text if key is None else signature.sign(key, text)

        assert self.values is not None
        chunks = {table_chunks.name_of(held(text)): held(text) for text in table_chunks.split(table, 1)}
        manifest = held(table_chunks.encode_manifest(table, list(chunks)))
        named = {wire.chunk_key("web", name): value for name, value in chunks.items()}
        self.values = {**named, wire.weights_key("web"): manifest}
        return list(named)


def _table(generation: int, *weights: int) -> WeightTable:
    return weight_table.with_digest(
        WeightTable(
            upstream="web", term=1, generation=generation, issued_at_ms=0, law="static", picker="vnswrr2",
            peers=tuple(
                TablePeer(id=f"s{n}", address=f"10.0.0.{n}:80", weight=weight, baseline=20, state="up")
                for n, weight in enumerate(weights or (20, 30), 1)
            ),
        )
    )  # fmt: skip


def _tables(*servers: Server, keys: Sequence[bytes] = ()) -> Tables:
    return Tables({each.name: each.get_many for each in servers}, ["web"], keys=keys, wall_clock=lambda: 0.0)


def test_a_newer_table_is_taken_and_an_older_one_is_not() -> None:
    server = Server()
    tables = _tables(server)
    for published, newest in ((2, 2), (1, 2), (3, 3)):
        server.put(_table(published))
        assert tables.fetch() == {}
        assert tables.newest["web"] == _table(newest)


def test_a_server_that_the_controller_does_not_reach_hides_no_newer_table() -> None:
    left_behind, other = Server("a"), Server("b")
    tables = _tables(left_behind, other)
    left_behind.put(_table(1))
    for generation in (1, 2, 3):
        other.put(_table(generation))
        assert tables.fetch() == {}
        assert tables.newest["web"].generation == generation
    left_behind.values, other.values = None, {}
    assert tables.fetch() == {}
    assert tables.newest["web"].generation == 3


def test_without_any_table_it_is_said_what_to_look_at() -> None:
    server, other = Server(), Server("b")
    other.values = None
    assert "is it declared, does a controller run?" in _tables(server, other).fetch()["web"]


def test_a_table_in_chunks_is_read() -> None:
    server = Server()
    tables = _tables(server)
    server.put_chunks(_table(1, 5, 6, 7))
    assert tables.fetch() == {}
    assert tables.newest["web"] == _table(1, 5, 6, 7)


def test_while_only_weights_move_no_chunk_is_read() -> None:
    server = Server()
    tables = _tables(server)
    server.put_chunks(_table(1, 5, 6, 7))
    tables.fetch()
    server.put_chunks(_table(2, 8, 9, 10))
    server.asked.clear()
    assert tables.fetch() == {}
    assert tables.newest["web"] == _table(2, 8, 9, 10)
    assert server.asked == [wire.weights_key("web")]


def test_while_a_chunk_is_lost_the_last_table_is_kept_and_then_the_new_one_taken() -> None:
    server = Server()
    tables = _tables(server)
    server.put_chunks(_table(1))
    tables.fetch()
    first, *_ = server.put_chunks(_table(2, 5, 6, 7))
    assert server.values is not None
    lost = server.values.pop(first)
    for _ in range(2):
        assert "1 of its 3 chunks are not in Memcached; the last good one is kept" in tables.fetch()["web"]
        assert tables.newest["web"] == _table(1)
    server.values[first] = lost
    assert tables.fetch() == {}
    assert tables.newest["web"] == _table(2, 5, 6, 7)


def test_a_chunk_that_somebody_else_wrote_is_refused() -> None:
    server = Server()
    tables = _tables(server, keys=[KEY])
    first, *_ = server.put_chunks(_table(1), KEY)
    assert server.values is not None
    good, server.values[first] = server.values[first], table_chunks.split(_table(1), 1)[0]
    assert "refused (unsigned)" in tables.fetch()["web"]
    assert tables.newest == {}
    server.values[first] = good
    assert tables.fetch() == {}
    assert tables.newest["web"] == _table(1)


def test_another_upstream_s_table_and_one_of_another_time_are_refused() -> None:
    server = Server()
    server.put(replace(_table(1), upstream="shop"))
    tables = _tables(server)
    assert "is that of shop" in tables.fetch()["web"]
    server.put_chunks(_table(1), KEY)
    late = Tables({server.name: server.get_many}, ["web"], keys=[KEY], wall_clock=lambda: 26 * 3600.0)
    assert "25 hours old" in late.fetch()["web"]
    assert tables.newest == late.newest == {}
