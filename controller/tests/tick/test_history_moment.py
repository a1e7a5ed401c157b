import json
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from steelyard_controller import laws
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.messages.inbox import Inbox, receive
from steelyard_controller.messages.received import ReadContext
from steelyard_controller.tick import history_moment
from steelyard_controller.tick.outcome import MOST_UNDECLARED, Outcome, indicators
from steelyard_controller.tick.snapshot_builder import THE_FOUR, build_snapshot
from steelyard_controller.tick.table_builder import TableBuilder
from steelyard_protocol.sample_record import MAX_FURTHER

from ..examples import report, sample

WEB = Upstream(peers=[Peer(id=name, address=f"10.0.0.{n}:80", baseline=1) for n, name in enumerate("ab", 1)])


def outcome(
    *, further: tuple[tuple[str, float | None], ...] = (), knees: Mapping[str, float | None] = THE_FOUR
) -> Outcome:
    inbox = receive(
        Inbox(), ReadContext("web", 1.0), samples={"a": sample("a", cpu=0.9, further=further), "b": None},
        reports={"edge-1": report(a=(50, 0, 2, 10.0), b=(50, 0, 1, None))},
    )  # fmt: skip
    snapshot = build_snapshot(inbox, WEB.peers, now_s=1.0, tick_s=1.0, knees=knees)
    law = laws.create("steelyard")
    _, decision = law.step(law.start(), snapshot)
    table = TableBuilder("web").build(decision, WEB, term=3, generation=118, issued_at_ms=17)
    return Outcome(table=table, decision=decision, shadows={}, snapshot=snapshot, inbox=inbox, now_s=1.5)


def test_a_moment_is_columns_over_the_peers_and_null_is_not_known() -> None:
    document = json.loads(history_moment.encode(outcome()))
    assert (document["at_ms"], document["term"], document["generation"]) == (17, 3, 118)
    assert (document["ids"], document["state"]) == (["a", "b"], ["up", "up"])
    assert (document["cpu"], document["completed"]) == ([0.9, None], [50, 50])
    assert document["latency_ms"] == [10, None]
    columns = ("weight", "share", "score", "net", "io", "mem")
    assert {len(document[name]) for name in columns} == {2}
    assert len(document["entropy"]) == 4


def test_a_moment_has_further_indicators_apart_and_names_those_that_count_unless_they_are_the_four() -> None:
    four = json.loads(history_moment.encode(outcome()))
    assert "further" not in four
    assert "indicators" not in four
    more = outcome(further=(("workers", 0.71234), ("queue", None)), knees={"cpu": None, "workers": 0.5})
    document = json.loads(history_moment.encode(more))
    assert document["further"] == {"workers": [0.7123, None], "queue": [None, None]}
    assert document["indicators"] == ["cpu", "workers"]
    assert len(document["entropy"]) == 2
    assert document["mem"] == [0.3, None]  # Reported, but not declared.


def test_names_that_nobody_declared_are_kept_up_to_a_bound_and_declared_ones_always() -> None:
    names = ["own", *(f"queue_{number}" for number in range(1, MAX_FURTHER))]
    samples = {
        peer: sample(peer, cpu=0.9, further=tuple((f"{name}_{peer}", 0.1) for name in names)) for peer in "ab"
    }
    inbox = receive(Inbox(), ReadContext("web", 1.0), samples=samples, reports={})
    one = replace(outcome(knees={"cpu": None, "own_b": None}), inbox=inbox)
    said = indicators(one)
    assert len(said) == 2 + MOST_UNDECLARED
    assert said["own_b"]["reporting"] == 1
    kept = json.loads(history_moment.encode(one))["further"]
    assert len(kept) == 1 + MOST_UNDECLARED
    assert kept["own_b"] == [None, 0.1]


def at(*moments_ms: int) -> list[bytes]:
    return [b'{"at_ms":%d}' % at_ms for at_ms in moments_ms]


def test_moments_are_thinned_to_a_step_and_the_last_one_stays() -> None:
    assert history_moment.thinned(at(0, 1000, 2000, 3000, 4000, 5000), step_s=2) == at(0, 2000, 4000, 5000)
    assert history_moment.thinned(at(0, 999, 2001, 2999), step_s=1) == at(0, 999, 2001, 2999)


def test_a_clock_that_was_set_back_hides_nothing() -> None:
    assert history_moment.thinned(at(9000, 1000, 1500, 3000), step_s=2) == at(9000, 1000, 3000)


def test_what_is_no_moment_is_left_out() -> None:
    junk = [b"", b"garbage", b"[]", b"{}", b'{"at_ms":"1"}', b"[" * 50_000]
    assert history_moment.thinned([*junk, *at(1), *junk], step_s=1) == at(1)
    assert history_moment.thinned(junk, step_s=1) == []


@given(st.lists(st.integers(0, 10**6)), st.integers(1, 100))
def test_thinning_twice_changes_nothing_but_the_end(moments_ms: list[int], step_s: int) -> None:
    once = history_moment.thinned(at(*sorted(moments_ms)), step_s=step_s)
    assert history_moment.thinned(once, step_s=step_s) == once


def test_of_some_servers_a_moment_has_their_columns_and_what_all_have_together() -> None:
    more = outcome(further=(("share", 0.5),), knees={"cpu": None, "share": None})
    (text,) = history_moment.thinned([history_moment.encode(more)], step_s=1, peers=["b", "unknown"])
    document = json.loads(text)
    assert (document["ids"], document["state"], document["completed"]) == (["b"], ["up"], [50])
    assert (document["cpu"], document["further"]) == ([None], {"share": [None]})
    every = document["all"]
    assert (every["share"], every["completed"], every["cpu"], every["latency_ms"]) == (1, 100, 0.9, 10)
    assert every["further.share"] == 0.5
    (nobody,) = history_moment.thinned([history_moment.encode(outcome())], step_s=1, peers=[])
    assert (json.loads(nobody)["ids"], json.loads(nobody)["all"]["share"]) == ([], 1)


def test_of_some_servers_damaged_moments_are_left_out() -> None:
    whole = history_moment.encode(outcome())
    damaged = [b'{"at_ms":1}', b'{"at_ms":2,"ids":7}', whole.replace(b'"score":[', b'"score":["x",')]
    assert len(history_moment.thinned([*damaged, whole], step_s=0, peers=["a"])) == 1
