"""From a decision to the weight table that is published. Pure."""

from collections.abc import Sequence
from math import gcd

import numpy as np

from steelyard_controller.decision import Decision
from steelyard_controller.declared.upstream import Upstream
from steelyard_controller.pipeline.weight_table import TablePeer, WeightTable
from steelyard_controller.quantize import quantize


def tabulate(
    decision: Decision, upstream: Upstream, *, name: str, term: int, generation: int, issued_at_ms: int
) -> WeightTable:
    """Return the table of a decision on `upstream`, whose peers are in the decision's order.

    Effective and baseline weights are brought to the same total S and divided
    by their common gcd, so that a person can compare the two columns.
    """
    total = round(float(decision.weights.sum())) if len(decision.ids) else 0
    weights = quantize(decision.weights, total) if total else np.zeros(0, dtype=np.int64)
    baseline = quantize(decision.baseline, total) if total else np.zeros(0, dtype=np.int64)
    unit = _common_divisor([*weights.tolist(), *baseline.tolist()])
    return WeightTable(
        upstream=name,
        term=term,
        generation=generation,
        issued_at_ms=issued_at_ms,
        law=upstream.law if upstream.blend is None or upstream.blend.percent < 100 else upstream.blend.law,
        picker=upstream.picker,
        check=None if upstream.check is None else upstream.check.model_dump(),
        hash_key=upstream.hash_key,
        peers=tuple(
            TablePeer(
                id=peer.id,
                address=peer.address,
                weight=int(weights[row]) // unit,
                baseline=int(baseline[row]) // unit,
                state=peer.state,
            )
            for row, peer in enumerate(upstream.peers)
        ),
    )


def _common_divisor(integers: Sequence[int]) -> int:
    return max(1, gcd(*integers)) if integers else 1
