"""The law `steelyard`: the weight of a peer is an estimate of what it can do.

Pure. The paper's indicators, entropy weights, thresholds and decay, made
stable; this file is the order of the steps, each of which has its own:

    0 pairing   1 residuals   2 traffic   3-5 evidence   6-9 factors
    W_j proportional to c drain slow err join; ln(W_j/W_Sj) clipped to [ln m_min, z_max]
"""

from dataclasses import dataclass, field
from math import exp, log

import numpy as np

from steelyard_controller.decision import Decision
from steelyard_controller.equations import INDICATORS
from steelyard_controller.laws.bound import BoundLaw, refuse_crossed_thresholds
from steelyard_controller.laws.memory import Memory, aligned
from steelyard_controller.laws.pairing import OLDEST_TICKS, paired
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.schema import Schema
from steelyard_controller.laws.settle import baseline_weights, settled
from steelyard_controller.laws.steelyard import factors
from steelyard_controller.laws.steelyard.evidence import Evidence, capacity, learnt
from steelyard_controller.laws.steelyard.parameters import (
    DRAIN_MAX,
    DRAIN_UP,
    SAMPLE_PATIENCE_TICKS,
    SCHEMA,
    SteelyardParameters,
)
from steelyard_controller.laws.steelyard.residuals import residuals, scored, smoothed, tightest
from steelyard_controller.laws.steelyard.traffic import traffic
from steelyard_controller.snapshot import Floats, Snapshot, cleaned, measured_rows

