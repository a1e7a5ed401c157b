"""An upstream with zones: the factors for its load balancers, and the share of each server."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from steelyard_controller.api import metrics
from steelyard_controller.cli.api_documents import Overview
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.views import service_status
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.overview import overview
from steelyard_controller.tick.upstream_zones import by_zone, crossing
from steelyard_protocol import weight_table
from steelyard_protocol.weight_table import MOST_ZONES

from ..examples import advance, report, sample

# A request takes a hundredth of each server.
CAPACITY = 100
LBS = {"edge-1": "x", "edge-2": "y"}


def cycle(zones: Mapping[str, str | None]) -> Cycle:
    peers = [
        Peer(id=name, address=f"10.0.0.{n}:80", baseline=1, zone=zone)
        for n, (name, zone) in enumerate(zones.items(), 1)
    ]
    return Cycle("web", Declaration(upstream=Upstream(peers=peers, load_balancers=list(LBS))), tick_s=1.0)


def ticks(
    one: Cycle,
    count: int,
    *,
    brings: Mapping[str, float],
    lbs: Mapping[str, str | None] = LBS,
    since: int = 1,
    out: str = "",
) -> Outcome:
    """Let load balancers bring this many requests/s for a time, by their last tables."""
    for tick in range(since, since + count):
        done = {lb: of_table(one, lbs[lb], rate, out) for lb, rate in brings.items()}
        values = {}
        for peer in one.declaration.upstream.peers:
            busy = sum(each[peer.id] for each in done.values()) / CAPACITY
            values[f"steelyard:1:sample:web:{peer.id}"] = sample(peer.id, seq=tick, cpu=busy)
        for lb, counts in done.items():
            figures: dict[str, Any] = {
                peer: (count, 0, 0, 10.0 if count else None) for peer, count in counts.items()
            }
            values[f"steelyard:1:traffic:web:{lb}"] = report(lb, seq=tick, zone=lbs[lb], **figures)
        outcome, _ = advance(one, values, now_s=float(tick), term=3, issued_at_ms=tick, addresses={})
        one.outcome = outcome
    return outcome


def of_table(one: Cycle, zone: str | None, rate: float, out: str = "") -> dict[str, int]:
    """Return the shares of a load balancer's requests by server, as in the data plane."""
    peers = one.declaration.upstream.peers
    weights = {peer.id: 1.0 for peer in peers}
    if one.outcome is not None:
        table = one.outcome.table
        names, told = [*(table.zones or ()), ""], table.zone_factors or ()
        row = told[names.index(zone)] if told and zone in names else [1] * len(names)
        weights = {
            each.id: each.weight * row[names.index(each.zone or "" if told else "")] for each in table.peers
        }
    if out:
        weights[out] = 0
    total = sum(weights.values())
    return {peer: round(rate * weight / total) for peer, weight in weights.items()}


def test_within_the_headroom_all_stay_and_beyond_it_what_is_more_goes_to_the_other_zone() -> None:
    one = cycle({"a": "x", "b": "y"})
    table = ticks(one, 40, brings={"edge-1": 50, "edge-2": 20}).table
    assert table.zones == ("x", "y")
    assert [row.zone for row in table.peers] == ["x", "y"]
    assert table.zone_factors is not None
    assert [row[:2] for row in table.zone_factors[:2]] == [(1000, 1), (1, 1000)]
    assert table.zone_factors[2] == (1000, 1000, 1)
    assert weight_table.decode(weight_table.encode(table)) == table
    # 70 of 100 requests/s are a load of 0.7.
    outcome = ticks(one, 40, brings={"edge-1": 100, "edge-2": 20}, since=41)
    assert outcome.zoning is not None
    counts = of_table(one, "x", 100)
    assert counts["a"] == pytest.approx(70, abs=5)
    assert of_table(one, "y", 20) == {"a": 0, "b": 20}


def test_a_server_in_a_quiet_zone_is_not_taken_to_be_away() -> None:
    """All requests go past it; without zones it would get half of them."""
    one = cycle({"a": "x", "b": "y"})
    quiet = ticks(one, 60, brings={"edge-1": 60, "edge-2": 0})
    assert quiet.decision.columns["away"].tolist() == [0, 0]
    assert quiet.table.peers[1].weight == pytest.approx(500, abs=100)


