"""An upstream's cycle: what it resumes from the store, and what it must not."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace

import msgspec
from steelyard_controller.api import metrics
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.store.saved_state import SavedState
from steelyard_controller.tick import upstream_faults
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import MOST_UNDECLARED, Outcome, explanation, indicators, shares
from steelyard_controller.tick.overview import overview
from steelyard_controller.tick.unreported_indicators import UNREPORTED_TICKS
from steelyard_protocol import peer_address
from steelyard_protocol.sample_record import MAX_FURTHER

from ..examples import advance, report, sample

WEB = Declaration(
    upstream=Upstream(
        peers=[Peer(id=name, address=f"10.0.0.{n}:80", baseline=1) for n, name in enumerate("ab", 1)]
    )
)


def busy(cycle: Cycle, ticks: range, *, term: int = 3) -> list[float]:
    """Tick while a is busy; return the shares of the last tick."""
    for tick in ticks:
        values = {
            "steelyard:1:sample:web:a": sample("a", seq=tick, cpu=0.9),
            "steelyard:1:sample:web:b": sample("b", seq=tick, cpu=0.3),
            "steelyard:1:traffic:web:edge-1": report(seq=tick, a=(100, 0, 1, 5.0), b=(100, 0, 1, 5.0)),
        }
        outcome, _ = advance(cycle, values, now_s=float(tick), term=term, issued_at_ms=tick, addresses={})
    return shares(outcome.table)


def cycle() -> Cycle:
    return Cycle("web", WEB, tick_s=1.0)


def test_an_upstream_that_names_nobody_is_reported_on_by_the_controllers_load_balancers() -> None:
    names = ("edge-7", "edge-8")
    one = Cycle("web", WEB, tick_s=1.0, load_balancers=names)
    traffic = [key for key in one.keys() if ":traffic:" in key]  # noqa: SIM118
    assert traffic == ["steelyard:1:traffic:web:edge-7", "steelyard:1:traffic:web:edge-8"]
    values = {key: report(key[-6:], seq=1, a=(100, 0, 1, 5.0), b=(50, 0, 1, 5.0)) for key in traffic}
    outcome, _ = advance(one, values, now_s=1.0, term=3, issued_at_ms=1, addresses={})
    assert set(outcome.inbox.reports) == set(names)
    assert outcome.load_balancers == names
    named = replace(WEB, upstream=WEB.upstream.model_copy(update={"load_balancers": ["edge-9"]}))
    other = Cycle("web", named, tick_s=1.0, load_balancers=names)
    assert "steelyard:1:traffic:web:edge-9" in other.keys()  # noqa: SIM118


def test_a_successor_begins_with_the_weights_of_the_one_before() -> None:
    one, other = cycle(), cycle()
    before = busy(one, range(1, 20))
    assert before[0] * 2 < before[1]
    assert other.resume(one.saved(term=3))
    after = busy(other, range(100, 101), term=4)
    assert abs(after[0] - before[0]) <= 0.02 * before[0]
    assert other.generation == one.generation + 1


def test_a_memory_of_the_laws_first_edition_is_forgotten_and_named() -> None:
    one, other = cycle(), cycle()
    busy(one, range(1, 20))
    saved = one.saved(term=3)
    old = {law: {**memory, "version": 1} for law, memory in saved.memories.items() if law == "steelyard"}
    assert other.resume(replace(saved, memories={**saved.memories, **old}))
    assert other.forgotten_laws == ("steelyard",)
    assert other.generation == one.generation


def test_what_the_store_kept_of_an_earlier_tick_is_not_taken_up() -> None:
    one = cycle()
    busy(one, range(1, 5))
    early = one.saved(term=3)
    before = busy(one, range(5, 20))
    assert not one.resume(early)
    after = busy(one, range(20, 21), term=4)
    assert abs(after[0] - before[0]) <= 0.02 * before[0]


def test_what_another_one_learnt_later_is_taken_up() -> None:
    one, other = cycle(), cycle()
    busy(one, range(1, 5))
    busy(other, range(1, 20), term=4)
    assert one.resume(other.saved(term=4))
    assert one.generation == other.generation


def test_generations_only_rise() -> None:
    one = cycle()
    busy(one, range(1, 5))
    one.overtake(2)
    assert one.generation == 4
    one.overtake(40)
    busy(one, range(5, 6))
    assert one.generation == 41


def test_a_damaged_memory_begins_anew_in_order() -> None:
    one = cycle()
    assert one.resume(SavedState(term=3, generation=17, memories={"steelyard": {"law": "garbage"}}))
    assert one.saved(term=3).memories == {}
    assert busy(one, range(1, 2)) == [0.5, 0.5]
    assert one.generation == 18


def declared(**indicators: float | None) -> Declaration:
    rows = {name: {"knee": knee} for name, knee in indicators.items()}
    return Declaration(upstream=Upstream.model_validate({**WEB.upstream.model_dump(), "indicators": rows}))


def pooled(cycle: Cycle, ticks: range, *, workers: float | None = 0.9) -> Outcome:
    """Tick while a's pool of workers is nearly full; `workers` None: the pool cannot be read."""
    for tick in ticks:
        values = {
            "steelyard:1:sample:web:a": sample(
                "a", seq=tick, cpu=0.2, further=(("workers", workers), ("queue", 0.1))
            ),
            "steelyard:1:sample:web:b": sample("b", seq=tick, cpu=0.2, further=(("workers", None),)),
            "steelyard:1:traffic:web:edge-1": report(seq=tick, a=(100, 0, 1, 5.0), b=(100, 0, 1, 5.0)),
        }
        outcome, _ = advance(cycle, values, now_s=float(tick), term=3, issued_at_ms=tick, addresses={})
    return outcome


