"""Properties of every law under any input."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steelyard_controller import laws
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import Snapshot, batch_of

from .snapshots import snapshot

EVERY_LAW = pytest.mark.parametrize("law", [laws.create(name) for name in laws.NAMES], ids=laws.NAMES)
KINDS = st.integers(1, 9)
SEEDS = st.integers(0, 2**32 - 1)
AGES = st.integers(0, 2)
SIX_SEEDS = st.lists(SEEDS, min_size=6, max_size=6, unique=True)
GARBAGE = st.sampled_from([float("nan"), float("inf"), float("-inf"), -1.0, -1e300, 1e300, 1e18])
COLUMNS = ("completed", "failed", "in_flight", "latency_s", "baseline", "pinned")


def drawn(k: int, seed: int, ticks: int = 12, age: int = 0) -> list[Snapshot]:
    """Return some ticks of k random peers; some samples, indicators and reports are missing.

    `age` is that of samples and reports, in ticks.
    """
    rng = np.random.default_rng(seed)
    baseline = rng.uniform(1, 100, k).tolist() if rng.random() < 0.5 else None
    some = []
    for tick in range(ticks):
        table = rng.uniform(0, 1.1, (k, 4)).tolist()
        rows = [
            None if rng.random() < 0.1 else [None if rng.random() < 0.1 else u for u in row] for row in table
        ]
        some.append(
            snapshot(
                ids=[f"p{j}" for j in range(k)],
                t_s=float(tick),
                utilization=rows,
                completed=None if rng.random() < 0.1 else rng.uniform(0, 500, k).tolist(),
                failed=rng.uniform(0, 50, k).tolist(),
                in_flight=rng.uniform(0, 50, k).tolist(),
                latency_s=rng.uniform(0.001, 1, k).tolist(),
                baseline=baseline,
                report_age_ticks=age,
                sample_age_ticks=age,
            )
        )
    return some


def permuted(each: Snapshot, order: Sequence[int], names: tuple[str, ...] = ()) -> Snapshot:
    """Return the snapshot with its peers in another order, and with other names if given."""
    rows = list(order)
    columns = (*COLUMNS, "published", "sample_age_ticks", "utilization", "capacity", "leaving", "eligible")
    return replace(
        each,
        ids=names or tuple(each.ids[row] for row in rows),
        **{name: getattr(each, name)[rows] for name in columns},
    )


def assert_sound(decision: Decision) -> None:
    """Assert the properties of every decision."""
    assert np.isfinite(decision.weights).all()
    assert decision.weights.min() > 0
    assert decision.weights.sum() == pytest.approx(decision.total)
    assert decision.published.min() >= 1
    assert decision.published.sum() == decision.total
    assert decision.entropy_weights.sum() == pytest.approx(1)
    known = decision.score[~np.isnan(decision.score)]
    assert ((known >= 0) & (known <= 1 + 1e-12)).all()


def steps_at_once(law: laws.Law, upstreams: Sequence[Sequence[Snapshot]]) -> list[list[Decision]]:
    """Run a law over the snapshots of several upstreams, alike at each tick; return the decisions by tick."""
    memories, decided = [law.start()] * len(upstreams), []
    for each in zip(*upstreams, strict=True):
        stepped = law.step_batch(memories, batch_of(each))
        memories = [memory for memory, _ in stepped]
        decided.append([decision for _, decision in stepped])
    return decided


@EVERY_LAW
@given(KINDS, AGES, SIX_SEEDS)
@settings(max_examples=7)
def test_weights_are_sound_and_do_not_depend_on_the_order_of_the_peers(
    law: laws.Law, k: int, age: int, seeds: list[int]
) -> None:
    some = [drawn(k, seed, age=age) for seed in seeds]
    orders = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        # The order may change at every tick, or once.
        changes = rng.random(12) < rng.choice([0.1, 0.5, 1.0])
        changes[0] = True
        drawings = [rng.permutation(k).tolist() for _ in range(changes.sum())]
        orders.append([drawings[number - 1] for number in changes.cumsum()])
    mixed = [
        [permuted(each, order) for each, order in zip(its, its_orders, strict=True)]
        for its, its_orders in zip(some, orders, strict=True)
    ]
    decided = steps_at_once(law, [*some, *mixed])
    for decision in itertools.chain(*decided):
        assert_sound(decision)
    for straight, other, its_orders in zip(decided[-1][:6], decided[-1][6:], orders, strict=True):
        assert other.weights == pytest.approx(straight.weights[its_orders[-1]], rel=1e-6)


@EVERY_LAW
@given(st.integers(2, 9), AGES, SIX_SEEDS)
@settings(max_examples=7)
def test_equal_peers_get_equal_weights(law: laws.Law, k: int, age: int, seeds: list[int]) -> None:
    names = tuple(f"q{j}" for j in range(k))
    twins = [
        [permuted(each, [0, *range(1, k - 1), 0], names) for each in drawn(k, seed, age=age)]
        for seed in seeds
    ]
    for decision in steps_at_once(law, twins)[-1]:
        assert decision.weights[0] == pytest.approx(decision.weights[-1], rel=1e-9)


@EVERY_LAW
@given(st.integers(1, 6), AGES, SEEDS, st.data())
@settings(max_examples=8)
def test_garbage_moves_no_weight(law: laws.Law, k: int, age: int, seed: int, data: st.DataObject) -> None:
    some = drawn(k, seed, ticks=4, age=age)
    place = st.tuples(st.integers(0, 3), st.integers(0, k - 1))
    name = st.sampled_from([*COLUMNS, "utilization", "capacity"])
    many = data.draw(st.lists(st.tuples(place, name, GARBAGE), min_size=8, max_size=8))
    upstreams = []
    for (tick, row), column, garbage in many:
        for figure in (float("nan"), garbage):
            changed = getattr(some[tick], column).copy()
            changed[row] = figure
            upstreams.append([*some[:tick], replace(some[tick], **{column: changed}), *some[tick + 1 :]])
    decided = steps_at_once(law, upstreams)[-1]
    for without, broken in zip(decided[::2], decided[1::2], strict=True):
        assert broken.weights.tolist() == without.weights.tolist()
        assert_sound(broken)


@EVERY_LAW
@given(st.integers(1, 5), st.data())
@settings(max_examples=60)
def test_any_figures_at_all_give_a_sound_decision(law: laws.Law, k: int, data: st.DataObject) -> None:
    memory = law.start()
    for _tick in range(3):
        each = snapshot(ids=[f"p{j}" for j in range(k)])
        memory, decision = law.step(memory, replace(each, **wild(k, data)))
        assert_sound(decision)
        assert laws.decode_memory(law, laws.encode_memory(law.name, memory)) is not None


def wild(k: int, data: st.DataObject) -> dict[str, Any]:
    """Return columns of any floats at all."""
    extremes = st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 1e9, 1e15, 64.0])
    anything = st.floats() | st.floats(0, 1) | extremes
    sizes = dict.fromkeys(COLUMNS[:5], k) | {"utilization": 4 * k}
    drawn = {
        name: np.array(data.draw(st.lists(anything, min_size=size, max_size=size)))
        for name, size in sizes.items()
    }
    return {**drawn, "utilization": drawn["utilization"].reshape(k, 4)}


@EVERY_LAW
def test_a_stalled_or_stepped_clock_is_survived(law: laws.Law) -> None:
    memory = law.start()
    for tick_s in (1.0, 1e9, 0.0, -5.0, float("nan"), float("inf"), 1.0):
        memory, decision = law.step(memory, replace(snapshot(), tick_s=tick_s))
        assert_sound(decision)


def test_a_wrong_shape_is_the_callers_bug() -> None:
    with pytest.raises(ValueError, match=r"completed has shape \(2,\), not \(3,\)"):
        replace(snapshot(), completed=np.zeros(2))
    with pytest.raises(ValueError, match=r"capacity has shape \(3, 3\), not \(3, 4\)"):
        replace(snapshot(), capacity=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="an id occurs twice"):
        snapshot(ids="aab")
