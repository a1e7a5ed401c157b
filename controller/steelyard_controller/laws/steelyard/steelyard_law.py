"""The law `steelyard`: the weight of a peer is an estimate of its capacity.

Pure. The paper's indicators, entropy weights, thresholds and decay, made
stable. This file has the order of the steps; each step has a file of its own:

    0 pairing   1 residuals   2 traffic   3-5 capacity_estimate   6-9 factors
    W_j proportional to c backlog slow err join; ln(W_j/W_Sj) clipped to [ln m_min, z_max]
"""

from dataclasses import dataclass, field
from math import exp, log
from typing import ClassVar

import numpy as np

from steelyard_controller.laws.decision_builder import baseline_weights, build_decisions
from steelyard_controller.laws.law import BoundLaw, Columns, Outcome, refuse_crossed_thresholds
from steelyard_controller.laws.memory import Schema
from steelyard_controller.laws.pairing import OLDEST_TICKS, paired
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.presentation import Presentation
from steelyard_controller.laws.small_arrays import anybody, clip, known_or_zero, summed
from steelyard_controller.laws.snapshot import (
    MAX_FIGURE,
    SAMPLE_PATIENCE_TICKS,
    Batch,
    Bools,
    Floats,
    indicator_column,
    measured_rows,
)
from steelyard_controller.laws.steelyard import factors
from steelyard_controller.laws.steelyard.capacity_estimate import (
    Evidence,
    capacity,
    learn,
    rescaled,
)
from steelyard_controller.laws.steelyard.request_cost import BUSY, REQUESTS
from steelyard_controller.laws.steelyard.residuals import knees, residuals, scored, smoothed, tightest
from steelyard_controller.laws.steelyard.steelyard_parameters import (
    BACKLOG_ADDED_MAX,
    BACKLOG_TAKEN_MAX,
    SCHEMA,
    SteelyardParameters,
)
from steelyard_controller.laws.steelyard.steelyard_presentation import PRESENTATION
from steelyard_controller.laws.steelyard.traffic import traffic

# A new window's part in `busy`: slowness is judged by the load of the last five seconds or so.
BUSY_SMOOTHING_PER_S = 0.2

# No limit changes by more than this at once; a reader that says so is broken.
LARGEST_STEP = 64.0

