"""What a peer can do: requests per busy second, from evidence and prior (steps 3 to 5).

Pure.

    c_j  = (A_j + n0) / (B_j + n0/(G W_Sj))        G = sum A / sum (B W_S); W_Sj where sum A = 0
    om   = l^2 / (l^2 + l0^2)
    A, B = A e^(-T/tau) + om n,  B e^(-T/tau) + om l T
    disp += beta T (mean_j min(n e^2, 9 disp) - disp)      e = ln(n/(l T c)), n >= 3, l > 0.05
    z    = |ln((a + 1)/(b c + 1))| / sqrt(disp/a + eps^2)  a, b: sums over the last 1 or 3 windows, a >= 3
    max z > h (1 + J_j): A, B = a, b;  J_j += 1            J decays with tau
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from steelyard_controller.laws.steelyard.parameters import CHANGE_WINDOWS, SteelyardParameters
from steelyard_controller.snapshot import Bools, Floats

# Fewer requests than this in a window say nothing of their own spread.
FEWEST_REQUESTS = 3.0
IDLE_LOAD = 0.05
# One outlier may raise the dispersion this much a tick, not without bound.
OUTLIER = 9.0
SMALLEST_DISPERSION = 0.3
# Evidence of less than this, of all peers together, has faded: six idle hours would make it underflow.
FADED_REQUESTS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Sums of requests (A) and busy seconds (B), the last windows, and the restarts; k each."""

    a: Floats
    b: Floats
    jumps: Floats
    recent_a: Floats
    recent_b: Floats
    dispersion: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """The evidence after a tick, the estimate from it, and what the change test said."""

    evidence: Evidence
    capacity: Floats
    z: Floats
    restarted: Bools


def capacity(a: Floats, b: Floats, baseline: Floats, n0: float) -> Floats:
    """Return c, k: requests per busy second, shrunk towards the baseline by a prior worth n0 requests.

    Without a single request the busy seconds are somebody else's (a cron job, the server's own
    start) and tell nothing of what a request costs: the baselines then stand. So they do when the
    last request has faded away, which c tends to anyway: c_j - G W_Sj is of the order of sum A / n0.
    """
    work = float((b * baseline).sum())
    done = float(a.sum())
    if done <= FADED_REQUESTS:
        return baseline.copy()
    per_weight = done / work if work > 0 else 1.0
    return (a + n0) / (b + n0 / (per_weight * baseline))


def learnt(
    evidence: Evidence,
    *,
    matched: Bools,
    load: Floats,
    count: Floats,
    hot: Bools,
    baseline: Floats,
    tick: int,
    tick_s: float,
    p: SteelyardParameters,
) -> Learnt:
    """Take in the matched windows (load and count are 0 where not matched), then test for change."""
    fade = exp(-tick_s / p.tau)
    trust = load * load / (load * load + p.l0**2)
    a_now, b_now = trust * count, trust * load * tick_s
    a, b = evidence.a * fade + a_now, evidence.b * fade + b_now
    c = capacity(a, b, baseline, p.n0)
    dispersion = _dispersion(evidence.dispersion, matched, load, count, c, tick_s, p.beta)
    recent_a = np.column_stack((evidence.recent_a[:, 1:], a_now))
    recent_b = np.column_stack((evidence.recent_b[:, 1:], b_now))
    z, a_best, b_best = _contradiction(recent_a, recent_b, c, dispersion, tick, p.eps)
    threshold = np.where(hot, p.h_hot, p.h_cold) * (1.0 + evidence.jumps)
    restarted = matched & (z > threshold)
    a, b = np.where(restarted, a_best, a), np.where(restarted, b_best, b)
    return Learnt(
        evidence=Evidence(
            a=a,
            b=b,
            jumps=evidence.jumps * fade + restarted,
            recent_a=recent_a,
            recent_b=recent_b,
            dispersion=dispersion,
        ),
        capacity=capacity(a, b, baseline, p.n0),
        z=z,
        restarted=restarted,
    )


def _dispersion(
    before: float, matched: Bools, load: Floats, count: Floats, c: Floats, tick_s: float, beta: float
) -> float:
    """Return disp: how much more the counts scatter than a Poisson's would."""
    telling = matched & (count >= FEWEST_REQUESTS) & (load > IDLE_LOAD)
    if not telling.any():
        return before
    n = count[telling]
    error = np.log(n / (load[telling] * tick_s * c[telling]))
    scatter = float(np.minimum(n * error * error, OUTLIER * before).mean())
    return max(SMALLEST_DISPERSION, before + min(1.0, beta * tick_s) * (scatter - before))


def _contradiction(
    recent_a: Floats, recent_b: Floats, c: Floats, dispersion: float, tick: int, eps: float
) -> tuple[Floats, Floats, Floats]:
    """Return the largest z over the windows, and the sums a and b it came from; k each."""
    z, a, b = np.zeros(len(c)), recent_a[:, -1], recent_b[:, -1]
    for windows in CHANGE_WINDOWS:
        if windows > tick:
            continue
        a_sum, b_sum = recent_a[:, -windows:].sum(axis=1), recent_b[:, -windows:].sum(axis=1)
        surprise = np.abs(np.log((a_sum + 1.0) / (b_sum * c + 1.0)))
        this = surprise / np.sqrt(dispersion / np.maximum(a_sum, 1e-9) + eps**2)
        larger = (a_sum >= FEWEST_REQUESTS) & (this > z)
        z, a, b = np.where(larger, this, z), np.where(larger, a_sum, a), np.where(larger, b_sum, b)
    return z, a, b
