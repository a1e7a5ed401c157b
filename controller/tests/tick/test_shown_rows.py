"""The rows that the page shows: their order, filter and page."""

from typing import Any

import pytest
from msgspec.structs import replace
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.fault_causes import MANY
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.overview import MOST_REFUSED, of_view
from steelyard_controller.tick.shown_rows import (
    LEVELS,
    ORDERS,
    Standing,
    Standings,
    View,
    rows,
    standing,
    totals,
    upstreams,
)

from ..examples import advance, report, sample


def declared(count: int = 12, **changes: dict[str, Any]) -> Declaration:
    """Return the servers s1, s2, … with these changes of their fields."""
    peers = [
        Peer.model_validate({"id": f"s{n}", "address": f"10.0.0.{n}:80", **changes.get(f"s{n}", {})})
        for n in range(1, count + 1)
    ]
    return Declaration(upstream=Upstream(peers=peers, load_balancers=["edge-1"]))


def ticked(
    declaration: Declaration,
    *,
    silent: tuple[str, ...] = (),
    failing: dict[str, int] | None = None,
    cpu: dict[str, float] | None = None,
    moved: tuple[str, ...] = (),
    name: str = "web",
    refused: int = 0,
) -> Cycle:
    """Return an upstream after two ticks; all servers but the silent ones send samples."""
    cycle = Cycle(name, declaration, tick_s=1.0)
    ids = [peer.id for peer in declaration.upstream.peers]
    counts: Any = {id: (100, (failing or {}).get(id, 0), 1, 5.0) for id in ids}
    for now_s in (0.0, 1.0):
        seq = int(now_s) + 1
        values: dict[str, bytes] = {
            f"steelyard:1:sample:{name}:{id}": sample(
                id, seq=seq, upstream=name, cpu=(cpu or {}).get(id, 0.5)
            )
            for id in ids
            if id not in silent
        }
        for id in ids[:refused]:
            values[f"steelyard:1:sample:{name}:{id}"] = b"?"
        told = report(seq=seq, **counts).replace(b'"upstream": "web"', b'"upstream": "%s"' % name.encode())
        values[f"steelyard:1:traffic:{name}:edge-1"] = told
        outcome, _ = advance(cycle, values, now_s=now_s, term=1, issued_at_ms=0, addresses={})
        cycle.outcome = outcome
    for id in moved:
        outcome.decision.published[ids.index(id)] //= 2
    return cycle


def shown(cycle: Cycle, **view: Any) -> list[str]:
    return [outcome_of(cycle).table.peers[row].id for row in rows(outcome_of(cycle), View(**view))[0]]


def outcome_of(cycle: Cycle) -> Outcome:
    assert cycle.outcome is not None
    return cycle.outcome


def test_the_worst_come_first_failures_then_silence_then_what_is_out_then_who_moved() -> None:
    cycle = ticked(
        declared(s3={"state": "drain"}, s4={"state": "down"}, s9={"pin": 5}),
        silent=("s5",),
        failing={"s7": 1, "s8": 9},
        moved=("s11",),
    )
    assert shown(cycle, order="worst")[:7] == ["s8", "s7", "s5", "s4", "s3", "s9", "s11"]
    assert shown(cycle, troubled=True, order="worst") == ["s8", "s7", "s5", "s4", "s3", "s9"]
    document = of_view(outcome_of(cycle), cycle.declaration, View(search="s7"))
    assert [row["troubles"] for row in document["peers"]] == [["requests fail"]]


def test_servers_that_are_alike_keep_their_places() -> None:
    one = ticked(declared(), cpu={"s2": 0.51, "s5": 0.52})
    other = ticked(declared(), cpu={"s2": 0.52, "s5": 0.51})
    assert shown(one, order="worst") == shown(other, order="worst")


def test_as_declared_where_all_fit_and_the_worst_first_where_not() -> None:
    cycle = ticked(declared(), failing={"s9": 1})
    table = [peer.id for peer in outcome_of(cycle).table.peers]
    assert shown(cycle, limit=12) == table
    assert shown(cycle, limit=5)[0] == "s9"


def test_names_sort_as_people_count_and_pages_go_on() -> None:
    cycle = ticked(declared())
    assert shown(cycle, order="name") == [f"s{n}" for n in range(1, 13)]
    assert shown(cycle, order="-name", offset=10, limit=5) == ["s2", "s1"]
    assert shown(cycle, order="name", offset=99) == []


def test_what_is_not_known_comes_last_whichever_way_it_is_sorted() -> None:
    cycle = ticked(declared(3), silent=("s2",), cpu={"s3": 0.9})
    assert shown(cycle, order="busy") == ["s1", "s3", "s2"]
    assert shown(cycle, order="-busy") == ["s3", "s1", "s2"]


@pytest.mark.parametrize("order", ORDERS)
def test_each_order_shows_every_server_once(order: str) -> None:
    cycle = ticked(declared(), silent=("s2",))
    assert sorted(shown(cycle, order=order)) == sorted(shown(cycle, order=f"-{order}"))