def test_what_a_server_that_all_have_ejected_could_carry_is_not_its_zones_any_more() -> None:
    one = cycle({"a": "x", "b": "x", "c": "y", "d": "y"})
    ticks(one, 40, brings={"edge-1": 100, "edge-2": 20})
    assert of_table(one, "x", 100)["a"] == pytest.approx(50, abs=5)
    ticks(one, 6, brings={"edge-1": 100, "edge-2": 20}, since=41, out="b")
    # The other server can take 70 of the 100 at a load of 0.7.
    assert of_table(one, "x", 100, out="b")["a"] == pytest.approx(72, abs=8)


def test_nothing_grows_where_no_server_or_no_load_balancer_is_in_a_zone() -> None:
    nowhere: dict[str, str | None] = dict.fromkeys(LBS)
    for zones, lbs in (({"a": None, "b": None}, LBS), ({"a": "x", "b": "y"}, nowhere), ({"a": "z"}, LBS)):
        table = ticks(cycle(zones), 3, brings={"edge-1": 50, "edge-2": 20}, lbs=lbs).table
        assert table.zones is None
        assert not any(
            b"zone_factors" in text for text in (weight_table.encode(table), weight_table.encode_head(table))
        )
        assert ('"zone"' in weight_table.encode(table).decode()) == (zones["a"] is not None)


def test_factors_change_in_the_head_and_zones_in_the_digest() -> None:
    one = cycle({"a": "x", "b": "y"})
    before = ticks(one, 20, brings={"edge-1": 50, "edge-2": 20}).table
    after = ticks(one, 20, brings={"edge-1": 120, "edge-2": 20}, since=21).table
    assert before.digest == after.digest
    assert before.zone_factors != after.zone_factors
    assert json.loads(weight_table.encode_head(after))["zone_factors"] == [
        list(row) for row in after.zone_factors or ()
    ]
    moved = ticks(cycle({"a": "x", "b": "x"}), 20, brings={"edge-1": 50, "edge-2": 20}).table
    assert moved.digest != before.digest


def test_what_crosses_is_shown_by_zone() -> None:
    one = cycle({"a": "x", "b": "y"})
    outcome = ticks(one, 60, brings={"edge-1": 120, "edge-2": 20})
    document = overview(outcome, one.declaration)
    traffic = document["zone_traffic"]
    assert traffic["y"] == {"brings_per_s": pytest.approx(20), "crosses_per_s": pytest.approx(0, abs=0.5)}
    assert traffic["x"]["brings_per_s"] == pytest.approx(120, abs=2)
    assert traffic["x"]["crosses_per_s"] == pytest.approx(50, abs=8)
    rows = {row["zone"]: row for row in document["by_zone"]}
    assert [rows["x"][name] for name in ("servers", "up", "load_balancers")] == [1, 1, ["edge-1"]]
    assert rows["x"]["crosses_to"] == {"y": pytest.approx(traffic["x"]["crosses_per_s"])}
    assert rows["x"]["share"] + rows["y"]["share"] == pytest.approx(1)
    assert rows["y"]["brings_per_s"] == pytest.approx(20)
    assert crossing(outcome) == pytest.approx(50 / 140, abs=0.06)
    text = metrics.render(metrics.Source(views={"web": one}), now_s=60.0).decode()
    assert 'steelyard_zone_requests_per_second{upstream="web",zone="x"}' in text
    assert 'steelyard_zone_crossing_requests_per_second{upstream="web",zone="y"}' in text
    (line,) = [
        each
        for each in service_status.of_overview(Overview.model_validate(document), Look())
        if each.startswith("zones: ")
    ]
    assert line.startswith("zones: 3")
    assert line.endswith(", y 0 %")


def test_servers_have_places_also_while_no_zone_is_in_force() -> None:
    nowhere: dict[str, str | None] = dict.fromkeys(LBS)
    outcome = ticks(cycle({"a": "x", "b": None}), 3, brings={"edge-1": 50, "edge-2": 20}, lbs=nowhere)
    rows = by_zone(outcome)
    assert [(row["zone"], row["servers"], row["load_balancers"]) for row in rows] == [
        ("x", 1, []), (None, 1, ["edge-1", "edge-2"])
    ]  # fmt: skip
    assert rows[0]["brings_per_s"] is None
    assert crossing(outcome) is None
    assert by_zone(ticks(cycle({"a": None}), 3, brings={"edge-1": 50, "edge-2": 20}, lbs=nowhere)) == []


def test_a_table_has_at_most_so_many_zones() -> None:
    peers = [Peer(id=f"p{n}", address=f"10.0.0.{n}:80", zone=f"z{n}") for n in range(MOST_ZONES + 1)]
    with pytest.raises(ValueError, match=f"{MOST_ZONES + 1} zones; a weight table has at most {MOST_ZONES}"):
        Upstream(peers=peers)
