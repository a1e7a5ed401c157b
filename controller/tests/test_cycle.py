"""What one upstream's cycle takes up from the store, and what it knows better."""

from dataclasses import replace

from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.store.saved_state import SavedState
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import shares

from .examples import report, sample

WEB = Declaration(
    upstream=Upstream(
        peers=[Peer(id=name, address=f"10.0.0.{n}:80", baseline=1) for n, name in enumerate("ab", 1)]
    )
)


def busy(cycle: Cycle, ticks: range, *, term: int = 3) -> list[float]:
    """Tick while a is busy; return the shares of the last tick."""
    for tick in ticks:
        found = {
            "steelyard:1:sample:web:a": sample("a", seq=tick, cpu=0.9),
            "steelyard:1:sample:web:b": sample("b", seq=tick, cpu=0.3),
            "steelyard:1:traffic:web:edge-1": report(seq=tick, a=(100, 0, 1, 5.0), b=(100, 0, 1, 5.0)),
        }
        outcome, _ = cycle.advance(found, now_s=float(tick), term=term, issued_at_ms=tick, addresses={})
    return shares(outcome.table)


def cycle() -> Cycle:
    return Cycle("web", WEB, tick_s=1.0)


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
    assert other.forgotten == ("steelyard",)
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
    assert one.remembered == ()
    assert busy(one, range(1, 2)) == [0.5, 0.5]
    assert one.generation == 18
