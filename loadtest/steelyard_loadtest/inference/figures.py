"""The figures of a trial before inference engines, and their medians over repeats. Pure.

All times are the engines' (the clock's times the compression), counted from the begin of the load.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from steelyard_loadtest.inference.engine import cost_s
from steelyard_loadtest.measurements.trials import Trial, nearest_rank
from steelyard_loadtest.reporting.statistics import grouped

GOOD_TTFT_S = 5.0
"""Time limit of a first token that counts for the goodput."""

ADAPTED_S = 5.0
"""Time after an engine has slowed in which its queue may be out of proportion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A request: its due time, the times of its first and last token since then, and its failure, or ""."""

    due_s: float
    ttft_s: float
    ended_s: float
    output_tokens: int
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReading:
    """An engine at a moment: queue_s, to compute its prompts; lost_s, taken from it by the machine; and its
    totals, as engine.Engine names them."""

    at_s: float
    engine: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A trial. Requests due from begin_s to end_s count; the engine `slowed` was slowed half-way between."""

    trial: Trial
    compression: float
    begin_s: float
    end_s: float
    slowed: str
    sizes: Mapping[str, float]
    balancer_cpu_s: float
    streams: Sequence[Stream]
    readings: Sequence[EngineReading]

    @property
    def slowed_s(self) -> float:
        """Return when the engine was slowed."""
        return (self.begin_s + self.end_s) / 2


def figures(run: Run) -> dict[str, float | None]:
    """Return a trial's figures by name; None if unknown. Only good answers have times."""
    seconds = run.end_s - run.begin_s
    asked = [one for one in run.streams if run.begin_s <= one.due_s < run.end_s]
    good = [one for one in asked if not one.failure]
    ttft = sorted(one.ttft_s for one in good)
    between = sorted(
        (one.ended_s - one.due_s - one.ttft_s) / (one.output_tokens - 1)
        for one in good
        if one.output_tokens > 1
    )
    grown = {name: _grown(run, own) for name, own in grouped(run.readings, lambda one: one.engine).items()}
    total = {
        key: sum(one.get(key, 0) for one in grown.values()) or 1 for key in ("prompt_tokens", "requests")
    }
    return {
        **{f"ttft_p{round(part * 100)}_s": nearest_rank(ttft, part) for part in (0.5, 0.9, 0.99)},
        **{f"between_p{round(part * 100)}_s": nearest_rank(between, part) for part in (0.5, 0.99)},
        "asked_per_s": len(asked) / seconds,
        "good_per_s": sum(one <= GOOD_TTFT_S for one in ttft) / seconds,
        "failed": len(asked) - len(good),
        "refused": sum(one.failure == "429" for one in asked),
        "hits": sum(one.get("cached_tokens", 0) for one in grown.values()) / total["prompt_tokens"],
        "balancer_cpu_ms": run.balancer_cpu_s * 1000 / max(len(asked), 1),
        "lost": max((one.get("lost_s", 0) / seconds for one in grown.values()), default=None),
        **{f"share_{name}": one.get("requests", 0) / total["requests"] for name, one in grown.items()},
        # Its work, as a part of its capacity before it was slowed.
        **{
            f"cost_{name}": cost_s(one.get("computed_tokens", 0), one.get("generated_tokens", 0))
            / (run.sizes[name] * seconds)
            for name, one in grown.items()
        },
        "queue_ratio": _queue_ratio(run),
    }


def _grown(run: Run, readings: Sequence[EngineReading]) -> dict[str, float]:
    inside = [one.values for one in readings if run.begin_s <= one.at_s <= run.end_s]
    return {key: value - inside[0].get(key, 0) for key, value in inside[-1].items()} if inside else {}


def _queue_ratio(run: Run) -> float | None:
    """Return the longest mean queue, in time, over the shortest, from ADAPTED_S after the slowing on."""
    after = [one for one in run.readings if run.slowed_s + ADAPTED_S <= one.at_s <= run.end_s]
    engines = grouped(after, lambda one: one.engine).values()
    means = [fmean(one.values["queue_s"] for one in own) for own in engines]
    return max(means) / min(means) if means and min(means) > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A contender at a load: its trials, and the medians of their figures."""

    algorithm: str
    level: float
    runs: Sequence[Run]
    medians: Mapping[str, float | None]


def rows(runs: Iterable[Run], order: Sequence[str]) -> list[Row]:
    """Return a row for each load and contender, loads ascending, contenders in this order."""
    found = []
    for (level, place), own in sorted(
        grouped(runs, lambda run: (run.trial.level, order.index(run.trial.algorithm))).items()
    ):
        each = [figures(run) for run in own]
        known = {key: [value for one in each if (value := one.get(key)) is not None] for key in each[0]}
        medians = {key: median(values) if values else None for key, values in known.items()}
        found.append(Row(algorithm=order[place], level=level, runs=own, medians=medians))
    return found
