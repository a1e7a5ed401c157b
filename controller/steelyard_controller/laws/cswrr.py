"""The law `cswrr`: client-side weighted round robin, as in Envoy and gRPC, for comparison.

Pure. gRPC proposal A58, with the busiest indicator as the utilization:

    W_j = qps_j / (max_i u_ij + penalty eps_j / qps_j)      qps, eps: requests, failures per second

A report without requests or load is ignored. A peer has no weight of its own if its last useful report is
older than the expiration, or its reports have arrived for less than the blackout. It then gets the median of
the others' weights, as in Envoy; A58 itself takes the mean. With fewer than two weights, all get the baseline
(A58: plain round robin).
"""

from dataclasses import dataclass, field
from math import isnan
from typing import ClassVar

import numpy as np

from steelyard_controller.laws.decision_builder import baseline_weights, build_decisions
from steelyard_controller.laws.law import Columns, Law, Outcome
from steelyard_controller.laws.memory import Column, Scalar, Schema
from steelyard_controller.laws.pairing import OLDEST_TICKS, RING, Paired, paired
from steelyard_controller.laws.parameters import SHARED_S, law_total, parameter
from steelyard_controller.laws.presentation import Presentation, Row, Step, in_digits, in_seconds
from steelyard_controller.laws.small_arrays import known_or_zero, median, summed
from steelyard_controller.laws.snapshot import MAX_FIGURE, SMALLEST_FIGURE, Batch, Bools, Floats, Ints

NAN = float("nan")

# The fewest weights that allow a comparison (A58: "fewer than two subchannels ... round robin").
FEWEST_WEIGHTS = 2

