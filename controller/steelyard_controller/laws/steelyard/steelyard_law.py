"""The law `steelyard`: the weight of a peer is an estimate of its capacity.

Pure. The paper's indicators, entropy weights, thresholds and decay, made
stable. This file has the order of the steps; each step has a file of its own:

    0 pairing   1 residuals   2 traffic   3-5 capacity_estimate   6-9 factors
    W_j proportional to c backlog slow err join; ln(W_j/W_Sj) clipped to [ln m_min, z_max]
"""

from dataclasses import dataclass, field
from math import exp, log

import numpy as np

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.decision_builder import baseline_weights, build_decisions
from steelyard_controller.laws.law import BoundLaw, Columns, refuse_crossed_thresholds
from steelyard_controller.laws.memory import Schema
from steelyard_controller.laws.pairing import OLDEST_TICKS, paired
from steelyard_controller.laws.parameters import law_total
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

    def __post_init__(self) -> None:
        refuse_crossed_thresholds(self.bound.L, self.bound.H)

    def decide(self, was: Columns, had: Columns, batch: Batch) -> tuple[Columns, Columns, list[Decision]]:
        """Decide by steps 0 to 9."""
        p, s = self.bound, batch
        names = s.indicators
        total = law_total(p.S, s.k)
        baseline = baseline_weights(s, total)
        tick = had["tick"].astype(np.int64) + 1

        # 1: how busy
        usable = (s.sample_age_ticks <= OLDEST_TICKS)[..., None]
        knee = knees(s, p.knee_mem)
        residual = residuals(np.where(usable, s.utilization, np.nan), knee)
        load = 1.0 - tightest(residual)
        sampled = ~np.isnan(load)
        bound_by_cpu = indicator_column(residual, names, "cpu") <= 1.0 - load
        sampleless = np.where(sampled, 0.0, was["sampleless_ticks"] + 1.0)
        rs = smoothed(was["rs"], residual, p.alpha)
        known = measured_rows(rs) & (sampleless <= SAMPLE_PATIENCE_TICKS)
        yardsticks = s.eligible & ~s.leaving
        state = scored(
            indicators=names,
            rs=rs,
            known=known,
            judged=known & yardsticks,
            weights_before=np.concatenate([had[f"W_{each}"] for each in names], axis=-1),
            alert_before=had["alert"] > 0,
            tick_s=s.tick_s,
            p=p,
        )

        # 2: how much was done
        seen = traffic(
            s,
            in_flight=was["Q"],
            latency_s=was["lat"],
            total=had["X"],
            reportless_ticks=had["reportless_ticks"],
            weights_before=np.where(np.isnan(was["W"]), baseline, was["W"]),
        )

        # 0: what one window has of load, count and requests in flight
        in_flight = np.minimum(seen.count * known_or_zero(seen.latency_s) / s.tick_s, MAX_FIGURE)
        pair, waiting = (
            paired(
                tick=tick,
                load_ring=was["load_ring"],
                count_ring=was[ring],
                load=load,
                sample_age_ticks=s.sample_age_ticks,
                count=figures,
                report_age_ticks=seen.age_ticks,
            )
            for ring, figures in (("count_ring", seen.count), ("in_flight_ring", in_flight))
        )
        matched = pair.matched & s.eligible
        load = np.where(matched, np.minimum(pair.load, 1.0), 0.0)
        count = np.where(matched, pair.count, 0.0)

        # 3-5: the capacity estimate; a backlog means busy, whatever the sample says
        cores, ratio = _limits(np.where(sampled, s.capacity[..., 0], np.nan), was["cores"], bound_by_cpu)
        evidence = rescaled(
            Evidence(
                sums=was["sums"],
                recent=was["recent"],
                requests=was["requests"],
                cost=was["cost"],
                windows=was["windows"],
                jumps=was["J"],
                dispersion=had["disp"],
                in_flight_at_half=had["in_flight_at_half"],
            ),
            ratio,
        )
        known_capacity = capacity(evidence, baseline, p)
        backlog_s, mean_backlog_s = factors.waiting_s(seen.in_flight, known_capacity, yardsticks)
        waiting_load = clip((backlog_s - mean_backlog_s) / p.d_sat, 0.0, 1.0)
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
            tick_s=s.tick_s,
            p=p,
        )
        evidence, c = result.evidence, result.capacity

        # 6-9: the factors that reduce it
        fade = exp(-s.tick_s / p.tau_e)
        ok = np.where(seen.reported, was["ok"] * fade + known_or_zero(s.completed), was["ok"])
        bad = np.where(seen.reported, was["bad"] * fade + known_or_zero(s.failed), was["bad"])
        part = min(1.0, BUSY_SMOOTHING_PER_S * s.tick_s)
        busy = np.where(matched, was["busy"] + part * (load - was["busy"]), was["busy"])
        backlog_s, mean_backlog_s = (
            np.where(seen.live, each, np.nan) for each in factors.waiting_s(seen.in_flight, c, yardsticks)
        )
        backlog = factors.backlog(backlog_s, mean_backlog_s, s.report_age_ticks, s.tick_s)
        backlog = np.where(seen.live, backlog, 1.0)
        slow = factors.slow(seen.latency_s, np.maximum(busy, load), ok, yardsticks, p.kappa)
        slow = np.where(seen.live, slow, 1.0)
        error = factors.err(ok, bad, yardsticks)
        seen_s, gone_s = _presence(s, sampled, was["seen_s"], was["gone_s"])
        joining = factors.join(seen_s, p)

        raw = c * backlog * slow * error * joining
        ratio = np.log(raw * (total / summed(raw)) / baseline) if s.k else raw
        clipped = clip(ratio, log(p.m_min), p.z_max)
        weights, decisions = build_decisions(
            law=self.name,
            batch=s,
            raw=baseline * np.exp(clipped),
            baseline=baseline,
            parameters=self.parameters,
            score=state.score,
            alert=state.alert,
            entropy_weights=state.entropy_weights,
            capacity_estimate=c,
            weight_before=was["W"],
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
                "prior_share": p.n0 / (evidence.requests + p.n0),
                "z": result.z,
                "restarted": result.restarted.astype(float),
                "restarts": was["restarts"] + result.restarted,
                "backlog_s": backlog_s,
                "mean_backlog_s": mean_backlog_s,
                "busy": busy,
                "backlog": backlog,
                "slow": slow,
                "err": error,
                "join": joining,
                "clamp_residual": (s.utilization > 1.0).any(axis=-1).astype(float),
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
            "restarts": was["restarts"] + result.restarted,
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
        return columns, scalars, decisions


def _limits(cores: Floats, before: Floats, bound_by_cpu: Bools) -> tuple[Floats, Floats]:
    """Return the cores that are known now, and how many times its load a peer's limit makes it; k each.

    A quota that is halved doubles the load that the same work is. Where another resource is the tightest it
    changes nothing.
    """
    now = np.where(cores > 0, cores, before)
    ratio = clip(before / now, 1.0 / LARGEST_STEP, LARGEST_STEP)
    return now, np.where(bound_by_cpu & ~np.isnan(ratio), ratio, 1.0)


def _presence(s: Batch, sampled: Bools, seen_s: Floats, gone_s: Floats) -> tuple[Floats, Floats]:
    """Return for how long each peer was seen and is gone, in seconds.

    A peer that is out of service, or silent while others are not, will start slowly when it is back.
    """
    present = sampled | (known_or_zero(s.completed) > 0)
    gone = np.where(present, 0.0, gone_s + s.tick_s * anybody(present))
    back = s.eligible & (gone <= AWAY_S)
    return np.where(back, seen_s + present * s.tick_s, 0.0), gone
