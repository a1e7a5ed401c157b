"""A law's decision: the weights, and every figure that led to them.

Pure. Columns are like those of the snapshot; `explanation.explain` turns one row into words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard_controller.laws.snapshot import INDICATORS, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One law's decision on one snapshot; k peers in the snapshot's order.

    weights        k, positive, sum to `total` (S)
    published      k integers >= 1: `weights` rounded by largest remainder to sum S, as in the table
    baseline       k, W_S, on the scale of `weights`
    published_baseline   k integers: `baseline`, rounded likewise
    score          k, U (eq 6); NaN: not known
    alert          whether the law is in its high-load mode
    indicators         n, names of the law's indicators
    entropy_weights    n, weights of the indicators; they sum to 1
    capacity_estimate  k, estimated capacity in requests per busy second; NaN: the law has none
    columns        k each: the other figures behind a weight, by name; a clamp is 0 or 1
    by_indicator   n each: range, entropy, credit and knee of the indicators, if the law has them
    parameters     the law's thresholds and parameters, by the letters of docs/reference/law-parameters.md
    parts          for a blend: (fraction, decision) of its two laws
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
