"""The overview of an upstream, and the command line's view of it."""

import json

import pytest
from steelyard_controller.cli.api_documents import Overview
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.views import service_status
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome, headroom_of
from steelyard_controller.tick.overview import overview, peer_overview

from ..examples import advance, report, sample

WEB = Declaration(
    upstream=Upstream(peers=[Peer(id=name, address=f"10.0.0.{n}:80") for n, name in enumerate("ab", 1)])
)


@pytest.mark.parametrize(("age_s", "silent"), [(12.0, False), (31.0, True)])
def test_a_sender_is_silent_after_three_of_its_own_intervals(age_s: float, silent: bool) -> None:
    cycle = Cycle("web", WEB, tick_s=1.0)
    sent = {
        "steelyard:1:sample:web:a": sample("a", interval_s=10.0),
        "steelyard:1:traffic:web:edge-1": report(interval_s=10.0, a=(100, 0, 1, 5.0)),
    }
    # At the first tick, the age of messages is unknown.
    for now_s, seen in ((0.0, {}), (1.0, sent), (1.0 + age_s, sent)):
        outcome, _ = advance(cycle, seen, now_s=now_s, term=1, issued_at_ms=0, addresses={})
    document = overview(outcome, WEB)
    assert [(row["sample_age_s"], row["silent"]) for row in document["peers"]] == [
        (age_s, silent),
        (None, True),
    ]
    assert document["load_balancers"]["edge-1"]["silent"] is silent
    alone = peer_overview(outcome, WEB, "a")
    assert alone is not None
    assert alone["silent"] is silent

    lines = service_status.of_overview(
        Overview.model_validate_json(json.dumps(document)), Look(width=200, colour=True)
    )
    shown = [line for line in lines if f"{age_s:.1f}" in line]
    assert [f"\x1b[33m{f'{age_s:8.1f}'}\x1b[0m" in line for line in shown] == [silent, silent]


@pytest.mark.parametrize(("law", "known"), [("steelyard", True), ("static", False)])
def test_what_waits_and_what_is_open_stand_apart_where_the_law_tells_them(law: str, known: bool) -> None:
    declaration = Declaration(upstream=WEB.upstream.model_copy(update={"law": law}))
    cycle = Cycle("web", declaration, tick_s=1.0)
    sent = {f"steelyard:1:sample:web:{name}": sample(name, seq=1) for name in "ab"} | {
        "steelyard:1:traffic:web:edge-1": report(a=(100, 0, 40, 5.0), b=(100, 0, 0, 5.0))
    }
    for now_s, seen in ((0.0, {}), (1.0, sent)):
        outcome, _ = advance(cycle, seen, now_s=now_s, term=1, issued_at_ms=0, addresses={})
    row = overview(outcome, declaration)["peers"][0]
    assert row["in_flight"] == 40.0
    assert (
        (row["waiting"], row["open"]) == (pytest.approx(0.5), pytest.approx(39.5)) if known else (None, None)
    )


def learnt(upstream: Upstream, *, ticks: int = 30, quiet: str = "", leaving: str = "") -> Outcome:
    """Return the headroom of two servers at half load, 100 requests/s each; `quiet` sends no more samples."""
    cycle = Cycle("web", Declaration(upstream=upstream), tick_s=1.0)
    for seq in range(1, ticks + 1):
        now = {
            f"steelyard:1:sample:web:{peer}": sample(
                peer, seq=1 if peer == quiet else seq, leaving=peer == leaving and seq == ticks
            )
            for peer in "ab"
        }
        now["steelyard:1:traffic:web:edge-1"] = report(seq=seq, a=(100, 0, 1, 5.0), b=(100, 0, 1, 5.0))
        cycle.outcome, _ = advance(cycle, now, now_s=float(seq), term=1, issued_at_ms=0, addresses={})
    assert cycle.outcome is not None
    return cycle.outcome


DRAINED = WEB.upstream.model_copy(
    update={"peers": [WEB.upstream.peers[0], WEB.upstream.peers[1].model_copy(update={"state": "drain"})]}
)


def test_headroom_is_what_servers_that_get_requests_are_measured_and_stay_could_carry() -> None:
    room = headroom_of(learnt(WEB.upstream))
    # At half load, 200 of the whole 400; at 1 - H, 280.
    assert room.carries_per_s == pytest.approx(200)
    assert room.servers == 2
    assert room.could_carry_per_s == pytest.approx(280, rel=0.02)
    for one in (learnt(DRAINED), learnt(WEB.upstream, quiet="b"), learnt(WEB.upstream, leaving="b")):
        assert headroom_of(one).servers == 1
        assert headroom_of(one).could_carry_per_s == pytest.approx(140, rel=0.02)


@pytest.mark.parametrize(
    ("upstream", "shown"),
    [
        (WEB.upstream, "headroom 29 %: carries 200 of the 280 requests/s that 2 servers could carry, 80"),
        (
            WEB.upstream.model_copy(update={"parameters": {"H": 0.7, "L": 0.8}}),
            "headroom 0 %: carries 200 of the 120 requests/s that 2 servers could carry, lacks 80",
        ),
        (DRAINED, "headroom 0 %: carries 200 of the 140 requests/s that 1 server could carry, lacks 60"),
        (WEB.upstream.model_copy(update={"law": "static"}), "headroom unknown: the law static learns no"),
    ],
)
def test_headroom_is_shown_or_why_it_is_not_known(upstream: Upstream, shown: str) -> None:
    document = overview(learnt(upstream), Declaration(upstream=upstream))
    lines = service_status.of_overview(Overview.model_validate_json(json.dumps(document)), Look(width=None))
    (line,) = (line for line in lines if line.startswith("headroom"))
    assert line.startswith(shown)
