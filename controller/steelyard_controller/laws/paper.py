"""The law `paper`: Qin et al. as printed, for comparison. It oscillates above half load.

Pure. Equations 1 to 8 each tick (see `equations`), with the baseline W_S from
eq 5 of the same tick unless the operator gave one:

    U_j <= H       high load          U_j >= L and a high node exists    low load
    any high:      W_j = F_j W_Sj of high and low nodes, W_Sj of the others
    none (calm):   W_j += decay (W_Sj - W_j)

A sample counts for `SAMPLE_PATIENCE_TICKS`. Without one, a peer is left out of the equations and is one of
"the others".
"""

from dataclasses import dataclass, field
from math import isnan
from typing import ClassVar

import numpy as np

from steelyard_controller.laws.decision_builder import baseline_weights, build_decisions
from steelyard_controller.laws.equations import (
    adjusted_weights,
    entropy_weights,
    load_classes,
    residual_score,
    score_shares,
    spread,
)
from steelyard_controller.laws.law import Columns, Law, Outcome, refuse_crossed_thresholds
from steelyard_controller.laws.memory import Column, Schema
from steelyard_controller.laws.parameters import SHARED_S, law_total, parameter
from steelyard_controller.laws.presentation import Presentation, Row, Step, in_percent
from steelyard_controller.laws.small_arrays import anybody
from steelyard_controller.laws.snapshot import SAMPLE_PATIENCE_TICKS, Batch, measured_rows

NAN = float("nan")

SCHEMA = Schema(
    law="paper",
    version=1,
    columns={
        "U": Column(initial=NAN, by_indicator=True, high=64.0),
        "sampleless_ticks": Column(),
        "W": Column(initial=NAN),
        "W_last": Column(initial=NAN),
    },
    scalars={},
)


def _reason(row: Row) -> list[str]:
    score = float(row.decision.score[row.index])
    high, low = row.decision.parameters["H"], row.decision.parameters["L"]
    if isnan(score):
        return [f"no sample to judge it by, so it gets its baseline {row.baseline}"]
    # Eq 8 does not sum to S: without this clause the figures would not add up.
    scaled = f"scaled so that all weights sum to {row.decision.total}"
    share = f"{in_percent(row.get('share'))} of all scores times baseline {row.baseline}, {scaled}"
    if row.is_set("high_load"):
        return [f"score {score:.2f} is at most H = {high:g} (high load): {share}"]
    if row.is_set("low_load"):
        main = f"score {score:.2f} is at least L = {low:g} (low load)"
        return [f"{main} while another is overloaded: {share}"]
    if row.decision.alert:
        return [f"score {score:.2f} is between H and L: baseline {row.baseline}, {scaled}"]
    return [f"no score is at most H = {high:g}, so it returns to its baseline {row.baseline}"]


PRESENTATION = Presentation(
    sentence="weights follow the free capacity of each server, as in the paper",
    color="#E69F00",
    reason=_reason,
    steps=(
        Step(
            "Score",
            "{score:count}",
            "Its free capacity, each indicator by its weight: neither high nor low load.",
            {
                "high_load": "Its free capacity, each indicator by its weight: high load (at most H).",
                "low_load": "Its free capacity, each indicator by its weight: low load (at least L).",
            },
        ),
        Step(
            "Share of all scores",
            "{share:percent}",
            "Multiplied by its baseline while it is at high or low load.",
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperParameters:
    """The parameters of the law `paper`."""

    H: float = parameter(0.3, 0, 0.99, "score", "the paper's high-load threshold: alert when U <= H")
    L: float = parameter(
        0.4, 0, 1, "score", "the paper's low-load threshold; above H (by 0.1 if only H is set)"
    )
    decay: float = parameter(
        0.2, 0.001, 1, "of the gap", "return to the baseline in a calm tick: nine tenths in ten ticks"
    )
    scale_by_k: float = parameter(
        0, 0, 1, "0 or 1", "1: eq 8 as k F W_S, so that adjusted nodes do not shrink"
    )
    S: float = parameter(*SHARED_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper(Law):
    """The law `paper` with its parameters bound. Raises ValueError unless L > H."""

    bound: PaperParameters = field(default_factory=PaperParameters)
    name: str = "paper"
    schema: Schema = SCHEMA
    presentation: ClassVar[Presentation] = PRESENTATION

    def __post_init__(self) -> None:
        refuse_crossed_thresholds(self.bound.L, self.bound.H)

    def decide(self, previous: Columns, previous_scalars: Columns, snapshots: Batch) -> Outcome:
        """Decide by eqs 1-8."""
        parameters = self.bound
        sampled = measured_rows(snapshots.utilization)
        utilization = np.where(sampled[..., None], snapshots.utilization, previous["U"])
        sampleless = np.where(sampled, 0.0, previous["sampleless_ticks"] + 1.0)
        yardsticks = snapshots.eligible & ~snapshots.leaving
        judged = yardsticks & (sampleless <= SAMPLE_PATIENCE_TICKS) & measured_rows(utilization)
        busy = np.where(judged[..., None], utilization, np.nan)
        apart = spread(busy)
        weights = entropy_weights(apart.entropy)
        baseline = baseline_weights(snapshots, law_total(parameters.S, snapshots.k), weights)
        score = residual_score(weights, 1.0 - np.minimum(busy, 1.0))
        shares = score_shares(score)
        high, low = load_classes(score, parameters.H, parameters.L, judged)
        alert = anybody(high)
        scale = snapshots.k if parameters.scale_by_k >= 0.5 else 1.0
        printed = adjusted_weights(baseline, shares, high | low, scale)
        before = np.where(np.isnan(previous["W"]), baseline, previous["W"])
        printed = np.where(alert, printed, before + parameters.decay * (baseline - before))
        # A score of 0 makes eq 8 answer 0, which would drain the server: only a person may do that.
        printed = np.maximum(printed, baseline * 1e-6)
        by_name = list(enumerate(snapshots.indicators))
        decided, decisions = build_decisions(
            law=self.name,
            snapshots=snapshots,
            raw=printed,
            baseline=baseline,
            parameters=self.parameters,
            score=score,
            alert=alert,
            entropy_weights=weights,
            weight_before=previous["W_last"],
            by_indicator={"range": apart.range, "entropy": apart.entropy},
            columns={
                **{f"normalized_{each}": apart.normalized[..., i] for i, each in by_name},
                **{f"proportions_{each}": apart.proportions[..., i] for i, each in by_name},
                "share": shares,
                "paper_weight": printed,
                "high_load": high.astype(float),
                "low_load": low.astype(float),
                "sampleless_ticks": sampleless,
            },
        )
        columns = {"U": utilization, "sampleless_ticks": sampleless, "W": printed, "W_last": decided}
        return Outcome(columns=columns, scalars=previous_scalars, decisions=decisions)
