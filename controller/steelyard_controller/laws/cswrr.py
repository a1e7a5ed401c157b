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
from steelyard_controller.laws.decision_builder import baseline_weights, build_decision
from steelyard_controller.laws.law import BoundLaw
from steelyard_controller.laws.memory import Column, Memory, Scalar, Schema, aligned
from steelyard_controller.laws.pairing import OLDEST_TICKS, RING, paired
from steelyard_controller.laws.parameters import SHARED_S, law_total, parameter
from steelyard_controller.laws.snapshot import MAX_FIGURE, SMALLEST_FIGURE, Bools, Floats, Snapshot, cleaned

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

    def step(self, memory: Memory, snapshot: Snapshot) -> tuple[Memory, Decision]:
        """Decide for one snapshot."""
        p, s = self.bound, cleaned(snapshot)
        memory = aligned(memory, SCHEMA, s.ids)
        was, tick = memory.columns, int(memory.scalars["tick"]) + 1
        baseline = baseline_weights(s, law_total(p.S, len(s.ids)))
        busiest = _busiest(s)
        report_age = s.report_age_ticks if s.report_age_ticks <= OLDEST_TICKS else 0
        report = np.where(s.report_age_ticks <= OLDEST_TICKS, s.completed, np.nan)
        failures = np.where(np.isnan(report), np.nan, np.nan_to_num(s.failed, nan=0.0))
        done, failed = (
            paired(
                tick=tick,
                load_ring=was["load_ring"],
                count_ring=was[ring],
                load=busiest,
                sample_age_ticks=s.sample_age_ticks,
                count=counts,
                report_age_ticks=report_age,
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
        raw, median = _filled(weight, usable, usable & s.eligible & ~s.leaving, baseline)
        decision = build_decision(
            law=self.name,
            snapshot=s,
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
                "median_weight": np.full(len(s.ids), median),
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
            "W_last": decision.weights,
        }
        return (
            Memory(
                law=SCHEMA.law,
                version=SCHEMA.version,
                ids=s.ids,
                columns=columns,
                scalars={"tick": float(tick)},
            ),
            decision,
        )


def _busiest(s: Snapshot) -> Floats:
    """Return the largest utilization of each peer, k; NaN without a usable sample."""
    measured = ~np.isnan(s.utilization) & (s.sample_age_ticks <= OLDEST_TICKS)[:, None]
    busiest = np.max(s.utilization, axis=1, where=measured, initial=0.0)
    return np.where(measured.any(axis=1), busiest, np.nan)


def _weight(qps: Floats, eps: Floats, load: Floats, useful: Bools, penalty: float) -> Floats:
    """Return qps / (utilization + penalty eps/qps) where the report is useful, NaN elsewhere."""
    failing = np.divide(eps, qps, out=np.zeros(len(qps)), where=useful)
    weight: Floats = np.divide(qps, load + penalty * failing, out=np.full(len(qps), np.nan), where=useful)
    return weight


def _filled(weight: Floats, usable: Bools, yardsticks: Bools, baseline: Floats) -> tuple[Floats, float]:
    """Return every peer's weight, those without one at the median of the yardsticks; and that median."""
    if yardsticks.sum() < FEWEST_WEIGHTS:
        return baseline, float("nan")
    median = float(np.median(weight[yardsticks]))
    return np.where(usable, weight, median), median