def test_what_is_declared_counts_from_the_next_tick_and_the_others_go_on() -> None:
    one = cycle()
    before = shares(pooled(one, range(1, 20)).table)
    assert before[0] == before[1]
    one.declaration = declared(cpu=None, net=None, io=None, mem=None, workers=None)
    after = shares(pooled(one, range(20, 50)).table)
    assert after[0] < 0.4 * after[1]
    one.declaration = WEB
    assert shares(pooled(one, range(50, 90)).table)[0] > 0.8 * before[0]


def test_which_indicators_count_and_who_reports_them_is_said() -> None:
    one = Cycle("web", declared(workers=0.5, cpu=None, cache=None), tick_s=1.0)
    outcome = pooled(one, range(1, 4))
    said = indicators(outcome)
    assert list(said) == ["cpu", "workers", "cache", "net", "io", "mem", "queue"]
    assert [(each["used"], each["reporting"]) for each in said.values()] == [
        (True, 2), (True, 1), (True, 0), (False, 2), (False, 2), (False, 2), (False, 1)
    ]  # fmt: skip
    assert (said["workers"]["knee"], said["queue"]["knee"], said["queue"]["weight"]) == (0.5, None, None)
    assert explanation(outcome, "a")["indicators"] == said
    shown = overview(outcome, one.declaration)
    assert shown["indicators"] == said
    assert set(shown["entropy_weights"]) == {"cpu", "workers", "cache"}
    assert shown["peers"][0]["utilization"]["queue"] == 0.1
    assert shown["peers"][1]["utilization"]["cache"] is None


def test_a_declared_indicator_that_nobody_reports_is_a_fault_until_somebody_does() -> None:
    one = Cycle("web", declared(cpu=None, workers=None), tick_s=1.0)
    pooled(one, range(1, UNREPORTED_TICKS), workers=None)
    assert one.faults["indicators"] is None
    pooled(one, range(UNREPORTED_TICKS, 2 * UNREPORTED_TICKS), workers=None)
    assert one.faults["indicators"] is not None
    assert "workers" in str(one.faults["indicators"])
    assert "cpu" not in str(one.faults["indicators"])
    pooled(one, range(2 * UNREPORTED_TICKS, 2 * UNREPORTED_TICKS + 1))
    assert one.faults["indicators"] is None


def test_without_any_sample_no_indicator_is_missing() -> None:
    one = Cycle("web", declared(workers=None), tick_s=1.0)
    for tick in range(1, 3 * UNREPORTED_TICKS):
        advance(one, {}, now_s=float(tick), term=3, issued_at_ms=tick, addresses={})
    assert one.faults["indicators"] is None


def test_the_four_are_never_missed_where_nothing_is_declared() -> None:
    one = cycle()
    for tick in range(1, 3 * UNREPORTED_TICKS):
        values = {"steelyard:1:sample:web:a": sample("a", seq=tick, utilization=(0.5, None, None, 0.3))}
        advance(one, values, now_s=float(tick), term=3, issued_at_ms=tick, addresses={})
    assert one.faults["indicators"] is None


