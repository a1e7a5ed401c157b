import json

import numpy as np
import pytest
from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.laws.snapshot import Snapshot
from steelyard_controller.messages.inbox import Inbox, receive
from steelyard_controller.messages.received import ReadContext
from steelyard_controller.tick.snapshot_builder import build_snapshot, in_band_utilization

from ..examples import report, sample

PEERS = [Peer(id="a", address="10.0.0.1:80", baseline=1), Peer(id="b", address="10.0.0.2:80", state="drain")]


def _snapshot(inbox: Inbox, now_s: float, tick_s: float = 1.0) -> Snapshot:
    return build_snapshot(inbox, PEERS, now_s=now_s, tick_s=tick_s)


def _inbox(now_s: float, before: Inbox | None = None, **values: bytes) -> Inbox:
    reports = {name.replace("_", "-"): value for name, value in values.items() if name.startswith("edge")}
    samples = {name: values.get(name) for name in ("a", "b")}
    return receive(before or Inbox(), ReadContext("web", now_s), samples=samples, reports=reports)


def test_a_sample_is_new_only_at_the_tick_it_arrived() -> None:
    inbox = _inbox(1.0, a=sample("a", cpu=0.5))
    fresh, later = _snapshot(inbox, 1.0), _snapshot(inbox, 2.0)
    assert fresh.utilization[0].tolist() == [0.5, 0.1, 0.0, 0.3]
    assert np.isnan(later.utilization[0]).all()
    assert np.isnan(fresh.utilization[1]).all()


def test_what_cannot_be_measured_is_nan() -> None:
    snapshot = _snapshot(_inbox(1.0, a=sample("a", utilization=(0.5, None, None, 0.3))), 1.0)
    assert np.isnan(snapshot.utilization[0]).tolist() == [False, True, True, False]


def test_capacity_is_remembered_between_samples() -> None:
    assert _snapshot(_inbox(1.0, a=sample("a")), 5.0).capacity[0, 0] == 2.0


def test_a_leaving_server_is_marked_and_its_last_sample_is_not_learnt_from() -> None:
    snapshot = _snapshot(_inbox(1.0, a=sample("a", leaving=True)), 1.0)
    assert snapshot.leaving.tolist() == [True, False]
    assert np.isnan(snapshot.utilization[0]).all()


def test_the_reports_of_all_load_balancers_are_summed() -> None:
    snapshot = _snapshot(
        _inbox(1.0, edge_1=report("edge-1", a=(30, 1, 2, 4.0)), edge_2=report("edge-2", a=(10, 0, 1, 8.0))),
        1.0,
    )
    assert (snapshot.completed[0], snapshot.failed[0], snapshot.in_flight[0]) == (40, 1, 3)
    assert snapshot.latency_s[0] == (30 * 0.004 + 10 * 0.008) / 40


def test_the_median_is_believed_before_the_mean_and_weighted_by_requests() -> None:
    snapshot = _snapshot(
        _inbox(
            1.0,
            edge_1=report("edge-1", a=(30, 1, 2, 350.0, 4.0), b=(2, 0, 0, 5000.0, 3.0)),
            edge_2=report("edge-2", a=(10, 0, 1, 900.0, 8.0), b=(2, 0, 0, 5.0)),
        ),
        1.0,
    )
    assert snapshot.latency_s[0] == (30 * 0.004 + 10 * 0.008) / 40
    assert snapshot.latency_s[1] == (2 * 0.003 + 2 * 0.005) / 4  # edge-2 reports no median.


def test_a_peer_without_an_agent_is_judged_by_what_it_says_in_its_responses() -> None:
    inbox = _inbox(
        1.0,
        a=sample("a", cpu=0.5),
        edge_1=report(
            "edge-1",
            a=(30, 0, 0, 4.0, 4.0, {"utilization": 0.9}),
            b=(30, 0, 0, 4.0, 4.0, {"utilization": 0.8, "mem_utilization": 0.4}),
        ),
        edge_2=report("edge-2", b=(10, 0, 0, 4.0, 4.0, {"utilization": 0.4, "named_metrics": {"queue": 3}})),
        edge_3=report("edge-3", b=(10, 0, 0, 4.0)),
    )
    now, later = _snapshot(inbox, 1.0), _snapshot(inbox, 2.0)
    assert now.utilization[0].tolist() == [0.5, 0.1, 0.0, 0.3]  # Its agent's values.
    assert now.utilization[1, [0, 3]].tolist() == pytest.approx([0.7, 0.4])
    assert np.isnan(now.utilization[1, [1, 2]]).all()
    assert np.isnan(now.capacity[1]).all()
    assert np.isnan(later.utilization).all()  # No message is new.


