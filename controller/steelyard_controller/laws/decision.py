"""A law's decision: the weights, and every figure that led to each peer's weight.

Pure. Columns like the snapshot's; `explanation.explain` turns one row into words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard_controller.laws.snapshot import INDICATORS, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One law's decision on one snapshot; k peers in the snapshot's order.

    weights        k, positive, sum to `total` (S)
    published      k integers >= 1: `weights` by largest remainder to S. They are what the table has
    baseline       k, W_S, on the scale of `weights`
    published_baseline   k integers: `baseline`, likewise
    score          k, U (eq 6); NaN where it is not known
    alert          whether the law is in its high-load mode
    indicators         n, the names of the indicators that the law went by
    entropy_weights    n, of the indicators; they sum to 1
    capacity_estimate  k, the law's estimate of what a peer can do, in requests per busy second
                   (NaN where the law has none)
    columns        k each: whatever else explains a weight, by name; a clamp is 0 or 1
    by_indicator   n each: range, entropy, credit, knee of the indicators, where the law has them
    parameters     the law's thresholds and parameters, by the letters of docs/control-law.md
    parts          of a blend: (fraction, decision) of the two laws that were blended
    """

    t_s: float
    law: str
    ids: tuple[str, ...]
    weights: Floats
    published: Ints
    baseline: Floats
    published_baseline: Ints
    score: Floats
    alert: bool
    entropy_weights: Floats
    capacity_estimate: Floats
    columns: Mapping[str, Floats]
    parameters: Mapping[str, float]
    total: int
    by_indicator: Mapping[str, Floats] = field(default_factory=dict)
    indicators: tuple[str, ...] = INDICATORS
    parts: "tuple[tuple[float, Decision], ...]" = ()