def test_a_successor_goes_on_with_the_indicators_that_are_declared_by_then() -> None:
    one = Cycle("web", declared(cpu=None, workers=None), tick_s=1.0)
    before = shares(pooled(one, range(1, 20)).table)
    other = Cycle("web", declared(cpu=None, workers=None, mem=None), tick_s=1.0)
    assert other.resume(one.saved(term=3))
    assert other.forgotten_laws == ()
    after = shares(pooled(other, range(100, 101)).table)
    assert abs(after[0] - before[0]) <= 0.02 * before[0]


def test_metrics_have_every_indicator_that_is_reported_and_the_weight_of_those_that_count() -> None:
    one = Cycle("web", declared(cpu=None, workers=None), tick_s=1.0)
    one.outcome = pooled(one, range(1, 4))
    text = metrics.render(metrics.Source(views={"web": one}), now_s=4.0).decode()
    assert 'steelyard_peer_utilization{indicator="workers",peer="a",upstream="web"} 0.9' in text
    assert 'steelyard_peer_utilization{indicator="queue",peer="a",upstream="web"} 0.1' in text
    assert 'indicator="workers",peer="b"' not in text  # Unreadable there.
    weighed = re.findall(r'steelyard_entropy_weight\{indicator="(\w+)"', text)
    assert weighed == ["cpu", "workers"]


def test_metrics_have_no_more_indicators_than_are_shown_whatever_servers_call_theirs() -> None:
    one = cycle()
    values = {
        f"steelyard:1:sample:web:{peer}": sample(
            peer, seq=1, cpu=0.2, further=tuple((f"own_{peer}_{n}", 0.1) for n in range(MAX_FURTHER))
        )
        for peer in "ab"
    }
    one.outcome, _ = advance(one, values, now_s=1.0, term=3, issued_at_ms=1, addresses={})
    text = metrics.render(metrics.Source(views={"web": one}), now_s=2.0).decode()
    named = re.findall(r'steelyard_peer_utilization\{indicator="(own\w+)"', text)
    assert len(named) == len(set(named)) == MOST_UNDECLARED


def heard(one: Cycle, *, role: str = "leader", most_servers: int = 2) -> dict[str, float]:
    """Return the metrics about load balancers, by name."""
    text = metrics.render(
        metrics.Source(views={"web": one}, role=role), now_s=9.0, most_servers=most_servers
    ).decode()
    kinds = "lb_reporting{lb|peer_measured{peer|peers_unmeasured{upstream"
    figures = re.findall(rf'steelyard_(?:{kinds})="([\w-]+)".* (\S+)', text)
    return {name: float(value) for name, value in figures}


def told(one: Cycle, *, now_s: float, term: int = 3, **values: bytes) -> dict[str, float]:
    """Do a tick with these values, by the end of their keys; return the metrics afterwards."""
    keys = {
        "a": "steelyard:1:sample:web:a",
        "b": "steelyard:1:sample:web:b",
        "lb": "steelyard:1:traffic:web:edge-1",
    }
    there = {keys[name]: value for name, value in values.items()}
    one.outcome, _ = advance(one, there, now_s=now_s, term=term, issued_at_ms=1, addresses={})
    return heard(one)


def exposed(views: Mapping[str, Cycle], *, degraded: tuple[str, ...] = ()) -> str:
    """Return the metrics after ten seconds."""
    return metrics.render(metrics.Source(views=views, degraded=degraded), now_s=10.0).decode()


NOBODY = {"edge-1": 0, "a": 0, "b": 0, "web": 2}


def test_the_leader_has_a_figure_of_whom_it_never_heard_and_a_standby_has_none() -> None:
    one = cycle()
    assert heard(one) == NOBODY
    assert heard(one, role="standby") == {}
    assert told(one, now_s=1.0) == NOBODY
    assert told(one, now_s=2.0, a=sample("a"), lb=report(a=(1, 0, 0, 5.0))) == {
        "edge-1": 1, "a": 1, "b": 0, "web": 1
    }  # fmt: skip
    assert told(one, now_s=6.0) == NOBODY


