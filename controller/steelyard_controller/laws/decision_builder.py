"""Builds decisions from a law's raw weights: leaving servers, pins, the sum S, the integers.

Pure. It serves every law, so that pins and leaving servers have the same effect under each of them.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from steelyard_controller.laws.decision import Decision, Decisions
from steelyard_controller.laws.equations import EQUAL, hardware_shares, hardware_weights
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.quantize import quantize
from steelyard_controller.laws.small_arrays import anybody, quotient, summed
from steelyard_controller.laws.snapshot import INDICATORS, Batch, Bools, Floats, Ints

# A law never gives 0, because only a person drains. A fiftieth is the default law's smallest share.
LEAVING_SHARE = 0.02

# Servers of a batch whose baseline weights are cached: 48 kB. A tick's batches have a thousand.
MOST_CACHED = 1000


def baseline_weights(snapshots: Batch, total: int, indicator_weights: Floats | None = None) -> Floats:
    """Return W_S, m x k, each upstream's summing to `total`: the operator's weights, or eq 5 without them.

    `indicator_weights` are m x n; None: all hardware counts equally. If only some peers have an operator's
    weight, the others get the worth of their hardware on the operator's scale.
    """
    capacity, operators = snapshots.capacity, snapshots.baseline
    if indicator_weights is not None:
        weights = hardware_weights(indicator_weights, snapshots.indicators)
        return _baseline_weights(weights, capacity, operators, total)
    if operators.size > MOST_CACHED:
        return _baseline_weights(EQUAL, capacity, operators, total)
    return _cached_baseline(capacity.tobytes(), operators.tobytes(), operators.shape, total)


@lru_cache(maxsize=32)
def _cached_baseline(capacity: bytes, operators: bytes, shape: tuple[int, ...], total: int) -> Floats:
    """Return the baseline weights with all hardware counted equally; mostly those of the previous tick."""
    of_hardware = np.frombuffer(capacity).reshape(*shape, len(INDICATORS))
    weights = _baseline_weights(EQUAL, of_hardware, np.frombuffer(operators).reshape(shape), total)
    weights.flags.writeable = False
    return weights


def _baseline_weights(indicator_weights: Floats, capacity: Floats, operators: Floats, total: int) -> Floats:
    hardware = hardware_shares(indicator_weights, capacity)
    given = ~np.isnan(operators)
    weights = hardware
    if given.any():
        scale = quotient(summed(operators, given), summed(hardware, given), 1.0)
        weights = np.where(given, operators, hardware * scale)
    # A peer whose agent reports a capacity of 0 still gets a weight: 0 would be a drain.
    weights = np.maximum(weights, summed(weights) * 1e-9)
    sums = summed(weights)
    return np.where(sums > 0, weights * quotient(total, sums, 1.0), total / max(weights.shape[-1], 1))


def build_decisions(
    *,
    law: str,
    snapshots: Batch,
    raw: Floats,
    baseline: Floats,
    parameters: Mapping[str, float],
    columns: Mapping[str, Floats],
    score: Floats | None = None,
    alert: Bools | None = None,
    entropy_weights: Floats | None = None,
    capacity_estimate: Floats | None = None,
    by_indicator: Mapping[str, Floats] = MappingProxyType({}),
    weight_before: Floats | None = None,
) -> tuple[Floats, list[Decision]]:
    """Return the weights, m x k, and the m decisions for raw weights, which are positive and in any scale.

    Columns may be m x 1 if an upstream's peers share a figure.
    """
    m, n = len(snapshots.ids), len(snapshots.indicators)
    total = law_total(parameters["S"], snapshots.k)
    weights, (published, published_baseline), clamp_pin = _published(snapshots, raw, baseline, total)
    unknown = np.full((m, snapshots.k), np.nan)
    explained = {
        **_inputs(snapshots),
        "weight_before": unknown if weight_before is None else weight_before,
        **columns,
        "leaving": snapshots.leaving.astype(float),
        "pinned": snapshots.pinned,
        "clamp_pin": clamp_pin.astype(float),
        "clamp_one": (np.rint(weights) < 1.0).astype(float),
    }
    for name, each in explained.items():
        if each.shape != unknown.shape:
            explained[name] = np.full(unknown.shape, each)
    decided = {
        "t_s": snapshots.t_s,
        "ids": snapshots.ids,
        "weights": weights,
        "published": published,
        "baseline": baseline,
        "published_baseline": published_baseline,
        "score": unknown if score is None else score,
        "alert": [False] * m if alert is None else alert[:, 0].tolist(),
        "entropy_weights": np.full((m, n), 1.0 / n) if entropy_weights is None else entropy_weights,
        "capacity_estimate": unknown if capacity_estimate is None else capacity_estimate,
    }
    shared: dict[str, Any] = {
        "law": law,
        "total": total,
        "indicators": snapshots.indicators,
        "parameters": parameters,
        "parts": (),
    }
    decisions = Decisions(by_upstream=decided, shared=shared, columns=explained, by_indicator=by_indicator)
    return weights, [decisions.of(row) for row in range(m)]


def _published(
    snapshots: Batch, raw: Floats, baseline: Floats, total: int
) -> tuple[Floats, tuple[Ints, Ints], Bools]:
    """Return the weights, which sum to S; integers of weights and baseline; scaled pins; m x k each.

    leaving   W_j = 0.02 W_Sj        it may still answer, but should get nothing;  W_S: baseline
    pinned    W_j as pinned; the others share S - sum of pins, in proportion
    """
    weights = raw * (total / summed(raw)) if snapshots.k else raw
    if snapshots.leaving.any():
        left = np.where(snapshots.leaving, LEAVING_SHARE * baseline, weights)
        left *= total / summed(left)
        weights = np.where(anybody(snapshots.leaving), left, weights)
    integers = quantize(np.concatenate((weights, baseline)), total)
    published, of_baseline = integers[: len(weights)], integers[len(weights) :]
    pinned = ~np.isnan(snapshots.pinned)
    scaled = np.zeros((len(weights), 1), dtype=np.bool_)
    for row in np.flatnonzero(pinned.any(axis=-1)):
        weights[row], scaled[row] = _with_pins(weights[row], snapshots.pinned[row], pinned[row], total)
        published[row] = quantize_with_pins(weights[row], pinned[row], total)
    return weights, (published, of_baseline), pinned & scaled


def quantize_with_pins(weights: Floats, pinned: Bools, total: int) -> Ints:
    """Return the integers of one upstream's weights; a pin is rounded by itself."""
    if pinned.all():
        return quantize(weights, total)
    published = np.empty(len(weights), dtype=np.int64)
    published[pinned] = np.maximum(np.rint(weights[pinned]).astype(np.int64), 1)
    published[~pinned] = quantize(weights[~pinned], total - int(published[pinned].sum()))
    return published


