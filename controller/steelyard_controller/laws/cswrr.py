"""The law `cswrr`: client-side weighted round robin, as Envoy and gRPC do it, to compare with.

Pure. gRPC proposal A58, with the busiest indicator as the utilization:

    W_j = qps_j / (max_i u_ij + penalty eps_j / qps_j)      qps, eps: requests, failures per second

A report without requests or without load is ignored. A peer whose last useful
report is older than the expiration, or whose reports have come for less than
the blackout, has no weight of its own and gets the median of the others' (as
Envoy does; A58 itself takes the mean). Fewer than two weights: the baseline
(A58: plain round robin).
"""

from dataclasses import dataclass, field

import numpy as np

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.decision_builder import baseline_weights, build_decisions
from steelyard_controller.laws.law import BoundLaw, Columns
from steelyard_controller.laws.memory import Column, Scalar, Schema
from steelyard_controller.laws.pairing import OLDEST_TICKS, RING, paired
from steelyard_controller.laws.parameters import SHARED_S, law_total, parameter
from steelyard_controller.laws.small_arrays import known_or_zero, median, summed
from steelyard_controller.laws.snapshot import MAX_FIGURE, SMALLEST_FIGURE, Batch, Bools, Floats

NAN = float("nan")

# The fewest weights that say how peers compare (A58: "fewer than two subchannels ... round robin").
FEWEST_WEIGHTS = 2

SCHEMA = Schema(
    law="cswrr",
    version=1,
    columns={
        # The largest counts of the shortest tick over the smallest load that a snapshot can hold.
        "weight": Column(initial=NAN, high=1e3 * MAX_FIGURE / SMALLEST_FIGURE),
        "reporting_s": Column(),
        "silent_s": Column(),
        "load_ring": Column(initial=NAN, width=RING, high=64.0),
        "count_ring": Column(initial=NAN, width=RING),
        "failed_ring": Column(initial=NAN, width=RING),
        "W_last": Column(initial=NAN),
    },
    scalars={"tick": Scalar()},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CswrrParameters:
    """The parameters of the law `cswrr`; defaults as in gRPC proposal A58."""

    blackout: float = parameter(10.0, 0, 3600, "s", "reports are first watched for this long, then used")
    expiration: float = parameter(180.0, 1, 86400, "s", "a weight without a new report lasts this long")
    penalty: float = parameter(
        1.0, 0, 1000, "utilization", "error_utilization_penalty: all failing adds this"
    )
    S: float = parameter(*SHARED_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cswrr(BoundLaw):
    """The law `cswrr` with its parameters bound."""

    bound: CswrrParameters = field(default_factory=CswrrParameters)
    name: str = "cswrr"
    schema: Schema = SCHEMA

    def decide(self, was: Columns, had: Columns, batch: Batch) -> tuple[Columns, Columns, list[Decision]]:
        """Decide by the reports and samples of the last minutes."""
        p, s = self.bound, batch
        tick = had["tick"].astype(np.int64) + 1
        baseline = baseline_weights(s, law_total(p.S, s.k))
        busiest = _busiest(s)
        report_age = s.report_age_ticks if s.report_age_ticks <= OLDEST_TICKS else 0
        report = s.completed if s.report_age_ticks <= OLDEST_TICKS else np.full(s.completed.shape, np.nan)
        failures = np.where(np.isnan(report), np.nan, known_or_zero(s.failed))
        done, failed = (
            paired(
                tick=tick,
                load_ring=was["load_ring"],
                count_ring=was[ring],
                load=busiest,
                sample_age_ticks=s.sample_age_ticks,
                count=counts,
                report_age_ticks=np.full(tick.shape, report_age),
            )
            for ring, counts in (("count_ring", report), ("failed_ring", failures))
        )
        qps = (done.count + failed.count) / s.tick_s
        useful = done.matched & (done.load > 0) & (qps > 0) & s.eligible
        fresh = _weight(qps, failed.count / s.tick_s, done.load, useful, p.penalty)
        weight = np.where(useful, fresh, was["weight"])
        silent_s = np.where(useful, 0.0, was["silent_s"] + s.tick_s)
        expired = silent_s >= p.expiration
        # Time since reports began (A58's non_empty_since); an expired peer begins anew.
        begun = (was["reporting_s"] > 0) & ~expired
        reporting_s = np.where(begun | useful, was["reporting_s"] * begun + s.tick_s, 0.0)
        weight = np.where(expired, np.nan, weight)
        # The first report opens the blackout; it is over when `blackout` seconds have passed since.
        in_blackout = (reporting_s > 0) & (reporting_s - s.tick_s < p.blackout)
        usable = ~np.isnan(weight) & ~in_blackout & (reporting_s > 0)
        raw, middle = _filled(weight, usable, usable & s.eligible & ~s.leaving, baseline)
        weights, decisions = build_decisions(
            law=self.name,
            batch=s,
            raw=raw,
            baseline=baseline,
            parameters=self.parameters,
            capacity_estimate=weight,
            weight_before=was["W_last"],
            columns={
                "load": np.where(done.matched, done.load, np.nan),
                "qps": np.where(done.matched, qps, np.nan),
                "eps": np.where(done.matched, failed.count / s.tick_s, np.nan),
                "own_weight": usable.astype(float),
                "median_weight": middle,
                "blackout": in_blackout.astype(float),
                "blackout_left_s": np.where(in_blackout, p.blackout - (reporting_s - s.tick_s), 0.0),
                "expired": (expired & (was["reporting_s"] > 0)).astype(float),
                "silent_s": silent_s,
            },
        )
        columns = {
            "weight": weight,
            "reporting_s": reporting_s,
            "silent_s": silent_s,
            "load_ring": done.load_ring,
            "count_ring": done.count_ring,
            "failed_ring": failed.count_ring,
            "W_last": weights,
        }
        return columns, {"tick": tick.astype(float)}, decisions


def _busiest(s: Batch) -> Floats:
    """Return the largest utilization of each peer, k; NaN without a usable sample."""
    measured = ~np.isnan(s.utilization) & (s.sample_age_ticks <= OLDEST_TICKS)[..., None]
    busiest = np.max(s.utilization, axis=-1, where=measured, initial=0.0)
    return np.where(measured.any(axis=-1), busiest, np.nan)


def _weight(qps: Floats, eps: Floats, load: Floats, useful: Bools, penalty: float) -> Floats:
    """Return qps / (utilization + penalty eps/qps) where the report is useful, NaN elsewhere."""
    failing = np.divide(eps, qps, out=np.zeros(qps.shape), where=useful)
    weight: Floats = np.divide(qps, load + penalty * failing, out=np.full(qps.shape, np.nan), where=useful)
    return weight


def _filled(weight: Floats, usable: Bools, yardsticks: Bools, baseline: Floats) -> tuple[Floats, Floats]:
    """Return every peer's weight, those without one at the yardsticks' median; and that median, m x 1."""
    enough = summed(yardsticks) >= FEWEST_WEIGHTS
    middle = np.where(enough, median(weight, yardsticks), np.nan)
    return np.where(enough, np.where(usable, weight, middle), baseline), middle