def test_what_a_new_leader_finds_left_behind_is_not_heard() -> None:
    one, left = cycle(), {"a": sample("a", seq=7), "lb": report(seq=7, a=(1, 0, 0, 5.0))}
    for term, began_s in ((3, 1.0), (4, 3.0), (5, 100.0)):
        assert told(one, now_s=began_s, term=term, **left) == NOBODY
        assert told(one, now_s=began_s + 1, term=term, **left) == NOBODY
    new = {"a": sample("a", seq=8), "lb": report(seq=8, a=(1, 0, 0, 5.0))}
    assert told(one, now_s=102.0, term=5, **new) == {"edge-1": 1, "a": 1, "b": 0, "web": 1}


def test_what_comes_after_a_tick_that_took_long_is_heard() -> None:
    one = cycle()
    told(one, now_s=1.0, a=sample("a", seq=1))
    assert told(one, now_s=9.0, a=sample("a", seq=2))["a"] == 1


def test_a_server_that_says_its_load_in_its_responses_is_measured() -> None:
    one = cycle()
    told(one, now_s=1.0)
    in_band = report(a=(1, 0, 0, 5.0, 5.0, {"utilization": 0.5}), b=(1, 0, 0, 5.0))
    assert told(one, now_s=2.0, lb=in_band) == {"edge-1": 1, "a": 1, "b": 0, "web": 1}


def test_of_too_many_servers_only_their_number_is_measured() -> None:
    assert heard(cycle(), most_servers=1) == {"edge-1": 0, "web": 2}


def test_a_load_balancer_with_a_table_of_a_higher_term_is_a_fault_that_names_it() -> None:
    one = cycle()

    def seen(seq: int, order: tuple[int, int]) -> Outcome:
        text = json.loads(report(seq=seq, a=(100, 0, 1, 5.0))) | {"order": order, "rung": "hold"}
        values = {"steelyard:1:traffic:web:edge-1": json.dumps(text).encode()}
        one.outcome, _ = advance(one, values, now_s=float(seq), term=3, issued_at_ms=seq, addresses={})
        return one.outcome

    seen(1, (3, 1))
    assert upstream_faults.terms(seen(2, (3, 1))) is None
    assert 'steelyard_lb_higher_term{lb="edge-1",upstream="web"} 0.0' in exposed({"web": one})
    fault = str(upstream_faults.terms(seen(3, (9, 1))))
    assert "edge-1 hold a table of term 9, higher than this one's 3" in fault
    assert 'steelyard_lb_higher_term{lb="edge-1",upstream="web"} 1.0' in exposed({"web": one})
    assert upstream_faults.terms(seen(4, (2, 800))) is None


def test_an_upstream_without_a_tick_has_an_age() -> None:
    one = cycle()
    one.added_s = 3.0
    assert 'steelyard_tick_age_seconds{upstream="web"} 7.0' in exposed({"web": one})
    busy(one, range(1, 2))


def test_what_the_controller_as_a_whole_lacks_is_no_fault_of_an_upstream() -> None:
    one = cycle()
    outcome, _ = advance(one, {}, now_s=1.0, term=3, issued_at_ms=1, addresses={})
    one.outcome = msgspec.structs.replace(outcome, degraded=("publishing: too large",))
    assert 'steelyard_degraded{upstream="web"} 1.0' in exposed({"web": one}, degraded=("state: away",))


def test_servers_that_come_under_ever_new_addresses_leave_nothing_behind() -> None:
    one, before = cycle(), peer_address.parsed.cache_info().currsize
    for n in range(40):
        server = Peer(id="a", address=f"10.9.{n}.1:80", baseline=1)
        one.declaration = Declaration(upstream=Upstream(peers=[server]))
        assert not one.has_names
        outcome, _ = advance(one, {}, now_s=float(n), term=3, issued_at_ms=n, addresses={})
        one.outcome = outcome
        one.saved(term=3)
    assert peer_address.parsed.cache_info().currsize == before


def test_headroom_has_series_where_it_is_known_and_none_where_it_is_not() -> None:
    static = WEB.upstream.model_copy(update={"law": "static"})
    one, other = cycle(), Cycle("web", Declaration(upstream=static), tick_s=1.0)
    one.outcome, other.outcome = pooled(one, range(1, 30)), pooled(other, range(1, 30))
    names = {metric for _, metric, _ in metrics.HEADROOM}

    def known(name: str) -> set[str]:
        return names & set(re.findall(rf'(\w+)\{{upstream="{name}"\}}', exposed({"web": one, "old": other})))

    assert known("web") == names
    assert known("old") == {"steelyard_carries_requests_per_second"}
