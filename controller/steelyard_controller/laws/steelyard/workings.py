"""The results of a decision's steps, as columns for the explanation and for the memory. Pure."""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.law import Columns
from steelyard_controller.laws.snapshot import Floats, over_rows
from steelyard_controller.laws.steelyard.busyness import Busyness
from steelyard_controller.laws.steelyard.capacity_estimate import Estimate
from steelyard_controller.laws.steelyard.change_detection import Change
from steelyard_controller.laws.steelyard.evidence import BUSY, REMEMBERED, REQUESTS
from steelyard_controller.laws.steelyard.factors import Backlog, BoundedWeights, Failures, Slowness
from steelyard_controller.laws.steelyard.in_flight import InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.own_load import OwnLoad
from steelyard_controller.laws.steelyard.paired_window import Window
from steelyard_controller.laws.steelyard.request_cost import prior_worth
from steelyard_controller.laws.steelyard.slow_start import SlowStart
from steelyard_controller.laws.steelyard.traffic import Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Workings:
    """The results of steps 1 to 12, in their order."""

    busyness: Busyness
    traffic: Traffic
    window: Window
    in_flight: InFlight
    own: OwnLoad
    change: Change
    estimate: Estimate
    backlog: Backlog
    slowness: Slowness
    failures: Failures
    slow_start: SlowStart
    bounded: BoundedWeights

    def explained(self, inputs: Inputs) -> Columns:
        """Return this law's own columns of a decision."""
        snapshots, matched, evidence = inputs.snapshots, self.window.matched, self.estimate.evidence
        worth = prior_worth(evidence.cost, inputs.parameters)
        by_name = list(enumerate(snapshots.indicators))
        return {
            **{f"residual_{name}": self.busyness.residual[..., i] for i, name in by_name},
            **{f"smoothed_{name}": self.busyness.smoothed[..., i] for i, name in by_name},
            "sampleless_ticks": self.busyness.sampleless_ticks,
            "reportless_ticks": self.traffic.reportless_ticks,
            "hot": self.busyness.hot.astype(float),
            "matched": matched.astype(float),
            "inferred": self.window.inferred.astype(float),
            "load": np.where(matched, self.window.load, np.nan),
            "learnt_count": np.where(matched, self.window.count, np.nan),
            "own_load": np.where(matched, self.own.ours, np.nan),
            "evidence_requests": evidence.sums[..., REQUESTS],
            "evidence_busy_s": evidence.sums[..., BUSY],
            "request_cost": evidence.cost,
            "not_ours": self.estimate.not_ours,
            "known_not_ours": evidence.others,
            "contrast": self.own.known.contrast,
            "marginal_cost": self.own.known.marginal,
            "prior_share": worth / (evidence.requests + worth),
            "z": self.change.z,
            "restarted": self.change.restarted.astype(float),
            "restarts": evidence.restarts,
            "open": self.in_flight.open,
            "waiting": self.in_flight.waiting,
            "duration_s": self.in_flight.duration_s,
            "backlog_s": self.backlog.waiting_s,
            "mean_backlog_s": self.backlog.mean_waiting_s,
            "busy": self.slowness.busy,
            "backlog": self.backlog.factor,
            "slow": self.slowness.factor,
            "err": self.failures.factor,
            "join": self.slow_start.factor,
            "away": self.slow_start.away.astype(float),
            "clamp_residual": over_rows(np.logical_or, snapshots.utilization > 1.0).astype(float),
            "clamp_backlog": self.backlog.at_bound.astype(float),
            "clamp_floor": self.bounded.at_floor.astype(float),
            "clamp_ceiling": self.bounded.at_ceiling.astype(float),
        }

    def by_indicator(self) -> Columns:
        """Return the figures behind the indicators' weights, m x n each."""
        indicators = self.busyness.by_indicator
        return {
            "range": indicators.spread.range,
            "entropy": indicators.spread.entropy,
            "credit": indicators.credit,
            "knee": self.busyness.knee,
        }

    def columns(self, inputs: Inputs, weights: Floats) -> Columns:
        """Return the memory of each peer, by the names of the schema."""
        evidence = self.estimate.evidence
        return {
            **{name: getattr(evidence, name) for name in REMEMBERED},
            "J": evidence.jumps,
            "W": weights,
            "Q": self.traffic.in_flight,
            "ok": self.traffic.ok,
            "bad": self.traffic.bad,
            "lat": self.traffic.latency_s,
            "busy": self.slowness.busy,
            "seen_s": self.slow_start.seen_s,
            "known_s": inputs.previous["known_s"],
            "missed": self.in_flight.missed,
            "d": self.in_flight.duration_s,
            "open": self.in_flight.open,
            "sampleless_ticks": self.busyness.sampleless_ticks,
            "rs": self.busyness.smoothed,
            **self.window.rings,
        }

    def scalars(self, inputs: Inputs) -> Columns:
        """Return the memory of each upstream, by the names of the schema."""
        evidence, indicator_weights = self.estimate.evidence, self.busyness.by_indicator.weights
        return {
            "tick": self.window.tick.astype(float),
            "alert": self.busyness.alert.astype(float),
            "disp": evidence.dispersion,
            "in_flight_at_half": evidence.in_flight_at_half,
            "reportless_ticks": self.traffic.reportless_ticks,
            "mean_cost": self.traffic.mean_cost,
            "arriving": self.slow_start.arriving,
            **{
                f"W_{name}": indicator_weights[:, i : i + 1]
                for i, name in enumerate(inputs.snapshots.indicators)
            },
        }
