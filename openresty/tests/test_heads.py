"""Heads of weight tables: nginx reads a head instead of the table while servers and settings stay."""

import json
import re
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from steelyard_protocol import signature, weight_table
from steelyard_protocol.weight_table import TablePeer, WeightTable

from testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

TABLE, HEAD = "steelyard:1:weights:web", "steelyard:1:head:web"
SECRET = "the key of the tests, 32 bytes.."  # noqa: S105
KEYED = f'key = "{SECRET}",'


def table(*rows: tuple[str, str, int], generation: int, term: int = 1, **members: Any) -> WeightTable:
    return weight_table.with_digest(
        WeightTable(
            upstream="web", term=term, generation=generation, issued_at_ms=time.time_ns() // 1_000_000,
            law="steelyard", picker="vnswrr",
            peers=tuple(
                TablePeer(id=peer, address=address, weight=weight, baseline=1, state="up")
                for peer, address, weight in rows
            ), **members,
        )
    )  # fmt: skip


def put(rig: "Rig", key: str, text: bytes, secret: str | None = None) -> None:
    rig.memcached.set(key, text if secret is None else signature.sign(secret.encode(), text))


def publish(rig: "Rig", made: WeightTable, secret: str | None = None) -> None:
    """Write a table and its head, as the controller does."""
    put(rig, TABLE, weight_table.encode(made), secret)
    put(rig, HEAD, weight_table.encode_head(made), secret)


def bytes_read(rig: "Rig") -> int:
    """Return the number of bytes that Memcached has sent."""
    with socket.create_connection(("127.0.0.1", rig.memcached.port), timeout=PATIENCE_S) as client:
        client.sendall(b"stats\r\n")
        answer = b""
        while not answer.endswith(b"END\r\n"):
            answer += client.recv(65536)
    written = re.search(rb"STAT bytes_written (\d+)", answer)
    assert written is not None
    return int(written[1])