SCHEMA = Schema(
    law="cswrr",
    version=1,
    columns={
        # The largest count of the shortest tick over the smallest load in a snapshot.
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


def _reason(row: Row) -> list[str]:
    median = row.get("median_weight")
    if isnan(median):
        return [f"fewer than two servers have a weight of their own, so it gets its baseline {row.baseline}"]
    if row.is_set("own_weight"):
        able = in_digits(float(row.decision.capacity_estimate[row.index]))
        clauses = [f"serves {able} requests per unit of utilization"]
        if row.get("eps") > 0:
            clauses.append(f"with {in_digits(row.get('eps'))} failures per second counted as utilization")
        return clauses
    if row.is_set("blackout"):
        why = f"its reports are only watched for another {in_seconds(row.get('blackout_left_s'))}"
    elif row.is_set("expired"):
        why = "its last report has expired"
    else:
        why = "has not reported yet"
    median_text = f"the median of the others, {in_digits(median)} requests per unit of utilization"
    return [f"{why}, so it gets {median_text}"]


PRESENTATION = Presentation(
    sentence="weights follow requests per unit of utilization, as Envoy and gRPC do",
    color="#8C2D04",
    reason=_reason,
    steps=(
        Step(
            "Throughput",
            "{capacity_estimate:count} requests per unit of utilization",
            "It has no weight of its own yet.",
            {"own_weight": "It has a weight of its own."},
        ),
        Step("Median of the others", "{median_weight:count}", "For servers without a weight of their own."),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CswrrParameters:
    """The parameters of the law `cswrr`; defaults as in gRPC proposal A58."""

    blackout: float = parameter(10.0, 0, 3600, "s", "first reports of a server that are only watched")
    expiration: float = parameter(180.0, 1, 86400, "s", "life of a weight without a new report")
    penalty: float = parameter(
        1.0, 0, 1000, "utilization", "error_utilization_penalty: added when every request fails"
    )
    S: float = parameter(*SHARED_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The pairs completed at this tick, and their rates, k each; 0 if not `matched`."""

    tick: Ints
    pair: Paired
    qps: Floats
    eps: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWeights:
    """The weight from each peer's last useful report, k; NaN: none, or expired.

    silent_s       seconds since its last useful report
    reporting_s    seconds since its first report (A58's non_empty_since); expiration resets it
    blackout       its reports are only watched
    usable         it has a weight that counts
    """

    weight: Floats
    silent_s: Floats
    reporting_s: Floats
    expired: Bools
    blackout: Bools
    usable: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Cswrr(Law):
    """The law `cswrr` with its parameters bound."""

    bound: CswrrParameters = field(default_factory=CswrrParameters)
    name: str = "cswrr"
    schema: Schema = SCHEMA
    presentation: ClassVar[Presentation] = PRESENTATION

    def decide(self, previous: Columns, previous_scalars: Columns, snapshots: Batch) -> Outcome:
        """Return the weights by the reports and samples of the last minutes."""
        baseline = baseline_weights(snapshots, law_total(self.bound.S, snapshots.k))
        report = _report(snapshots, previous, previous_scalars)
        own = _own_weights(snapshots, previous, report, self.bound)
        matched = report.pair.matched
        yardsticks = own.usable & snapshots.eligible & ~snapshots.leaving
        raw, middle = _filled(own.weight, own.usable, yardsticks, baseline)
        blackout_left_s = self.bound.blackout - (own.reporting_s - snapshots.tick_s)
        weights, decisions = build_decisions(
            law=self.name,
            snapshots=snapshots,
            raw=raw,
            baseline=baseline,
            parameters=self.parameters,
            capacity_estimate=own.weight,
            weight_before=previous["W_last"],
            columns={
                "load": np.where(matched, report.pair.load, np.nan),
                "qps": np.where(matched, report.qps, np.nan),
                "eps": np.where(matched, report.eps, np.nan),
                "own_weight": own.usable.astype(float),
                "median_weight": middle,
                "blackout": own.blackout.astype(float),
                "blackout_left_s": np.where(own.blackout, blackout_left_s, 0.0),
                "expired": (own.expired & (previous["reporting_s"] > 0)).astype(float),
                "silent_s": own.silent_s,
            },
        )
        columns = {
            "weight": own.weight,
            "reporting_s": own.reporting_s,
            "silent_s": own.silent_s,
            **report.pair.rings,
            "W_last": weights,
        }
        return Outcome(columns=columns, scalars={"tick": report.tick.astype(float)}, decisions=decisions)


def _report(snapshots: Batch, previous: Columns, previous_scalars: Columns) -> Report:
    """Pair this tick's sample and traffic report with their other halves."""
    tick = previous_scalars["tick"].astype(np.int64) + 1
    is_usable = snapshots.report_age_ticks <= OLDEST_TICKS
    completed = np.where(is_usable, snapshots.completed, np.nan)
    failed = np.where(np.isnan(completed), np.nan, known_or_zero(snapshots.failed))
    pair = paired(
        tick=tick,
        previous=previous,
        load=_busiest(snapshots),
        sample_age_ticks=snapshots.sample_age_ticks,
        counts={"count_ring": completed, "failed_ring": failed},
        report_age_ticks=np.full(tick.shape, snapshots.report_age_ticks if is_usable else 0),
    )
    done, failures = pair.counts
    return Report(
        tick=tick,
        pair=pair,
        qps=(done + failures) / snapshots.tick_s,
        eps=failures / snapshots.tick_s,
    )


def _own_weights(
    snapshots: Batch, previous: Columns, report: Report, parameters: CswrrParameters
) -> OwnWeights:
    """Return the weights by the reports; a report without requests or load is ignored."""
    tick_s = snapshots.tick_s
    qps, load = report.qps, report.pair.load
    useful = report.pair.matched & (load > 0) & (qps > 0) & snapshots.eligible
    failing = np.divide(report.eps, qps, out=np.zeros(qps.shape), where=useful)
    used = load + parameters.penalty * failing
    fresh = np.divide(qps, used, out=np.full(qps.shape, np.nan), where=useful)
    silent_s = np.where(useful, 0.0, previous["silent_s"] + tick_s)
    expired = silent_s >= parameters.expiration
    weight = np.where(expired, np.nan, np.where(useful, fresh, previous["weight"]))
    begun = (previous["reporting_s"] > 0) & ~expired
    reporting_s = np.where(begun | useful, previous["reporting_s"] * begun + tick_s, 0.0)
    # The first report opens the blackout, which lasts `blackout` seconds.
    blackout = (reporting_s > 0) & (reporting_s - tick_s < parameters.blackout)
    return OwnWeights(
        weight=weight,
        silent_s=silent_s,
        reporting_s=reporting_s,
        expired=expired,
        blackout=blackout,
        usable=~np.isnan(weight) & ~blackout & (reporting_s > 0),
    )


def _busiest(snapshots: Batch) -> Floats:
    """Return the largest utilization of each peer, k; NaN without a usable sample."""
    measured = ~np.isnan(snapshots.utilization) & (snapshots.sample_age_ticks <= OLDEST_TICKS)[..., None]
    busiest = np.max(snapshots.utilization, axis=-1, where=measured, initial=0.0)
    return np.where(measured.any(axis=-1), busiest, np.nan)


def _filled(weight: Floats, usable: Bools, yardsticks: Bools, baseline: Floats) -> tuple[Floats, Floats]:
    """Return each peer's weight, or the yardsticks' median without one; and that median, m x 1."""
    enough = summed(yardsticks) >= FEWEST_WEIGHTS
    middle = np.where(enough, median(weight, yardsticks), np.nan)
    return np.where(enough, np.where(usable, weight, middle), baseline), middle
