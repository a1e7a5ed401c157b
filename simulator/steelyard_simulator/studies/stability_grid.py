"""The grids of the stability maps, and the simulation at each of their points. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from steelyard_simulator.model import Balancing, Case, Delays, Draw, OpenClients, Server, Step, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """What a law's own reaction is set by: its gain. `higher_is_slower` is true of a memory."""

    name: str
    unit: str
    values: tuple[float, ...]
    default: float
    higher_is_slower: bool = False


BUSY, PAPERS_EDGE = 0.8, 0.5
"""The loads of the maps over gain and interval: a busy cluster; and for the paper's law, which swings there
whatever is set, the half load at which it begins to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A law as the study runs it; one without a knob has its map over loads instead."""

    name: str
    title: str
    law: str
    parameters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    knob: Knob | None = None
    gain_load: float = BUSY


_DECAY = Knob(name="decay", unit="of the gap, a tick", values=(0.02, 0.05, 0.2, 0.5, 1.0), default=0.2)
_H = Knob(name="H", unit="score", values=(0.05, 0.1, 0.3, 0.5, 0.7), default=0.7)
_TAU = Knob(name="tau", unit="s", values=(1.0, 3.0, 10.0, 30.0, 100.0), default=30.0, higher_is_slower=True)
_SCALED = MappingProxyType({"scale_by_k": 1.0})

VARIANTS: tuple[Variant, ...] = (
    Variant(name="paper", title="paper, as printed (H 0.3)", law="paper", knob=_DECAY, gain_load=PAPERS_EDGE),
    Variant(
        name="paper-h0.7", title="paper, H 0.7: always awake", law="paper", knob=_H, gain_load=PAPERS_EDGE
    ),
    Variant(
        name="paper-h0.7-k", title="paper, H 0.7, k F W_S", law="paper", parameters=_SCALED, knob=_H,
        gain_load=PAPERS_EDGE,
    ),
    Variant(name="cswrr", title="cswrr (gRPC A58, Envoy)", law="cswrr"),
    Variant(name="steelyard", title="steelyard (default)", law="steelyard", knob=_TAU),
)  # fmt: skip
BY_NAME = {variant.name: variant for variant in VARIANTS}

LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
DELAYS_TICKS = (0, 1, 2, 3, 4, 6, 12)
MISMATCHES_TICKS = (0, 1, 2, 4, 6)
INTERVALS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
QUICK_LOADS, QUICK_TICKS, QUICK_INTERVALS_S = (0.4, 0.6, 0.8, 0.95), (0, 2, 6), (0.25, 1.0, 4.0)

DEFAULT_DELAY_TICKS, DEFAULT_INTERVAL_S = 0, 1.0
"""As shipped: what is sent in a tick arrives before the next, and a tick has a second."""

STABILITY_SPEEDS = (1.0, 1.0, 2.0, 2.0, 4.0)
# The slowest server does 25 requests a second, so that even a quarter-second tick has some to count.
STABILITY_WORK_S = 0.04

