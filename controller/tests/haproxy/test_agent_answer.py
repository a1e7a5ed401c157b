"""The answers to HAProxy about a peer."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.discovered import Condition, Discovered
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.haproxy import agent_answer
from steelyard_controller.haproxy.agent_answer import Question, Row
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.messages.newest_samples import NewestSamples
from steelyard_controller.messages.received import Received
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome
from steelyard_protocol import sample_reader
from steelyard_protocol.haproxy_weights import MAX_HAPROXY_WEIGHT, haproxy_weights
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.weight_table import State, TablePeer

from ..examples import advance, sample

DECLARED = Declaration(upstream=Upstream(law="static", peers=[]))


def _outcome(weights: list[int], **states: str) -> Outcome:
    """Return an outcome with peers a, b, ... of those weights."""
    return _at(1.0, weights, {}, **states)


def _at(now_s: float, weights: list[int], samples: dict[str, dict[str, Any]], **states: str) -> Outcome:
    """Return the outcome at `now_s` of samples that arrived at 1 s."""
    names = [f"p{n}" for n in range(len(weights))]
    peers = [
        Peer(id=name, address=f"10.0.0.1:{port}", state=states.get(name, "up"))  # type: ignore[arg-type]
        for port, name in enumerate(names, 8001)
    ]
    cycle = Cycle("web", Declaration(upstream=Upstream(law="static", peers=peers)), tick_s=1.0)
    outcome, _ = advance(cycle, {}, now_s=now_s, term=1, issued_at_ms=0, addresses={})
    rows = tuple(
        TablePeer(id=peer.id, address=peer.address, weight=weight, baseline=1, state=peer.state)
        for peer, weight in zip(outcome.table.peers, weights, strict=True)
    )
    held = {peer: Received(_sample(peer, **changes), arrived_s=1.0) for peer, changes in samples.items()}
    return replace(
        outcome,
        table=replace(outcome.table, peers=rows),
        inbox=Inbox(samples=NewestSamples.of(held)),
    )


def _sample(peer: str, **changes: Any) -> SampleRecord:
    record = sample_reader.decode(sample(peer, **changes))
    assert isinstance(record, SampleRecord)
    return record


def _rows(outcome: Outcome, declared: Declaration = DECLARED) -> Mapping[str, Row]:
    return agent_answer.rows(outcome, declared, haproxy_weights(outcome.table))


def _answer(outcome: Outcome, peer: str, configured: int = 100) -> bytes:
    return agent_answer.answer(_rows(outcome)[peer], configured)


def _taken(weight: int, percent: int) -> int:
    """Return HAProxy's weight for a configured weight and a percentage."""
    return min(MAX_HAPROXY_WEIGHT, weight * min(percent, 25_600) // 100)


def _percent(answer: bytes) -> int:
    return int(answer.split(b"%")[0].split()[-1])


def test_equal_weights_are_100_percent() -> None:
    outcome = _outcome([334, 333, 333])
    assert [_percent(_answer(outcome, peer)) for peer in ("p0", "p1", "p2")] == [100, 100, 100]


def test_the_percentages_stand_to_each_other_as_the_weights_do() -> None:
    outcome = _outcome([10, 20, 30, 40])
    assert [_percent(_answer(outcome, f"p{n}")) for n in range(4)] == [40, 80, 120, 160]


def test_a_peer_above_haproxys_largest_weight_scales_all_of_them() -> None:
    outcome = _outcome([400, 50, 25, 25, 25, 25, 25, 25])
    assert [_percent(_answer(outcome, f"p{n}")) for n in range(4)] == [256, 32, 16, 16]


def test_no_weight_is_so_small_that_it_becomes_a_drain() -> None:
    outcome = _outcome([100_000, 1])
    assert _answer(outcome, "p1").startswith(b"up ready 1%")


def test_a_drain_moves_no_other_percentage() -> None:
    before, after = _outcome([10, 20, 30]), _outcome([10, 20, 30], p0="drain")
    assert [_answer(before, peer) for peer in ("p1", "p2")] == [_answer(after, peer) for peer in ("p1", "p2")]


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ("drain", b"up drain #a person drains it in Steelyard\n"),
        ("down", b"down #a person took it down in Steelyard\n"),
        ("backup", b"up ready 100% #no sample yet\n"),
    ],
)
def test_a_state_is_told_in_haproxys_words(state: str, answer: bytes) -> None:
    assert _answer(_outcome([1, 1], p0=state), "p0") == answer


