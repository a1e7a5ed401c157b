from steelyard_controller import laws
from steelyard_controller.assemble import assemble
from steelyard_controller.declared.upstream import Peer, Upstream
from steelyard_controller.pipeline.intake import Intake
from steelyard_controller.pipeline.weight_table import WeightTable
from steelyard_controller.tabulate import tabulate


def _table(*baselines: float) -> WeightTable:
    upstream = Upstream(
        law="static",
        peers=[Peer(id=f"p{n}", address=f"10.0.0.{n + 1}:80", baseline=b) for n, b in enumerate(baselines)],
    )
    law = laws.create("static")
    _, decision = law.step(law.start(), assemble(Intake(), upstream.peers, now_s=1.0, tick_s=1.0))
    return tabulate(decision, upstream, name="web", term=2, generation=7, issued_at_ms=5)


def test_weights_and_baselines_have_one_scale() -> None:
    assert [(peer.weight, peer.baseline) for peer in _table(1, 1, 2).peers] == [(1, 1), (1, 1), (2, 2)]


def test_every_peer_has_at_least_weight_1() -> None:
    assert min(peer.weight for peer in _table(1, 100_000, 100_000).peers) >= 1


def test_the_table_carries_order_law_and_picker() -> None:
    table = _table(1, 2)
    assert (table.order, table.law, table.picker) == ((2, 7), "static", "vnswrr2")


def test_an_upstream_without_peers_has_an_empty_table() -> None:
    assert _table().peers == ()