@pytest.mark.parametrize(
    ("search", "found"),
    [(" S1 ", ["s1", "s10", "s11", "s12"]), ("0.0.3:", ["s3"]), ("drain", ["s2"]), ("up", []), ("*", [])],
)
def test_a_search_finds_names_addresses_and_states(search: str, found: list[str]) -> None:
    cycle = ticked(declared(s2={"state": "drain"}))
    assert sorted(shown(cycle, search=search)) == sorted(found)
    assert rows(outcome_of(cycle), View(search=search, limit=1))[1] == len(found)


def test_the_totals_are_of_all_servers_whatever_is_shown() -> None:
    cycle = ticked(declared(s3={"state": "down"}, s4={"pin": 5}), failing={"s1": 4}, silent=("s2",))
    some = of_view(outcome_of(cycle), cycle.declaration, View(limit=2))
    totals = some["totals"]
    assert (len(some["peers"]), some["matching"], totals["servers"], totals["up"]) == (2, 12, 12, 11)
    assert (totals["completed_per_tick"], totals["failed_per_tick"], totals["latency_ms"]) == (1200, 4, 5)
    assert (totals["share"], totals["pinned"]) == (pytest.approx(1), 5)
    assert totals["utilization"]["cpu"] == pytest.approx(0.5)


def test_an_upstream_without_servers_has_totals_and_no_troubles() -> None:
    cycle = Cycle("web", Declaration(upstream=Upstream()), tick_s=1.0)
    cycle.outcome, _ = advance(cycle, {}, now_s=0.0, term=1, issued_at_ms=0, addresses={})
    document = of_view(cycle.outcome, cycle.declaration, View(order="worst", troubled=True))
    assert (list(document["peers"]), document["totals"]["servers"], document["totals"]["weight"]) == (
        [],
        0,
        None,
    )


def test_of_thousands_of_refused_values_a_view_has_some_and_how_many_there_are() -> None:
    cycle = ticked(declared(40), refused=30)
    document = of_view(outcome_of(cycle), cycle.declaration, View())
    assert (len(document["refused"]["now"]), document["refused"]["sources"]) == (MOST_REFUSED, 30)


def fleet() -> dict[str, Cycle]:
    """Return upstreams with different troubles."""
    cycles = {
        "well": ticked(declared(), name="well"),
        "moved": ticked(declared(), name="moved", moved=("s1",)),
        "new": Cycle("new", declared(), tick_s=1.0),
        "silent-1": ticked(declared(), name="silent-1", silent=("s1",)),
        "silent-3": ticked(declared(), name="silent-3", silent=("s1", "s2", "s3")),
        "failing": ticked(declared(), name="failing", failing={"s1": 2}),
        "broken": ticked(declared(s1={"address": "10.9.9.9:81"}), name="broken"),
        "well-10": ticked(declared(), name="well-10"),
        "well-9": ticked(declared(), name="well-9"),
    }
    cycles["broken"].outcome = replace(outcome_of(cycles["broken"]), degraded=("memcached: no answer",))
    return cycles


def own(cycles: dict[str, Cycle]) -> dict[str, Standing]:
    """Return the standing of each upstream by its own troubles."""
    return Standings().of_all(cycles)[0]


def named(cycles: dict[str, Cycle], **view: Any) -> list[str]:
    return [each.cycle.name for each in upstreams(cycles, View(**view), own(cycles))[0]]


def test_the_worst_upstreams_come_first() -> None:
    cycles = fleet()
    assert named(cycles, order="worst") == [
        "new", "broken", "failing", "silent-3", "silent-1", "moved", "well", "well-9", "well-10"
    ]  # fmt: skip
    assert named(cycles, order="worst", troubled=True, offset=1, limit=3) == ["broken", "failing", "silent-3"]
    assert named(cycles)[:2] == ["broken", "failing"]


def test_where_all_have_the_same_fault_what_else_is_wrong_decides() -> None:
    cycles = fleet()
    del cycles["new"]
    for cycle in cycles.values():
        cycle.outcome = replace(outcome_of(cycle), degraded=("saving: the store is slow",))
    assert named(cycles, order="worst")[:4] == ["failing", "silent-3", "silent-1", "moved"]


def test_an_upstream_is_found_by_a_servers_address_and_the_server_is_named() -> None:
    cycles = fleet()
    (found,), matching = upstreams(cycles, View(search="10.9.9.9"), own(cycles))
    assert (found.cycle.name, found.matches, matching) == ("broken", ("s1",), 1)
    assert named(fleet(), search="well-1") == ["well-10"]


def test_a_standing_says_what_is_wrong_in_words() -> None:
    cycle = ticked(declared(s3={"state": "drain"}), silent=("s1", "s2"))
    assert standing(cycle.outcome).troubles == (
        "2 of 12 servers: no sample yet", "1 of 12 servers: draining", "6 % headroom left"
    )  # fmt: skip
    assert standing(ticked(declared()).outcome).troubles == ()