# A peer without samples and without requests for this long was away: it starts slowly again.
AWAY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Steelyard(BoundLaw):
    """The law `steelyard` with its parameters bound. Raises ValueError unless L > H."""

    bound: SteelyardParameters = field(default_factory=SteelyardParameters)
    name: str = "steelyard"
    schema: Schema = SCHEMA
    presentation: ClassVar[Presentation] = PRESENTATION

    def __post_init__(self) -> None:
        refuse_crossed_thresholds(self.bound.L, self.bound.H)

    def decide(self, previous: Columns, previous_scalars: Columns, snapshots: Batch) -> Outcome:
        """Decide by steps 0 to 9."""
        parameters = self.bound
        names = snapshots.indicators
        total = law_total(parameters.S, snapshots.k)
        baseline = baseline_weights(snapshots, total)
        tick = previous_scalars["tick"].astype(np.int64) + 1

        # 1: how busy
        usable = (snapshots.sample_age_ticks <= OLDEST_TICKS)[..., None]
        knee = knees(snapshots, parameters.knee_mem)
        residual = residuals(np.where(usable, snapshots.utilization, np.nan), knee)
        load = 1.0 - tightest(residual)
        sampled = ~np.isnan(load)
        bound_by_cpu = indicator_column(residual, names, "cpu") <= 1.0 - load
        sampleless = np.where(sampled, 0.0, previous["sampleless_ticks"] + 1.0)
        rs = smoothed(previous["rs"], residual, parameters.alpha)
        known = measured_rows(rs) & (sampleless <= SAMPLE_PATIENCE_TICKS)
        yardsticks = snapshots.eligible & ~snapshots.leaving
        state = scored(
            indicators=names,
            rs=rs,
            known=known,
            judged=known & yardsticks,
            weights_before=np.concatenate([previous_scalars[f"W_{each}"] for each in names], axis=-1),
            alert_before=previous_scalars["alert"] > 0,
            tick_s=snapshots.tick_s,
            parameters=parameters,
        )

        # 2: how much was done
        seen = traffic(
            snapshots,
            in_flight=previous["Q"],
            latency_s=previous["lat"],
            total=previous_scalars["X"],
            reportless_ticks=previous_scalars["reportless_ticks"],
            weights_before=np.where(np.isnan(previous["W"]), baseline, previous["W"]),
        )

        # 0: what one window has of load, count and requests in flight
        in_flight = np.minimum(seen.count * known_or_zero(seen.latency_s) / snapshots.tick_s, MAX_FIGURE)
        pair, waiting = (
            paired(
                tick=tick,
                load_ring=previous["load_ring"],
                count_ring=previous[ring],
                load=load,
                sample_age_ticks=snapshots.sample_age_ticks,
                count=figures,
                report_age_ticks=seen.age_ticks,
            )
            for ring, figures in (("count_ring", seen.count), ("in_flight_ring", in_flight))
        )
        matched = pair.matched & snapshots.eligible
        load = np.where(matched, np.minimum(pair.load, 1.0), 0.0)
        count = np.where(matched, pair.count, 0.0)

        # 3-5: the capacity estimate; a backlog means busy, whatever the sample says
        cores, ratio = _limits(
            np.where(sampled, snapshots.capacity[..., 0], np.nan), previous["cores"], bound_by_cpu
        )
        evidence = rescaled(
            Evidence(
                sums=previous["sums"],
                recent=previous["recent"],
                requests=previous["requests"],
                cost=previous["cost"],
                windows=previous["windows"],
                jumps=previous["J"],
                dispersion=previous_scalars["disp"],
                in_flight_at_half=previous_scalars["in_flight_at_half"],
            ),
            ratio,
        )
        known_capacity = capacity(evidence, baseline, parameters)
        backlog_s, mean_backlog_s = factors.waiting_s(seen.in_flight, known_capacity, yardsticks)
        waiting_load = clip((backlog_s - mean_backlog_s) / parameters.d_sat, 0.0, 1.0)
        result = learn(
            evidence,
            matched=matched,
            load=load,
            count=count,
            in_flight=np.where(matched, waiting.count, 0.0),
            waiting=np.where(matched & seen.live, waiting_load, 0.0),
            hot=state.hot,
            baseline=baseline,
            tick=tick,
            tick_s=snapshots.tick_s,
            parameters=parameters,
        )
        evidence, c = result.evidence, result.capacity

        # 6-9: the factors that reduce it
        fade = exp(-snapshots.tick_s / parameters.tau_e)
        ok = np.where(
            seen.reported, previous["ok"] * fade + known_or_zero(snapshots.completed), previous["ok"]
        )
        bad = np.where(
            seen.reported, previous["bad"] * fade + known_or_zero(snapshots.failed), previous["bad"]
        )
        part = min(1.0, BUSY_SMOOTHING_PER_S * snapshots.tick_s)
        busy = np.where(matched, previous["busy"] + part * (load - previous["busy"]), previous["busy"])
        backlog_s, mean_backlog_s = (
            np.where(seen.live, each, np.nan) for each in factors.waiting_s(seen.in_flight, c, yardsticks)
        )
        backlog = factors.backlog(backlog_s, mean_backlog_s, snapshots.report_age_ticks, snapshots.tick_s)
        backlog = np.where(seen.live, backlog, 1.0)
        slow = factors.slow(seen.latency_s, np.maximum(busy, load), ok, yardsticks, parameters.kappa)
        slow = np.where(seen.live, slow, 1.0)
        error = factors.err(ok, bad, yardsticks)
        seen_s, gone_s = _presence(snapshots, sampled, previous["seen_s"], previous["gone_s"])
        joining = factors.join(seen_s, parameters)

        raw = c * backlog * slow * error * joining
        ratio = np.log(raw * (total / summed(raw)) / baseline) if snapshots.k else raw
        clipped = clip(ratio, log(parameters.m_min), parameters.z_max)
        weights, decisions = build_decisions(
            law=self.name,
            snapshots=snapshots,
            raw=baseline * np.exp(clipped),
            baseline=baseline,
            parameters=self.parameters,
            score=state.score,
            alert=state.alert,
            entropy_weights=state.entropy_weights,
            capacity_estimate=c,
            weight_before=previous["W"],
            by_indicator={
                "range": state.spread.range,
                "entropy": state.spread.entropy,
                "credit": state.credit,
                "knee": knee,
            },
            columns={
                **{f"residual_{each}": residual[..., i] for i, each in enumerate(names)},
                **{f"smoothed_{each}": rs[..., i] for i, each in enumerate(names)},
                "sampleless_ticks": sampleless,
                "reportless_ticks": seen.reportless_ticks,
                "hot": state.hot.astype(float),
                "matched": matched.astype(float),
                "load": np.where(matched, load, np.nan),
                "learnt_count": np.where(matched, count, np.nan),
                "own_load": np.where(matched, result.own_load, np.nan),
                "evidence_requests": evidence.sums[..., REQUESTS],
                "evidence_busy_s": evidence.sums[..., BUSY],
                "request_cost": evidence.cost,
                "not_ours": result.not_ours,
                "prior_share": parameters.n0 / (evidence.requests + parameters.n0),
                "z": result.z,
                "restarted": result.restarted.astype(float),
                "restarts": previous["restarts"] + result.restarted,
                "backlog_s": backlog_s,
                "mean_backlog_s": mean_backlog_s,
                "busy": busy,
                "backlog": backlog,
                "slow": slow,
                "err": error,
                "join": joining,
                "clamp_residual": (snapshots.utilization > 1.0).any(axis=-1).astype(float),
                "clamp_backlog": (
                    (backlog >= 1.0 + BACKLOG_ADDED_MAX) | (backlog <= 1.0 - BACKLOG_TAKEN_MAX)
                ).astype(float),
                "clamp_floor": (ratio < clipped).astype(float),
                "clamp_ceiling": (ratio > clipped).astype(float),
            },
        )
        columns = {
            "sums": evidence.sums,
            "recent": evidence.recent,
            "requests": evidence.requests,
            "cost": evidence.cost,
            "windows": evidence.windows,
            "J": evidence.jumps,
            "cores": cores,
            "restarts": previous["restarts"] + result.restarted,
            "W": weights,
            "Q": seen.in_flight,
            "ok": ok,
            "bad": bad,
            "lat": seen.latency_s,
            "busy": busy,
            "seen_s": seen_s,
            "gone_s": gone_s,
            "sampleless_ticks": sampleless,
            "rs": rs,
            "load_ring": pair.load_ring,
            "count_ring": pair.count_ring,
            "in_flight_ring": waiting.count_ring,
        }
        scalars = {
            "tick": tick.astype(float),
            "alert": state.alert.astype(float),
            "disp": evidence.dispersion,
            "in_flight_at_half": evidence.in_flight_at_half,
            "X": seen.total,
            "reportless_ticks": seen.reportless_ticks,
            **{f"W_{each}": state.entropy_weights[:, i : i + 1] for i, each in enumerate(names)},
        }
        return Outcome(columns=columns, scalars=scalars, decisions=decisions)


def _limits(cores: Floats, before: Floats, bound_by_cpu: Bools) -> tuple[Floats, Floats]:
    """Return the cores that are known now, and how many times its load a peer's limit makes it; k each.

    A quota that is halved doubles the load that the same work is. Where another resource is the tightest it
    changes nothing.
    """
    now = np.where(cores > 0, cores, before)
    ratio = clip(before / now, 1.0 / LARGEST_STEP, LARGEST_STEP)
    return now, np.where(bound_by_cpu & ~np.isnan(ratio), ratio, 1.0)


def _presence(snapshots: Batch, sampled: Bools, seen_s: Floats, gone_s: Floats) -> tuple[Floats, Floats]:
    """Return for how long each peer was seen and is gone, in seconds.

    A peer that is out of service, or silent while others are not, will start slowly when it is back.
    """
    present = sampled | (known_or_zero(snapshots.completed) > 0)
    gone = np.where(present, 0.0, gone_s + snapshots.tick_s * anybody(present))
    back = snapshots.eligible & (gone <= AWAY_S)
    return np.where(back, seen_s + present * snapshots.tick_s, 0.0), gone