def test_a_peer_whose_agent_is_silent_is_judged_by_what_it_says_unless_it_leaves() -> None:
    def utilization(leaving: bool, now_s: float) -> float:
        before = _inbox(1.0, a=sample("a", cpu=0.5, leaving=leaving))
        told = report("edge-1", seq=int(now_s), a=(30, 0, 0, 4.0, 4.0, {"utilization": 0.9}))
        return float(_snapshot(_inbox(now_s, before, edge_1=told), now_s).utilization[0, 0])

    assert utilization(leaving=False, now_s=5.0) == 0.9
    assert np.isnan(utilization(leaving=False, now_s=4.0))
    assert np.isnan(utilization(leaving=True, now_s=5.0))


def test_counts_are_brought_to_the_tick() -> None:
    snapshot = _snapshot(_inbox(1.0, edge_1=report(interval_s=2.0, a=(30, 2, 5, 4.0))), 1.0)
    assert (snapshot.completed[0], snapshot.failed[0], snapshot.in_flight[0]) == (15, 1, 5)


def test_a_peer_without_a_report_is_unknown_not_idle() -> None:
    snapshot = _snapshot(_inbox(1.0, edge_1=report(a=(30, 0, 0, 4.0))), 1.0)
    assert np.isnan(snapshot.completed[1])
    assert np.isnan(snapshot.latency_s[1])


def test_without_any_new_report_nothing_is_known_of_the_traffic() -> None:
    assert np.isnan(_snapshot(_inbox(1.0, edge_1=report(a=(30, 0, 0, 4.0))), 2.0).completed).all()


def test_a_load_balancer_that_is_late_counts_with_its_last_report() -> None:
    first = _inbox(
        1.0, edge_1=report("edge-1", a=(30, 0, 0, None)), edge_2=report("edge-2", a=(10, 0, 0, None))
    )
    second = _inbox(
        2.0,
        first,
        edge_1=report("edge-1", seq=2, a=(32, 0, 0, None)),
        edge_2=report("edge-2", a=(10, 0, 0, None)),
    )
    assert _snapshot(second, 2.0).completed[0] == 42


def test_a_load_balancer_that_has_gone_is_not_counted_for_ever() -> None:
    first = _inbox(
        1.0, edge_1=report("edge-1", a=(30, 0, 0, None)), edge_2=report("edge-2", a=(10, 0, 0, None))
    )
    later = _inbox(
        9.0,
        first,
        edge_1=report("edge-1", seq=9, a=(32, 0, 0, None)),
        edge_2=report("edge-2", a=(10, 0, 0, None)),
    )
    assert _snapshot(later, 9.0).completed[0] == 32


def test_only_peers_that_are_up_are_eligible() -> None:
    assert _snapshot(_inbox(1.0), 1.0).eligible.tolist() == [True, False]


FURTHER = {"cpu": None, "mem": 0.9, "workers": None, "queue": 0.5}


def test_the_columns_are_the_declared_indicators_and_what_is_not_declared_is_left_out() -> None:
    inbox = _inbox(1.0, a=sample("a", further=(("workers", 0.7), ("cache", 0.9), ("queue", None))))
    snapshot = build_snapshot(inbox, PEERS, now_s=1.0, tick_s=1.0, knees=FURTHER)
    assert snapshot.indicators == ("cpu", "mem", "workers", "queue")
    assert snapshot.utilization[0, :3].tolist() == [0.5, 0.3, 0.7]
    assert np.isnan(snapshot.utilization[0, 3])
    assert np.isnan(snapshot.utilization[1]).all()
    assert np.isnan(snapshot.knees[[0, 2]]).all()
    assert snapshot.knees[[1, 3]].tolist() == [0.9, 0.5]
    assert snapshot.capacity[0].tolist() == [2.0, 1.0, 1.0, 1.0]  # The hardware's, whatever the declaration.


def test_a_server_whose_agent_knows_only_the_four_has_no_further_ones() -> None:
    snapshot = build_snapshot(_inbox(1.0, a=sample("a")), PEERS, now_s=1.0, tick_s=1.0, knees=FURTHER)
    assert snapshot.utilization[0, :2].tolist() == [0.5, 0.3]
    assert np.isnan(snapshot.utilization[0, 2:]).all()


