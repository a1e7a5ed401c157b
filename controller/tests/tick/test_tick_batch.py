"""The ticks of several upstreams at once: the batches, and failures of one upstream."""

from collections.abc import Sequence

import pytest
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.laws.blend import Due, StepResult, step_upstreams
from steelyard_controller.tick import batch
from steelyard_controller.tick.cycle import Cycle
from steelyard_protocol import wire

from ..examples import report


def cycles(*sizes: int) -> list[Cycle]:
    """Return cycles with these numbers of servers; with two servers, the law is `paper`."""
    return [
        Cycle(
            f"u{number}",
            Declaration(
                upstream=Upstream(
                    peers=[Peer(id=f"p{row}", address=f"10.0.0.{row}:80") for row in range(1, size + 1)],
                    law="paper" if size == 2 else "steelyard",
                )
            ),
            tick_s=1.0,
        )
        for number, size in enumerate(sizes)
    ]


def test_upstreams_of_a_size_go_together_up_to_a_bound() -> None:
    some = cycles(3, 2, 3, 0, 5)
    assert [[each.size for each in one] for one in batch.batches(some, most=6)] == [[0, 2, 3], [3], [5]]
    assert [[each.size for each in one] for one in batch.batches(some, most=1)] == [[0], [2], [3], [3], [5]]
    assert list(batch.batches([])) == []


def test_one_whose_law_fails_has_its_exception_and_the_others_have_their_outcome() -> None:
    def step(due: Sequence[Due]) -> list[StepResult]:
        if any("paper" in each.laws for each in due):
            raise ZeroDivisionError("division by zero")
        return step_upstreams(due)

    some = cycles(3, 2, 3)
    ended, fault = batch.advance(some, {}, now_s=1.0, term=3, issued_at_ms=1, addresses={}, step=step)
    first, failed, last = ended
    assert isinstance(failed, ZeroDivisionError)
    assert fault == (
        "3 upstreams step in parts, which takes longer: together ZeroDivisionError('division by zero')"
    )
    assert [each.generation for each in some] == [1, 0, 1]
    for cycle, done in ((some[0], first), (some[2], last)):
        assert not isinstance(done, Exception)
        assert done[0].table.upstream == cycle.name
        assert len(done[0].table.peers) == 3


def test_upstreams_that_step_together_have_no_fault() -> None:
    some = cycles(3, 2, 3)
    _, fault = batch.advance(some, {}, now_s=1.0, term=3, issued_at_ms=1, addresses={})
    assert fault is None
    assert [each.generation for each in some] == [1, 1, 1]


def test_an_upstream_whose_messages_fail_harms_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    some = cycles(3, 3, 3)
    monkeypatch.setattr(some[1], "receive", lambda *_, **__: 1 / 0)
    (first, failed, last), fault = batch.advance(some, {}, now_s=1.0, term=3, issued_at_ms=1, addresses={})
    assert isinstance(failed, ZeroDivisionError)
    assert fault == (
        "3 upstreams are read in parts, which takes longer: together ZeroDivisionError('division by zero')"
    )
    assert not isinstance(first, Exception)
    assert not isinstance(last, Exception)
    assert [each.generation for each in some] == [1, 0, 1]


def test_one_that_fails_after_the_messages_were_read_makes_no_other_count_them_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = cycles(3, 3, 3)
    monkeypatch.setattr(some[1], "keep", lambda *_, **__: 1 / 0)
    for seq in (1, 2):  # The reports of the first tick may be of any age.
        reports = {
            wire.traffic_key(each.name, "edge-1"): report(seq=seq, p1=(100, 0, 0, 5.0)).replace(
                b'"web"', f'"{each.name}"'.encode()
            )
            for each in some
        }
        (_, failed, _), fault = batch.advance(
            some, reports, now_s=float(seq), term=3, issued_at_ms=seq, addresses={}
        )
        assert isinstance(failed, ZeroDivisionError)
        assert fault is None
    assert [each.requests.by_server()["p1"].completed for each in (some[0], some[2])] == [100, 100]


def test_a_fault_of_stepping_together_is_said_and_every_upstream_has_its_outcome() -> None:
    def step(due: Sequence[Due]) -> list[StepResult]:
        if len(due) > 1:
            raise ValueError("of shapes that differ")
        return step_upstreams(due)

    some = cycles(3, 2, 3)
    _, fault = batch.advance(some, {}, now_s=1.0, term=3, issued_at_ms=1, addresses={}, step=step)
    assert "ValueError('of shapes that differ')" in str(fault)
    assert [each.generation for each in some] == [1, 1, 1]


def test_a_failure_among_many_upstreams_leaves_the_others_in_large_parts() -> None:
    parts: list[int] = []

    def step(due: Sequence[Due]) -> list[StepResult]:
        parts.append(len(due))
        if any("paper" in each.laws for each in due):
            raise ZeroDivisionError("division by zero")
        return step_upstreams(due)

    some = cycles(*[3] * 9, 2, *[3] * 54)
    ended, _ = batch.advance(some, {}, now_s=1.0, term=3, issued_at_ms=1, addresses={}, step=step)
    assert [number for number, each in enumerate(ended) if isinstance(each, Exception)] == [9]
    assert parts == [64, 32, 16, 8, 8, 4, 2, 1, 1, 2, 4, 16, 32]