def test_weights_alone_are_read_from_the_head_and_servers_from_the_table(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rows = [("a", a.address, 1), ("b", b.address, 1)]
    publish(rig, table(*rows, generation=1))
    edge = rig.edge(workers=2)
    edge.wait_for(1)
    # Each worker has a ring of its own: an odd number of requests at each of two tilts the shares by one.
    rig.wait_until(lambda: edge.shares(40) == {"a": 20, "b": 20}, "equal weights")

    put(rig, HEAD, weight_table.encode_head(table(("a", a.address, 3), rows[1], generation=2)))
    edge.wait_for(2)
    rig.wait_until(lambda: edge.shares(40) == {"a": 30, "b": 10}, "the head's weights")
    assert edge.peer("a")["weight"] == 3

    publish(rig, table(rows[1], generation=3))
    edge.wait_for(3)
    rig.wait_until(lambda: edge.shares(10) == {"b": 10}, "the servers of the table")
    publish(rig, table(("b", b.address, 5), generation=4))
    edge.wait_for(4)


def test_a_table_whose_servers_stay_is_not_read_again(rig: "Rig") -> None:
    rows = [(f"server-{number:04}", f"127.0.0.1:{10_000 + number}", 1) for number in range(1000)]
    publish(rig, table(*rows, generation=1))
    edge = rig.edge()
    edge.wait_for(1)
    size, before = len(weight_table.encode(table(*rows, generation=2))), bytes_read(rig)
    assert size > 70_000
    for generation in range(2, 22):
        rows[generation] = (*rows[generation][:2], generation)
        publish(rig, table(*rows, generation=generation))
        edge.wait_for(generation)
    assert edge.peer("server-0021")["weight"] == 21
    # Without heads, each of the twenty tables would be read, most of them twice. One is read if a busy
    # machine lets two seconds pass without a new one.
    assert bytes_read(rig) - before < 10 * size


def test_a_controller_that_writes_no_heads_and_one_that_does_may_follow_each_other(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rows = [("a", a.address, 1), ("b", b.address, 1)]
    rig.publish([(*row, "up") for row in rows], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    publish(rig, table(*rows, generation=2, term=2))
    edge.wait_for(2, term=2)
    # The controller without heads leads again. The last head remains for a while, and is older.
    rig.publish([("b", b.address, 1, "up")], generation=3, term=3)
    put(rig, HEAD, weight_table.encode_head(table(*rows, generation=1, term=1)))
    edge.wait_for(3, term=3)
    rig.wait_until(lambda: edge.shares(10) == {"b": 10}, "the table is read")


def test_a_head_that_does_not_rise_is_not_relied_upon(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rows = [("a", a.address, 1), ("b", b.address, 1)]
    publish(rig, table(*rows, generation=1))
    edge = rig.edge()
    edge.wait_for(1)
    put(rig, TABLE, weight_table.encode(table(rows[1], generation=2)))
    edge.wait_for(2)


def test_a_table_that_is_lost_leaves_the_last_one_until_it_is_back(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rows = [("a", a.address, 1), ("b", b.address, 1)]
    publish(rig, table(*rows, generation=1))
    edge = rig.edge()
    edge.wait_for(1)
    changed = table(rows[1], generation=2)
    with socket.create_connection(("127.0.0.1", rig.memcached.port), timeout=PATIENCE_S) as client:
        client.sendall(f"delete {TABLE}\r\n".encode())
        assert client.recv(100) == b"DELETED\r\n"
    put(rig, HEAD, weight_table.encode_head(changed))
    rig.wait_until(lambda: edge.logged("upstream web: no weight table in Memcached"), "the loss is logged")
    edge.wait_for(1)
    assert edge.shares(10) == {"a": 5, "b": 5}
    publish(rig, changed)
    edge.wait_for(2)


@pytest.mark.parametrize("reason", ["signature", "unsigned", "older", "upstream", "not_json"])
def test_a_head_that_is_refused_moves_nothing_and_the_table_is_read(rig: "Rig", reason: str) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rows = [("a", a.address, 1), ("b", b.address, 1)]
    publish(rig, table(*rows, generation=5), SECRET)
    edge = rig.edge(options=KEYED)
    edge.wait_for(5)
    false = weight_table.encode_head(
        table(("a", a.address, 9), rows[1], generation=4 if reason == "older" else 6)
    )
    if reason == "upstream":
        false = false.replace(b'"web"', b'"api"')
    secret = {"signature": "another key", "unsigned": None}.get(reason, SECRET)
    put(rig, HEAD, b"{" if reason == "not_json" else false, secret)
    edge.wait_refused(reason)
    source = f"memcached 127.0.0.1:{rig.memcached.port}"
    line = f"the head of the weight table of {source} is refused ({reason})"
    rig.wait_until(lambda: edge.logged(line) == 1, "the refusal is logged")
    edge.wait_for(5)
    assert edge.shares(10) == {"a": 5, "b": 5}
    put(rig, TABLE, weight_table.encode(table(rows[1], generation=7)), SECRET)
    edge.wait_for(7)


def test_a_head_without_enough_weights_is_none(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    made = table(("a", a.address, 1), ("b", b.address, 1), generation=1)
    publish(rig, made)
    edge = rig.edge()
    edge.wait_for(1)
    document = json.loads(weight_table.encode_head(made))
    put(rig, HEAD, json.dumps({**document, "generation": 2, "weights": [1]}).encode())
    put(rig, TABLE, weight_table.encode(table(("b", b.address, 1), generation=3)))
    edge.wait_for(3)


def test_what_the_head_brought_is_saved(rig: "Rig", tmp_path: Any) -> None:
    a = rig.backend("a")
    publish(rig, table(("a", a.address, 1), generation=1))
    edge = rig.edge(options=f'state_dir = "{tmp_path}",')
    edge.wait_for(1)
    put(rig, HEAD, weight_table.encode_head(table(("a", a.address, 7), generation=2)))
    edge.wait_for(2)
    saved = tmp_path / "web.weights"
    rig.wait_until(lambda: saved.exists() and json.loads(saved.read_text())["generation"] == 2, "it is saved")
    assert json.loads(saved.read_text())["peers"][0]["weight"] == 7


def test_baselines_that_the_digest_leaves_out_are_read_now_and_then(rig: "Rig") -> None:
    a = rig.backend("a")

    def of(baseline: int, generation: int) -> WeightTable:
        made = table(("a", a.address, 1), generation=generation)
        rows = tuple(replace(peer, baseline=baseline) for peer in made.peers)
        return weight_table.with_digest(replace(made, peers=rows), [None])

    publish(rig, of(1, 1))
    edge = rig.edge(options="hold_s = 0,")
    edge.wait_for(1)
    generation = 1

    def read() -> bool:
        nonlocal generation
        generation += 1
        publish(rig, of(7, generation))
        return bool(edge.peer("a")["baseline"] == 7)

    rig.wait_until(read, "the baseline of a table of the same digest")