def test_without_an_agent_named_utilizations_count_and_named_metrics_where_they_are_declared() -> None:
    told = {"utilization": 0.4, "named_metrics": {"utilization.workers": 0.8, "queue": 0.2, "rps": 120.0}}
    other = {"named_metrics": {"utilization.workers": 0.4, "workers": 9.0, "queue": 40.0}}
    inbox = _inbox(
        1.0,
        edge_1=report("edge-1", a=(30, 0, 0, 4.0, 4.0, told)),
        edge_2=report("edge-2", a=(10, 0, 0, 4.0, 4.0, other)),
    )
    snapshot = build_snapshot(inbox, PEERS, now_s=1.0, tick_s=1.0, knees=FURTHER)
    # 40 is not a utilization, whatever the declaration.
    assert snapshot.utilization[0, [0, 2, 3]].tolist() == pytest.approx([0.4, 0.7, 0.2])
    reports = [each.message for each in inbox.reports.values()]
    assert in_band_utilization(reports, "a") == pytest.approx(
        {"cpu": 0.4, "net": None, "io": None, "mem": None, "workers": 0.7}
    )
    assert in_band_utilization(reports, "b") is None


def test_without_an_agent_what_is_in_flight_is_a_part_of_max_conns_where_that_is_declared() -> None:
    knees = {"cpu": None, "max_conns": None}
    counts = (30, 0, 12, 4.0)
    edge_1, edge_2 = report("edge-1", a=counts, b=counts), report("edge-2", a=(9, 0, 4, 4.0))
    inbox = _inbox(1.0, edge_1=edge_1, edge_2=edge_2)

    def used(inbox: Inbox, now_s: float) -> list[float]:
        peers = [PEERS[0], PEERS[1].model_copy(update={"max_conns": 24})]
        snapshot = build_snapshot(inbox, peers, now_s=now_s, tick_s=1.0, knees=knees, max_conns=64)
        assert np.isnan(snapshot.utilization[:, 0]).all() or "a" in inbox.samples
        return list(snapshot.utilization[:, 1])

    assert used(inbox, 1.0) == [16 / 64, 12 / 24]
    # Only at the tick of a new report, and not for a server with samples.
    assert np.isnan(used(inbox, 2.0)).all()
    sampled = _inbox(3.0, inbox, a=sample("a"), edge_1=report("edge-1", seq=2, a=counts, b=counts))
    assert used(sampled, 3.0) == pytest.approx([np.nan, 12 / 24], nan_ok=True)
    assert build_snapshot(inbox, PEERS, now_s=1.0, tick_s=1.0).indicators == ("cpu", "net", "io", "mem")


def test_a_server_is_up_for_as_long_as_its_newest_sample_says() -> None:
    snapshot = _snapshot(_inbox(1.0, a=sample("a", up_s=2.5), b=sample("b")), 1.0)
    np.testing.assert_array_equal(snapshot.up_s, [2.5, np.nan])


def _with_costs(value: bytes, **costs: float) -> bytes:
    document = json.loads(value)
    return json.dumps({**document, "cost": [costs[peer] for peer in document["ids"]]}).encode()


def test_costs_are_summed_where_every_load_balancer_tells_them() -> None:
    first = _with_costs(report("edge-1", interval_s=2.0, a=(30, 1, 2, 4.0), b=(1, 0, 0, 1.0)), a=90.0, b=8.0)
    second = report("edge-2", a=(10, 0, 1, 8.0))
    both = _snapshot(_inbox(1.0, edge_1=first, edge_2=_with_costs(second, a=5.5)), 1.0)
    np.testing.assert_array_equal(both.cost, [50.5, 4.0])
    one = _snapshot(_inbox(1.0, edge_1=first, edge_2=second), 1.0)
    np.testing.assert_array_equal(one.cost, [np.nan, 4.0])
    none = _snapshot(_inbox(1.0, edge_2=second), 1.0)
    assert np.isnan(none.cost).all()


def test_an_upstream_without_servers_has_an_empty_snapshot() -> None:
    inbox = _inbox(1.0, edge_1=report("edge-1", a=(30, 0, 12, 4.0)))
    snapshot = build_snapshot(inbox, [], now_s=1.0, tick_s=1.0, knees={"cpu": None, "max_conns": None})
    assert snapshot.utilization.shape == (0, 2)