@pytest.mark.parametrize(
    ("cycle", "level"),
    [
        (Cycle("new", declared(), tick_s=1.0), "fault"),
        (ticked(declared(), failing={"s1": 50}), "fault"),
        (ticked(declared(2, s1={"state": "drain"}, s2={"state": "down"})), "fault"),
        (ticked(declared(), failing={"s1": 1}), "warning"),
        (ticked(declared(), silent=("s1",)), "warning"),
        (ticked(declared(), cpu={f"s{n}": 0.68 for n in range(1, 13)}), "warning"),
        (ticked(declared(s1={"state": "drain"})), "notice"),
        (ticked(declared(s1={"pin": 5})), "notice"),
        (ticked(declared()), "well"),
    ],
)
def test_a_level_says_how_much_an_upstream_needs_a_person(cycle: Cycle, level: str) -> None:
    assert standing(cycle.outcome).level == level


def test_a_level_ranks_before_every_other_criterion() -> None:
    # A drained server is a criterion before little headroom, but needs nobody.
    tight = ticked(declared(), name="tight", cpu={f"s{n}": 0.68 for n in range(1, 13)})
    cycles = {"drained": ticked(declared(s1={"state": "drain"}), name="drained"), "tight": tight}
    assert named(cycles, order="worst") == ["tight", "drained"]


def test_totals_count_levels_and_name_the_upstream_with_the_least_headroom() -> None:
    cycles = fleet() | {"tight": ticked(declared(), name="tight", cpu={f"s{n}": 0.68 for n in range(1, 13)})}
    standings = own(cycles)
    sums = totals(cycles, standings)
    assert {level: sums[level] for level in LEVELS} == {"fault": 2, "warning": 4, "notice": 0, "well": 4}
    assert (sums["servers"], sums["failed_per_s"]) == (9 * 12, 2.0)
    assert sums["requests_per_s"] == pytest.approx(9 * 1200 + 2, rel=0.01)
    rooms = {name: each.headroom.ratio or 1.0 for name, each in standings.items()}
    assert sums["tightest"]["name"] == min(rooms, key=lambda name: rooms[name])
    assert totals({}, {})["tightest"] is None


def test_a_standing_is_made_once_for_an_outcome() -> None:
    cycle, standings = ticked(declared()), Standings()
    first = standings.of(cycle)
    assert standings.of(cycle) is first
    cycle.outcome = replace(outcome_of(cycle), degraded=("redis: away",))
    assert standings.of(cycle).troubles == ("redis: away",)


def without_reports(name: str) -> Cycle:
    """Return an upstream whose load balancer is silent; its servers send samples."""
    cycle = ticked(declared(2), name=name)
    for now_s in (2.0, 9.0):
        cycle.outcome, _ = advance(cycle, {}, now_s=now_s, term=1, issued_at_ms=0, addresses={})
    return cycle


def test_a_load_balancer_silent_at_many_upstreams_is_told_once_and_hides_no_other_trouble() -> None:
    cycles = {f"up-{n}": without_reports(f"up-{n}") for n in range(MANY)}
    cycles["up-7"].outcome = replace(outcome_of(cycles["up-7"]), degraded=("publishing: too large",))
    standings = Standings()
    own_standings, common = standings.of_all(cycles)
    assert common.lines() == [f"load balancer edge-1: silent at {MANY} upstreams"]
    listed, _ = upstreams(cycles, View(order="worst"), own_standings)
    assert listed[0].cycle.name == "up-7"
    assert not any("load balancers" in line for each in listed for line in each.standing.troubles)
    # Nine have it each for themselves.
    del cycles["up-3"]
    own_standings, common = standings.of_all(cycles)
    assert common.lines() == []
    listed, _ = upstreams(cycles, View(order="worst"), own_standings)
    assert all("1 of 1 load balancers: silent" in each.standing.troubles for each in listed)


def test_many_that_wait_for_their_first_tick_are_told_once_and_come_last() -> None:
    cycles = {f"up-{n}": Cycle(f"up-{n}", declared(2), tick_s=1.0) for n in range(MANY)}
    cycles["web"] = ticked(declared(), failing={"s1": 3})
    standings = Standings()
    own_standings, common = standings.of_all(cycles)
    assert common.lines() == [f"{MANY} upstreams: wait for their first tick"]
    listed, _ = upstreams(cycles, View(order="worst"), own_standings)
    assert listed[0].cycle.name == "web"
    assert [each.standing.troubles for each in listed[1:]] == [()] * MANY


def test_nobody_is_silent_while_no_memcached_answers_and_for_three_intervals_afterwards() -> None:
    cycle = ticked(declared(2))

    def at(now_s: float, values: dict[str, bytes] | None) -> tuple[str, ...]:
        cycle.outcome, _ = advance(cycle, values, now_s=now_s, term=1, issued_at_ms=0, addresses={})
        return standing(cycle.outcome).troubles

    assert standing(cycle.outcome).troubles == ()
    for now_s in (2.0, 30.0, 60.0):
        assert at(now_s, None) == ()
    for now_s in (61.0, 62.0, 64.0):
        assert at(now_s, {}) == ()
    assert at(65.0, {}) == ("1 of 1 load balancers: silent", "2 of 2 servers: its agent is silent")
