"""The ticks of several upstreams at once: which go together, and what becomes of one that fails."""

import pytest
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.tick import batch
from steelyard_controller.tick.cycle import Cycle


def cycles(*sizes: int) -> list[Cycle]:
    """Return cycles of so many servers; the law of each is `paper` where there are two."""
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


def test_one_whose_law_fails_has_its_exception_and_the_others_have_their_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = cycles(3, 2, 3)
    monkeypatch.setattr("steelyard_controller.laws.paper.spread", lambda *_: 1 / 0)
    first, failed, last = batch.advance(some, {}, now_s=1.0, term=3, issued_at_ms=1, addresses={})
    assert isinstance(failed, ZeroDivisionError)
    assert [each.generation for each in some] == [1, 0, 1]
    for cycle, done in ((some[0], first), (some[2], last)):
        assert not isinstance(done, Exception)
        assert done[0].table.upstream == cycle.name
        assert len(done[0].table.peers) == 3
