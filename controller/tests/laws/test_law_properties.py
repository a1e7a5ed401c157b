"""Properties of every law under any input."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steelyard_controller import laws
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import Snapshot

from .snapshots import snapshot, steps

EVERY_LAW = pytest.mark.parametrize("law", [laws.create(name) for name in laws.NAMES], ids=laws.NAMES)
KINDS = st.integers(1, 9)
SEEDS = st.integers(0, 2**32 - 1)
GARBAGE = st.sampled_from([float("nan"), float("inf"), float("-inf"), -1.0, -1e300, 1e300, 1e18])
COLUMNS = ("completed", "failed", "in_flight", "latency_s", "baseline", "pinned")


def drawn(k: int, seed: int, ticks: int = 12) -> list[Snapshot]:
    """Return some ticks of k random peers; some samples, indicators and reports are missing."""
    rng = np.random.default_rng(seed)
    baseline = rng.uniform(1, 100, k).tolist() if rng.random() < 0.5 else None
    late = int(rng.integers(0, 3))
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
                report_age_ticks=late,
                sample_age_ticks=late,
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


@EVERY_LAW
@given(KINDS, SEEDS, st.data())
@settings(max_examples=40)
def test_weights_are_sound_and_do_not_depend_on_the_order_of_the_peers(
    law: laws.Law, k: int, seed: int, data: st.DataObject
) -> None:
    some = drawn(k, seed)
    _, straight = steps(law, some)
    # The order may change at every tick, or once.
    order, mixed, memory = list(range(k)), straight, law.start()
    for each in some:
        order = data.draw(st.permutations(range(k)) | st.just(order))
        memory, mixed = law.step(memory, permuted(each, order))
        assert_sound(mixed)
    assert mixed.weights == pytest.approx(straight.weights[order], rel=1e-6)


@EVERY_LAW
@given(st.integers(2, 9), SEEDS)
@settings(max_examples=40)
def test_equal_peers_get_equal_weights(law: laws.Law, k: int, seed: int) -> None:
    some = drawn(k, seed)
    names = tuple(f"q{j}" for j in range(k))
    twins = [permuted(each, [0, *range(1, k - 1), 0], names) for each in some]
    _, decision = steps(law, twins)
    assert decision.weights[0] == pytest.approx(decision.weights[-1], rel=1e-9)


@EVERY_LAW
@given(st.integers(1, 6), SEEDS, st.data())
@settings(max_examples=60)
def test_garbage_moves_no_weight(law: laws.Law, k: int, seed: int, data: st.DataObject) -> None:
    some = drawn(k, seed, ticks=4)
    tick, row = data.draw(st.integers(0, 3)), data.draw(st.integers(0, k - 1))
    name = data.draw(st.sampled_from([*COLUMNS, "utilization", "capacity"]))
    garbage = data.draw(GARBAGE)
    absent, wrong = getattr(some[tick], name).copy(), getattr(some[tick], name).copy()
    absent[row], wrong[row] = float("nan"), garbage
    _, without = steps(law, [replace(e, **{name: absent}) if n == tick else e for n, e in enumerate(some)])
    _, broken = steps(law, [replace(e, **{name: wrong}) if n == tick else e for n, e in enumerate(some)])
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