def _with_pins(weights: Floats, pins: Floats, pinned: Bools, total: int) -> tuple[Floats, bool]:
    """Return the weights with the pins applied, and whether the pins were scaled.

    The others keep at least 1 each: pins that leave less are scaled down. If all are pinned, the pins are
    proportions.
    """
    free = len(weights) - int(pinned.sum())
    wanted = float(pins[pinned].sum())
    room = total - free if free else total
    scaled = wanted > room or (free == 0 and wanted != total)
    scale = room / wanted if scaled else 1.0
    left = total - wanted * scale
    others = weights * (left / weights[~pinned].sum()) if free else weights
    return np.where(pinned, pins * scale, others), scaled


def _inputs(snapshots: Batch) -> dict[str, Floats]:
    """Return the snapshots' columns by name, as the explanation shows them."""
    return {
        **{
            f"utilization_{each}": snapshots.utilization[..., i]
            for i, each in enumerate(snapshots.indicators)
        },
        "sample_age_ticks": snapshots.sample_age_ticks.astype(float),
        "report_age_ticks": np.array([[float(snapshots.report_age_ticks)]]),
        "completed": snapshots.completed,
        "failed": snapshots.failed,
        "in_flight": snapshots.in_flight,
        "latency_s": snapshots.latency_s,
        "eligible": snapshots.eligible.astype(float),
        # Only some agents and load balancers report these.
        **{
            name: figures
            for name, figures in (("cost", snapshots.cost), ("up_s", snapshots.up_s))
            if not np.isnan(figures).all()
        },
    }
