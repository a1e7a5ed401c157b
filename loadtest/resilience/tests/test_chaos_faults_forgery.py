"""False values: each must match its description, or the faults prove nothing."""

import json
from typing import Any

from steelyard_protocol import signature, weight_table
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import Refused
from steelyard_resilience.chaos.faults import forgery

KEY = b"sixteen bytes at least"

TABLE: dict[str, Any] = {
    "v": 1, "upstream": "web", "term": 3, "generation": 118, "issued_at_ms": 1_790_000_000_000,
    "law": "steelyard", "picker": "vnswrr2", "reporters": ["edge-1"],
    "peers": [
        {"id": "server-1", "address": "10.0.0.11:80", "weight": 1, "baseline": 1, "state": "up"},
        {"id": "server-2", "address": "10.0.0.12:80", "weight": 2, "baseline": 1, "state": "up"},
    ],
}  # fmt: skip

TEXT = json.dumps(TABLE).encode()

MEMCACHED_ITEM_BYTES = 1024 * 1024


def decoded(text: bytes) -> WeightTable:
    table = weight_table.decode(text)
    assert isinstance(table, WeightTable), table
    return table


def reason(value: bytes, key: bytes) -> str:
    table = signature.read(key, value, weight_table.decode)
    assert isinstance(table, Refused), "it is believed"
    return table.reason


def test_a_signed_value_has_its_text_behind_the_signature() -> None:
    assert forgery.text_of(signature.sign(KEY, TEXT)) == TEXT


def test_a_steering_table_would_be_believed_but_for_its_signature() -> None:
    table = decoded(forgery.steering(TEXT))
    assert table.order > decoded(TEXT).order
    assert [peer.id for peer in table.peers] == ["server-1", "server-2"]
    assert {peer.address for peer in table.peers}.isdisjoint({"10.0.0.11:80", "10.0.0.12:80"})


def test_another_key_s_signature_is_refused_as_such() -> None:
    assert reason(forgery.signed_by_another(TEXT), KEY) == "signature"


def test_ten_thousand_peers_are_a_table_that_fits_memcached_and_keeps_the_real_servers() -> None:
    text = forgery.with_many_peers(TEXT)
    table = decoded(text)
    assert table.order > decoded(TEXT).order
    assert len({peer.id for peer in table.peers}) == len(table.peers) == 10_000
    assert {peer.id for peer in decoded(TEXT).peers} < {peer.id for peer in table.peers}
    assert len(signature.sign(KEY, text)) < MEMCACHED_ITEM_BYTES - 1000


def test_an_old_report_is_an_hour_older_and_of_another_run() -> None:
    report = {"v": 1, "boot": "5f0c0001", "seq": 7, "sent_at_ms": 1_790_000_000_000, "ids": []}
    old = forgery.of_an_hour_ago(json.dumps(report).encode())
    assert json.loads(old)["sent_at_ms"] == 1_790_000_000_000 - 3_600_000
    now, then = (signature.sign(KEY, text) for text in (json.dumps(report).encode(), old))
    assert forgery.run_of(now) == "5f0c0001"
    assert forgery.run_of(then) != forgery.run_of(now)