@pytest.mark.parametrize(
    ("condition", "state", "by_person", "why"),
    [
        ("unready", "down", "up", b"its pod is not ready"),
        ("unready", "down", "down", b"a person took it down in Steelyard"),
        ("terminating", "drain", "up", b"its pod is being deleted"),
        ("terminating", "drain", "drain", b"a person drains it in Steelyard"),
    ],
)
def test_a_pods_condition_is_not_said_to_be_a_persons(
    condition: Condition, state: str, by_person: State, why: bytes
) -> None:
    peers = [Peer(id="p0", address="10.0.0.1:80", state=by_person), Peer(id="p1", address="10.0.0.2:80")]
    declared = Declaration(
        upstream=Upstream(law="static", peers=peers),
        discovered=Discovered(service="shop/web", conditions={"p0": condition, "p1": "ready"}),
    )
    row = _rows(_outcome([1, 1], p0=state), declared)["p0"]
    assert agent_answer.answer(row, 100).endswith(b"#" + why + b"\n")


def test_a_missing_sample_is_told_and_takes_nobody_out() -> None:
    fresh: dict[str, dict[str, Any]] = {"p0": {}, "p1": {}}
    assert _answer(_at(1.0, [1, 1], fresh), "p0") == b"up ready 100%\n"
    assert _answer(_at(4.0, [1, 1], fresh), "p0") == b"up ready 100%\n"
    assert _answer(_at(13.0, [1, 1], fresh), "p0") == b"up ready 100% #no sample for 12 s\n"
    assert _answer(_at(13.0, [1, 1], {"p0": {"interval_s": 10.0}}), "p0") == b"up ready 100%\n"


def test_an_agent_that_stops_drains_nobody() -> None:
    outcome = _at(1.0, [2, 98], {"p0": {"leaving": True}})
    assert _answer(outcome, "p0") == b"up ready 4% #its agent was told to stop\n"


def test_an_upstream_without_peers_has_no_rows() -> None:
    assert _rows(_outcome([])) == {}


@given(weights=st.lists(st.integers(1, 1_000_000), min_size=1, max_size=30))
def test_the_mean_is_100_unless_that_would_exceed_haproxys_largest_weight(weights: list[int]) -> None:
    told = list(haproxy_weights(_outcome(weights).table).values())
    exact = [100 * len(weights) * weight / sum(weights) for weight in weights]
    scale = min(1.0, MAX_HAPROXY_WEIGHT / max(exact))
    assert all(abs(got - max(1.0, share * scale)) <= 0.500001 for got, share in zip(told, exact, strict=True))


@given(
    weights=st.lists(st.integers(1, 1_000_000), min_size=1, max_size=8),
    configured=st.integers(1, MAX_HAPROXY_WEIGHT),
)
def test_haproxy_arrives_at_the_same_weight_from_any_configured_one(
    weights: list[int], configured: int
) -> None:
    outcome = _outcome(weights)
    wanted = haproxy_weights(outcome.table)
    for peer, weight in wanted.items():
        taken = _taken(configured, _percent(_answer(outcome, peer, configured)))
        # A percentage point of a configured weight above 100 is more than one.
        assert 1 <= taken <= MAX_HAPROXY_WEIGHT
        assert abs(taken - weight) <= max(0, configured - 1) // 100


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        (b"web/server-1", ("web", "server-1", 100)),
        (b"web/server-1\r", ("web", "server-1", 100)),
        (b"  web/server-1 ", ("web", "server-1", 100)),
        (b"web/server-1 40", ("web", "server-1", 40)),
        (b"a.b_c-1/X\t256", ("a.b_c-1", "X", 256)),
    ],
)
def test_a_question_names_a_peer_and_maybe_its_configured_weight(
    line: bytes, asked: tuple[str, str, int]
) -> None:
    upstream, peer, configured = asked
    assert agent_answer.question(line) == Question(upstream=upstream, peer=peer, configured=configured)


@pytest.mark.parametrize(
    "line",
    [
        b"", b"web", b"web/", b"/server-1", b"web/server-1/x", b"web/server-1 0", b"web/server-1 257",
        b"web/s 1 2", b"web/server-1 -5", b"GET / HTTP/1.1", b"web/\xff\xfe", b"web/" + b"a" * 65,
        "web/sérver".encode(),
    ],
)  # fmt: skip
def test_anything_else_is_no_question(line: bytes) -> None:
    assert agent_answer.question(line) is None


@given(st.binary(max_size=300))
def test_no_bytes_raise(line: bytes) -> None:
    agent_answer.question(line)


def test_a_line_that_changes_nothing_is_one_ascii_line() -> None:
    assert agent_answer.line("", "wärum") == b"#w?rum\n"
    assert agent_answer.line("unknown-server", "x") == b"unknown-server #x\n"
