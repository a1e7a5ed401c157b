"""The table of a decision: its integers, on one scale."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from steelyard_controller import laws
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.tick.snapshot_builder import build_snapshot
from steelyard_controller.tick.table_builder import TableBuilder
from steelyard_protocol.weight_table import TablePeer, WeightTable

from ..laws.snapshots import snapshot


def _table(*baselines: float) -> WeightTable:
    upstream = Upstream(
        law="static",
        peers=[Peer(id=f"p{n}", address=f"10.0.0.{n + 1}:80", baseline=b) for n, b in enumerate(baselines)],
    )
    law = laws.create("static")
    _, decision = law.step(law.start(), build_snapshot(Inbox(), upstream.peers, now_s=1.0, tick_s=1.0))
    return TableBuilder("web").build(decision, upstream, term=2, generation=7, issued_at_ms=5)


def test_weights_and_baselines_have_one_scale() -> None:
    peers = _table(1, 1, 2).peers
    assert [peer.weight for peer in peers] == [peer.baseline for peer in peers] == [250, 250, 500]


@given(st.lists(st.floats(0.01, 0.95), min_size=3, max_size=3), st.sampled_from([None, 12.5]))
def test_a_table_has_the_decisions_integers_which_sum_to_s(cpu: list[float], pin: float | None) -> None:
    peers = [Peer(id=name, address=f"10.0.0.{n}:80", pin=pin) for n, name in enumerate("abc", 1)]
    law = laws.create("steelyard")
    pinned = np.array([math.nan if pin is None else 10 * pin, math.nan, math.nan])
    _, decision = law.step(law.start(), replace(snapshot(cpu=tuple(cpu)), pinned=pinned))
    table = TableBuilder("web").build(decision, Upstream(peers=peers), term=2, generation=7, issued_at_ms=5)
    assert [peer.weight for peer in table.peers] == decision.published.tolist()
    assert sum(peer.weight for peer in table.peers) == sum(peer.baseline for peer in table.peers) == 1000


def test_every_peer_has_at_least_weight_1() -> None:
    assert min(peer.weight for peer in _table(1, 100_000, 100_000).peers) >= 1


def test_the_table_carries_order_law_and_picker() -> None:
    table = _table(1, 2)
    assert (table.order, table.law, table.picker) == ((2, 7), "static", "vnswrr2")


def test_a_server_s_own_limit_is_in_its_row_and_in_the_digest() -> None:
    def table(most: int | None) -> WeightTable:
        upstream = Upstream(
            law="static",
            max_conns=64,
            peers=[Peer(id="a", address="10.0.0.1:80", baseline=1, max_conns=most)],
        )
        law = laws.create("static")
        _, decision = law.step(law.start(), build_snapshot(Inbox(), upstream.peers, now_s=1.0, tick_s=1.0))
        return TableBuilder("web").build(decision, upstream, term=2, generation=7, issued_at_ms=5)

    assert [table(most).peers[0].max_conns for most in (None, 256)] == [UNSET, 256]
    assert len({table(most).digest for most in (None, 128, 256)}) == 3


def test_an_upstream_without_peers_has_an_empty_table() -> None:
    assert _table().peers == ()


def _computed(capacity: float, declared: float | None = None) -> WeightTable:
    """Return the table of two servers; a has this many CPUs, and perhaps a declared baseline."""
    peers = [Peer(id="a", address="10.0.0.1:80", baseline=declared), Peer(id="b", address="10.0.0.2:80")]
    law = laws.create("steelyard")
    known = [(cpus, 125e6, 5000.0, 8e9) for cpus in (capacity, 2.0)]
    seen = snapshot(ids="ab", cpu=0.1, capacity=known, baseline=(declared, None))
    _, decision = law.step(law.start(), seen)
    return TableBuilder("web").build(decision, Upstream(peers=peers), term=2, generation=7, issued_at_ms=5)


def test_a_change_of_a_computed_baseline_leaves_the_digest_and_one_of_a_declared_does_not() -> None:
    before, after = _computed(2.0), _computed(8.0)
    assert [peer.baseline for peer in before.peers] != [peer.baseline for peer in after.peers]
    assert before.digest == after.digest
    assert _computed(2.0, declared=3.0).digest != _computed(2.0, declared=4.0).digest


def test_a_table_that_follows_others_is_the_one_that_a_first_one_would_be() -> None:
    upstream = Upstream(
        law="paper", peers=[Peer(id=name, address=f"10.0.0.{n}:80") for n, name in enumerate("abc", 1)]
    )
    changed = upstream.model_copy(update={"picker": "swrr"})
    law, following = laws.create("paper"), TableBuilder("web")
    memory, rows = law.start(), list[TablePeer]()
    for tick, (cpu, declared, reporters) in enumerate(
        [
            ((0.9, 0.1, 0.1), upstream, ()),
            ((0.9, 0.1, 0.1), upstream, ()),
            ((0.1, 0.9, 0.1), upstream, ("edge-1",)),
            ((0.1, 0.9, 0.1), upstream, ("edge-1",)),
            ((0.1, 0.1, 0.1), changed, ("edge-1",)),
        ]
    ):
        memory, decision = law.step(memory, snapshot(cpu=cpu))
        now, first = (
            builder.build(decision, declared, term=2, generation=tick, issued_at_ms=5, reporters=reporters)
            for builder in (following, TableBuilder("web"))
        )
        assert now == first
        rows += now.peers[:1]
    # Rows whose figures stay are made once.
    assert rows[0] is rows[1]
    assert len({id(row) for row in rows}) > 2
