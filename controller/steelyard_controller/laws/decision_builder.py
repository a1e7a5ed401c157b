"""Builds the decision from a law's raw weights: servers that leave, pins, the sum S, the integers.

Pure. The same for every law, so that pins and leaving servers have the same
effect under each of them.

    leaving   W_j = 0.02 W_Sj                     it may still answer, but nothing should be sent
    pinned    W_j as pinned; the others share S - sum of pins, in proportion
"""

from collections.abc import Mapping

import numpy as np

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.equations import EQUAL, hardware_shares, hardware_weights
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.quantize import quantize
from steelyard_controller.laws.snapshot import Bools, Floats, Snapshot

# A law never gives 0 (only a person drains); a fiftieth is the smallest share that the default law gives.
LEAVING_SHARE = 0.02


def baseline_weights(snapshot: Snapshot, total: int, indicator_weights: Floats | None = None) -> Floats:
    """Return W_S, k, summing to `total`: the operator's weights, or eq 5 where there are none.

    `indicator_weights` are those of the snapshot's indicators, n; None: all of the hardware counts equally.
    Where some peers have an operator's weight and others not, the others get what their hardware
    is worth on the operator's scale.
    """
    weights = EQUAL if indicator_weights is None else hardware_weights(indicator_weights, snapshot.indicators)
    hardware = hardware_shares(weights, snapshot.capacity)
    given = ~np.isnan(snapshot.baseline)
    if not given.any():
        weights = hardware
    else:
        of_the_given = hardware[given].sum()
        scale = snapshot.baseline[given].sum() / of_the_given if of_the_given > 0 else 1.0
        weights = np.where(given, snapshot.baseline, hardware * scale)
    # A peer whose agent reports a capacity of 0 still gets a weight: 0 would be a drain.
    weights = np.maximum(weights, weights.sum() * 1e-9)
    sums = weights.sum()
    return weights * (total / sums) if sums > 0 else np.full(len(weights), total / max(len(weights), 1))


def build_decision(
    *,
    law: str,
    snapshot: Snapshot,
    raw: Floats,
    baseline: Floats,
    parameters: Mapping[str, float],
    columns: Mapping[str, Floats],
    score: Floats | None = None,
    alert: bool = False,
    entropy_weights: Floats | None = None,
    capacity_estimate: Floats | None = None,
    by_indicator: Mapping[str, Floats] | None = None,
    weight_before: Floats | None = None,
) -> Decision:
    """Return the decision for raw weights, which are positive and in any scale."""
    k, n = len(snapshot.ids), len(snapshot.indicators)
    total = law_total(parameters["S"], k)
    weights = raw * (total / raw.sum()) if k else raw
    if snapshot.leaving.any():
        weights = np.where(snapshot.leaving, LEAVING_SHARE * baseline, weights)
        weights = weights * (total / weights.sum())
    pinned = ~np.isnan(snapshot.pinned)
    pin_scaled = False
    if pinned.any():
        weights, pin_scaled = _with_pins(weights, snapshot.pinned, pinned, total)
    published = np.empty(k, dtype=np.int64)
    if pinned.any() and not pinned.all():
        fixed = np.maximum(np.rint(weights[pinned]).astype(np.int64), 1)
        published[pinned] = fixed
        published[~pinned] = quantize(weights[~pinned], total - int(fixed.sum()))
    else:
        published = quantize(weights, total)
    unknown = np.full(k, np.nan)
    return Decision(
        t_s=snapshot.t_s,
        law=law,
        ids=snapshot.ids,
        weights=weights,
        published=published,
        total=total,
        baseline=baseline,
        score=unknown if score is None else score,
        alert=alert,
        indicators=snapshot.indicators,
        entropy_weights=np.full(n, 1.0 / n) if entropy_weights is None else entropy_weights,
        capacity_estimate=unknown if capacity_estimate is None else capacity_estimate,
        columns={
            **_inputs(snapshot),
            "weight_before": unknown if weight_before is None else weight_before,
            **columns,
            "leaving": snapshot.leaving.astype(float),
            "pinned": snapshot.pinned,
            "clamp_pin": np.where(pinned & pin_scaled, 1.0, 0.0),
            "clamp_one": (np.rint(weights) < 1.0).astype(float),
        },
        by_indicator={} if by_indicator is None else by_indicator,
        parameters=parameters,
    )


def _with_pins(weights: Floats, pins: Floats, pinned: Bools, total: int) -> tuple[Floats, bool]:
    """Return the weights with the pins applied, and whether the pins were scaled.

    The others keep at least 1 each: pins that leave less are scaled down; when all are pinned,
    the pins are proportions.
    """
    free = len(weights) - int(pinned.sum())
    wanted = float(pins[pinned].sum())
    room = total - free if free else total
    scaled = wanted > room or (free == 0 and wanted != total)
    scale = room / wanted if scaled else 1.0
    left = total - wanted * scale
    others = weights * (left / weights[~pinned].sum()) if free else weights
    return np.where(pinned, pins * scale, others), scaled


def _inputs(snapshot: Snapshot) -> dict[str, Floats]:
    """Return the snapshot's columns by name, as the explanation shows them."""
    return {
        **{f"utilization_{each}": snapshot.utilization[:, i] for i, each in enumerate(snapshot.indicators)},
        "sample_age_ticks": snapshot.sample_age_ticks.astype(float),
        "report_age_ticks": np.full(len(snapshot.ids), float(snapshot.report_age_ticks)),
        "completed": snapshot.completed,
        "failed": snapshot.failed,
        "in_flight": snapshot.in_flight,
        "latency_s": snapshot.latency_s,
        "eligible": snapshot.eligible.astype(float),
    }