# Long enough for three memories of the default law; long ticks hold more requests, and fewer of them do.
MOST_TICKS, FEWEST_TICKS, LONG_S = 120, 45, 200.0
# One server loses a fifth of its speed after a sixth of the run: what a law that swings would swing about.
SHOCK_AT, SHOCK = 1 / 6, 0.8
SHOCKED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityTrial:
    """One point of the stability maps: a law at a load, with messages late by some ticks of an interval.

    delay_ticks      all messages: one half before the controller (samples and reports, alike), one behind it
    mismatch_ticks   samples alone: they tell of an earlier window than the reports they are paired with
    """

    variant: str
    load: float
    delay_ticks: int = DEFAULT_DELAY_TICKS
    mismatch_ticks: int = 0
    interval_s: float = DEFAULT_INTERVAL_S
    knob: float | None

    @property
    def duration_s(self) -> float:
        """Return how long is simulated."""
        return max(FEWEST_TICKS, min(MOST_TICKS, round(LONG_S / self.interval_s))) * self.interval_s

    def case(self) -> Case:
        """Return the simulation: five servers, one of which slows down; the picker follows weights only."""
        variant = BY_NAME[self.variant]
        servers = [Server(speed=speed, baseline=speed) for speed in STABILITY_SPEEDS]
        slower = Step(at_s=SHOCK_AT * self.duration_s, factor=SHOCK)
        servers[SHOCKED] = replace(servers[SHOCKED], steps=(slower,))
        left = sum(STABILITY_SPEEDS) - (1 - SHOCK) * STABILITY_SPEEDS[SHOCKED]
        before_ticks = (self.delay_ticks + 1) // 2
        behind_ticks = self.delay_ticks - before_ticks
        turned = {variant.knob.name: self.knob} if variant.knob and self.knob is not None else {}
        prompt = Delays()
        return Case(
            servers=tuple(servers),
            clients=OpenClients(rate_per_s=self.load * left / STABILITY_WORK_S),
            work=Work(cpu=Draw(mean_s=STABILITY_WORK_S, shape="exponential")),
            duration_s=self.duration_s,
            warmup_s=self.duration_s * 2 / 3,
            tick_s=self.interval_s,
            balancing=Balancing(
                law=variant.law,
                picker="vnswrr",
                parameters={**variant.parameters, **turned},
            ),
            delays=Delays(
                sample_s=prompt.sample_s + (before_ticks + self.mismatch_ticks) * self.interval_s,
                report_s=prompt.report_s + before_ticks * self.interval_s,
                fetch_s=prompt.fetch_s + behind_ticks * self.interval_s,
            ),
        )


def default_trial(variant: Variant, load: float) -> StabilityTrial:
    """Return the point at which a law runs as shipped."""
    return StabilityTrial(
        variant=variant.name, load=load, knob=None if variant.knob is None else variant.knob.default
    )


Maps = Mapping[str, Sequence[StabilityTrial]]
"""The points of each map by its name: `load-delay`, `load-mismatch`, `gain-interval`."""


def maps(*, quick: bool) -> Maps:
    """Return all maps, or coarse ones of some 150 points; those over lateness have the default gain."""
    loads = QUICK_LOADS if quick else LOADS
    shipped = [default_trial(variant, load) for variant in VARIANTS for load in loads]
    gains = [trial for variant in VARIANTS for trial in _over_gain(variant, loads, every=2 if quick else 1)]
    return {
        "load-delay": _over("delay_ticks", QUICK_TICKS if quick else DELAYS_TICKS, shipped),
        "load-mismatch": _over("mismatch_ticks", QUICK_TICKS if quick else MISMATCHES_TICKS, shipped),
        "gain-interval": _over("interval_s", QUICK_INTERVALS_S if quick else INTERVALS_S, gains),
    }


def _over(field: str, values: Sequence[float], trials: Sequence[StabilityTrial]) -> list[StabilityTrial]:
    moved: list[Mapping[str, Any]] = [{field: value} for value in values]
    return [replace(trial, **change) for trial in trials for change in moved]


def _over_gain(variant: Variant, loads: Sequence[float], every: int) -> list[StabilityTrial]:
    """Return a column of the map over gain: of the gains one in `every`, and the default."""
    knob = variant.knob
    if knob is None:
        return [default_trial(variant, load) for load in loads]
    return [
        replace(default_trial(variant, variant.gain_load), knob=value)
        for place, value in enumerate(knob.values)
        if place % every == 0 or value == knob.default
    ]


def distinct(maps: Maps) -> list[StabilityTrial]:
    """Return every trial once, as maps share defaults; the longest first, so that no core waits for it."""
    trials = dict.fromkeys(trial for own in maps.values() for trial in own)
    return sorted(trials, key=lambda trial: -trial.duration_s * trial.load)
