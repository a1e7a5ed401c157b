"""The overview of an upstream, and what the command line shows of it."""

import json

import pytest
from steelyard_controller.cli.api_documents import Overview
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.views import service_status
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.overview import overview, peer_overview

from ..examples import report, sample

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
    # The first tick does not know how old a message is.
    for now_s, seen in ((0.0, {}), (1.0, sent), (1.0 + age_s, sent)):
        outcome, _ = cycle.advance(seen, now_s=now_s, term=1, issued_at_ms=0, addresses={})
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
        outcome, _ = cycle.advance(seen, now_s=now_s, term=1, issued_at_ms=0, addresses={})
    row = overview(outcome, declaration)["peers"][0]
    assert row["in_flight"] == 40.0
    assert (
        (row["waiting"], row["open"]) == (pytest.approx(0.5), pytest.approx(39.5)) if known else (None, None)
    )
