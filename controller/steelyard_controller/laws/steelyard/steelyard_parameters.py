"""The parameters of the law `steelyard`, and the schema of its memory.

Pure. The letters are those of docs/reference/law-parameters.md.
"""

from dataclasses import dataclass

from steelyard_controller.laws.memory import Column, Scalar, Schema
from steelyard_controller.laws.pairing import RING
from steelyard_controller.laws.parameters import SHARED_S, parameter

NAN = float("nan")

WINDOW_S = 1.0
"""Length of a window: shorter ticks are added up to it, so that counts of windows are seconds."""

REMEMBERED_S = 4 * 3600.0
"""Memory of a quiet server, and of a usual request's cost. Eight quiet hours take most of it, not all: a
capacity is still known in the morning."""

CHANGE_WINDOWS = (1, 2, 4, 8)
"""Numbers of windows in the change test: 1 shows a loss at once, 8 a small change or thin traffic."""

FRESH_WINDOWS = 4
"""Most windows from which the evidence restarts: the first of 8 may be from before the change."""

RECENT_WINDOWS = CHANGE_WINDOWS[-1] + 2
"""Number of windows kept: those of the longest test, the one before and the one after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteelyardParameters:
    """The parameters of the law `steelyard`."""

    tau: float = parameter(
        30.0,
        1,
        3600,
        "s",
        "memory of the evidence, of the entropy weights and of a shorter duration: long for quiet weights",
    )
    n0: float = parameter(
        10.0,
        0.1,
        1e6,
        "requests",
        "weight of the prior against requests seen: of the baseline, and of not being slow",
    )
    p0: float = parameter(1.0, 0.001, 1e6, "load s", "upper limit of the prior where requests are expensive")
    tau_n: float = parameter(
        5.0, 0.1, 3600, "s", "time in which requests in flight without load become open connections"
    )
    l0: float = parameter(
        0.1, 0.001, 1, "load", "own load below which unexpected load is taken for somebody else's"
    )
    h_hot: float = parameter(
        3.0, 1, 100, "sigma", "change test of a peer beyond H or L, and of a known cost: eager"
    )
    h_cold: float = parameter(
        4.5, 1, 100, "sigma", "change test of other peers: one false alarm in days, not hours"
    )
    eps: float = parameter(
        0.05, 0, 1, "ratio", "model error that the change test allows, however many the requests"
    )
    beta: float = parameter(0.02, 0.0001, 1, "1/s", "learning rate of the dispersion of the counts")
    H: float = parameter(0.3, 0, 0.99, "score", "the paper's high-load threshold: alert when U <= H")
    L: float = parameter(
        0.4, 0, 1, "score", "the paper's low-load threshold; above H (by 0.1 if only H is set)"
    )
    gamma: float = parameter(
        0.9, 0, 1, "ratio", "part of the bottleneck in U; idle indicators dilute the paper's score"
    )
    R0: float = parameter(0.1, 0.001, 1, "load", "range below which an indicator's differences are noise")
    phi: float = parameter(0.2, 0, 1, "ratio", "part of the entropy weights that is always shared equally")
    alpha: float = parameter(0.5, 0.01, 1, "ratio", "smoothing of residuals: the part of the last second")
    knee_mem: float = parameter(
        0.8, 0, 0.99, "load", "memory utilization below which a fuller cache is no load; a declared knee wins"
    )
    kappa: float = parameter(
        5.0, 1, 1000, "ratio", "latency over the median's from which a server counts as slow"
    )
    tau_e: float = parameter(
        10.0, 1, 3600, "s", "memory of failures: a repaired server is back within three times this"
    )
    m_min: float = parameter(
        0.02, 1e-6, 1, "of W_S", "floor: enough requests to notice that a peer has recovered"
    )
    z_max: float = parameter(
        4.0, 0, 20, "ln", "ceiling, e^4 = 55 times W_S: room for a wrong baseline, not for a broken reader"
    )
    ramp: float = parameter(30.0, 0, 3600, "s", "slow start of new and recovered peers; 0: none")
    join_min: float = parameter(
        0.1, 0.01, 1, "ratio", "first factor of slow start, as Envoy's min_weight_percent"
    )
    S: float = parameter(*SHARED_S)


SCHEMA = Schema(
    law="steelyard",
    version=5,
    columns={
        "sums": Column(width=4),
        "moments": Column(width=6),
        "others": Column(),
        "recent": Column(width=3 * RECENT_WINDOWS),
        "requests": Column(),
        "cost": Column(initial=NAN),
        "windows": Column(),
        "J": Column(),
        "cores": Column(initial=NAN),
        "restarts": Column(),
        "W": Column(initial=NAN),
        "Q": Column(),
        "ok": Column(),
        "bad": Column(),
        "lat": Column(initial=NAN),
        "busy": Column(high=1.0),
        "seen_s": Column(),
        "known_s": Column(),
        "missed": Column(),
        "d": Column(initial=NAN),
        "open": Column(initial=NAN),
        "sampleless_ticks": Column(),
        "rs": Column(initial=NAN, by_indicator=True, high=1.0),
        "load_ring": Column(initial=NAN, width=RING, high=1.0),
        "count_ring": Column(initial=NAN, width=RING),
        "in_flight_ring": Column(initial=NAN, width=RING),
    },
    scalars={
        "tick": Scalar(),
        "alert": Scalar(high=1.0),
        "disp": Scalar(initial=1.0),
        "in_flight_at_half": Scalar(initial=1.0),
        # Before the first report, as if the last one were long ago.
        "reportless_ticks": Scalar(initial=99.0),
        "mean_cost": Scalar(),
        "arriving": Scalar(),
    },
    parts="W",
)