# A new window's part in `busy`: slowness is judged by the load of the last five seconds or so.
BUSY_SMOOTHING_PER_S = 0.2

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

    def step(self, memory: Memory, snapshot: Snapshot) -> tuple[Memory, Decision]:
        """Decide for one snapshot (steps 0 to 9)."""
        p, s = self.bound, cleaned(snapshot)
        memory = aligned(memory, SCHEMA, s.ids)
        was, had = memory.columns, memory.scalars
        total = law_total(p.S, len(s.ids))
        baseline = baseline_weights(s, total)
        tick = int(had["tick"]) + 1

        # 1: how busy
        usable = (s.sample_age_ticks <= OLDEST_TICKS)[:, None]
        residual = residuals(np.where(usable, s.utilization, np.nan), p.knee_mem)
        load = 1.0 - tightest(residual)
        sampled = ~np.isnan(load)
        sampleless = np.where(sampled, 0.0, was["sampleless_ticks"] + 1.0)
        rs = smoothed(was["rs"], residual, p.alpha)
        known = measured_rows(rs) & (sampleless <= SAMPLE_PATIENCE_TICKS)
        yardsticks = s.eligible & ~s.leaving
        state = scored(
            rs=rs,
            known=known,
            judged=known & yardsticks,
            weights_before=np.array([had[f"W_{each}"] for each in INDICATORS]),
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
            reportless_ticks=int(had["reportless_ticks"]),
            weights_before=np.where(np.isnan(was["W"]), baseline, was["W"]),
        )

        # 0, 3: the same window's load and count; a backlog means busy, whatever the sample says
        pair = paired(
            tick=tick,
            load_ring=was["load_ring"],
            count_ring=was["count_ring"],
            load=load,
            sample_age_ticks=s.sample_age_ticks,
            count=seen.count,
            report_age_ticks=seen.age_ticks,
        )
        matched = pair.matched & s.eligible
        load = np.where(matched, pair.load, 0.0)
        count = np.where(matched, pair.count, 0.0)
        if seen.live:
            c = capacity(was["A"], was["B"], baseline, p.n0)
            delay, mean_delay = factors.backlog(seen.in_flight, c, yardsticks)
            waiting = np.clip((delay - mean_delay) / p.d_sat, 0.0, 1.0)
            load = np.where(matched, np.maximum(load, waiting), 0.0)

        # 3-5: what it can do
        result = learnt(
            Evidence(
                a=was["A"],
                b=was["B"],
                jumps=was["J"],
                recent_a=was["recent_a"],
                recent_b=was["recent_b"],
                dispersion=had["disp"],
            ),
            matched=matched,
            load=load,
            count=count,
            hot=state.hot,
            baseline=baseline,
            tick=tick,
            tick_s=s.tick_s,
            p=p,
        )
        evidence, c = result.evidence, result.capacity

        # 6-9: what is taken off
        ok, bad = was["ok"], was["bad"]
        if seen.reported:
            fade = exp(-s.tick_s / p.tau_e)
            ok = ok * fade + np.nan_to_num(s.completed, nan=0.0)
            bad = bad * fade + np.nan_to_num(s.failed, nan=0.0)
        part = min(1.0, BUSY_SMOOTHING_PER_S * s.tick_s)
        busy = np.where(matched, was["busy"] + part * (load - was["busy"]), was["busy"])
        ones, nothing = np.ones(len(s.ids)), np.full(len(s.ids), np.nan)
        drain, slow, delay, mean_delay = ones, ones, nothing, float("nan")
        if seen.live:
            delay, mean_delay = factors.backlog(seen.in_flight, c, yardsticks)
            drain = factors.drain(delay, mean_delay, s.report_age_ticks, s.tick_s)
            slow = factors.slow(seen.latency_s, busy, ok, yardsticks, p.kappa)
        error = factors.err(ok, bad, yardsticks)
        seen_s, gone_s = _presence(s, sampled, was["seen_s"], was["gone_s"])
        joining = factors.join(seen_s, p)

        raw = c * drain * slow * error * joining
        ratio = np.log(raw * (total / raw.sum()) / baseline) if len(raw) else raw
        clipped = np.clip(ratio, log(p.m_min), p.z_max)
        decision = settled(
            law=self.name,
            snapshot=s,
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
            },
            columns={
                **{f"residual_{each}": residual[:, i] for i, each in enumerate(INDICATORS)},
                **{f"smoothed_{each}": rs[:, i] for i, each in enumerate(INDICATORS)},
                "sampleless_ticks": sampleless,
                "reportless_ticks": ones * seen.reportless_ticks,
                "hot": state.hot.astype(float),
                "matched": matched.astype(float),
                "load": np.where(matched, load, np.nan),
                "learnt_count": np.where(matched, count, np.nan),
                "evidence_requests": evidence.a,
                "evidence_busy_s": evidence.b,
                "prior_share": p.n0 / (evidence.a + p.n0),
                "z": result.z,
                "restarted": result.restarted.astype(float),
                "restarts": was["restarts"] + result.restarted,
                "dispersion": ones * evidence.dispersion,
                "backlog_s": delay,
                "mean_backlog_s": ones * mean_delay,
                "busy": busy,
                "drain": drain,
                "slow": slow,
                "err": error,
                "join": joining,
                "clamp_residual": (s.utilization[:, 0] > 1.0).astype(float),
                "clamp_drain": ((drain >= 1.0 + DRAIN_UP) | (drain <= 1.0 - DRAIN_MAX)).astype(float),
                "clamp_floor": (ratio < clipped).astype(float),
                "clamp_ceiling": (ratio > clipped).astype(float),
            },
        )
        columns = {
            "A": evidence.a,
            "B": evidence.b,
            "J": evidence.jumps,
            "restarts": was["restarts"] + result.restarted,
            "W": decision.weights,
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
            "recent_a": evidence.recent_a,
            "recent_b": evidence.recent_b,
        }
        scalars = {
            "tick": float(tick),
            "alert": float(state.alert),
            "disp": evidence.dispersion,
            "X": seen.total,
            "reportless_ticks": float(seen.reportless_ticks),
            **{f"W_{each}": float(state.entropy_weights[i]) for i, each in enumerate(INDICATORS)},
        }
        return (
            Memory(law=SCHEMA.law, version=SCHEMA.version, ids=s.ids, columns=columns, scalars=scalars),
            decision,
        )


def _presence(s: Snapshot, sampled: np.ndarray, seen_s: Floats, gone_s: Floats) -> tuple[Floats, Floats]:
    """Return for how long each peer was seen and is gone, in seconds.

    A peer that is out of service, or silent while others are not, will start slowly when it is back.
    """
    present = sampled | (np.nan_to_num(s.completed, nan=0.0) > 0)
    gone = np.where(present, 0.0, gone_s + (s.tick_s if present.any() else 0.0))
    back = s.eligible & (gone <= AWAY_S)
    return np.where(back, seen_s + present * s.tick_s, 0.0), gone
