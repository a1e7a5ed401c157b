"""The default law with one constant or rule replaced at a time: what is each of them worth?

ratio    p99 over that of the law as it is, geometric mean over the same seeds
noise    the same ratio for a memory tau of 27 to 33 s instead of 30, which is no worse or better
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import geometric_mean
from types import MappingProxyType
from typing import Any

from steelyard_loadtest.reporting import flags
from steelyard_loadtest.reporting.markdown import document, markdown, text_columns
from steelyard_loadtest.reporting.publish import Page
from steelyard_loadtest.reporting.wording import counted

from steelyard_simulator.model import Balancing, Case
from steelyard_simulator.studies.evidence_clusters import Cluster
from steelyard_simulator.studies.evidence_clusters import clusters as clusters_of
from steelyard_simulator.studies.law_constants import LAW, Change, changes, parameters, replaced
from steelyard_simulator.studies.measures import Figures, Runs

OF_EVIDENCE = (
    *("neighbour-leaves-10", "cron", "drift-30-unseen", "cold-start", "restart", "fails-fast"),
    *("one-answers-slowly", "quota-cut", "half-of-a-pair", "bursts", "long-and-short"),
    "idle-sockets-restart",
)
"""Clusters of evidence: one for each kind of event."""

OWN = Path(__file__).with_name("constants_clusters.toml")

ALONE, DEFAULT = "vnswrr", "vnswrr2"
PICKERS: Mapping[str, str] = MappingProxyType({ALONE: "weights alone", DEFAULT: "default picker"})

ByCluster = Mapping[str, Sequence[Figures]]

AS_IS, NOISE = "the law", "noise"
NOISE_TAU_S = (27.0, 28.5, 31.5, 33.0)
WORTH_NOISES = 3.0
"""A worth of this many noises is not chance."""

SMALLEST_FAILED = 0.0005
"""A smaller rise of failed requests is not shown."""


@cache
def clusters() -> Mapping[str, Cluster]:
    """Return the clusters of the study by name."""
    of_evidence = clusters_of()
    return MappingProxyType({name: of_evidence[name] for name in OF_EVIDENCE} | dict(clusters_of(OWN)))


@cache
def _changes() -> Mapping[tuple[str, str], Change]:
    """Return the changes by name and replacement: none, those that mean nothing, and all others."""
    tau_s = parameters()["tau"]
    noise = (
        Change(of=NOISE, value=f"tau {tau_s:g}", instead=f"{each:g}", parameters={"tau": each})
        for each in NOISE_TAU_S
    )
    every = (Change(of=AS_IS, value="", instead=""), *noise, *changes())
    return MappingProxyType({(each.of, each.instead): each for each in every})


def names() -> tuple[str, ...]:
    """Return the constants and rules of the study."""
    return tuple(dict.fromkeys(of for of, _ in _changes() if of not in (AS_IS, NOISE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantTrial:
    """A cluster and a picker, and a change of the law by its name and its replacement."""

    cluster: str
    picker: str
    of: str
    instead: str

    @property
    def change(self) -> Change:
        """Return the change of the law."""
        return _changes()[self.of, self.instead]

    def case(self) -> Case:
        """Return the simulation."""
        balancing = Balancing(law=LAW, picker=self.picker, parameters=self.change.parameters)
        return replace(clusters()[self.cluster].case, balancing=balancing)


def changed_law(trial: ConstantTrial) -> AbstractContextManager[None]:
    """Return the context in which the law is that of the trial."""
    return replaced(trial.change.names)


def trials(options: argparse.Namespace) -> list[ConstantTrial]:
    """Return the law as it is, the noise, and the chosen changes, on each cluster and with each picker."""
    chosen = (AS_IS, NOISE, *(options.only or names()))
    return [
        ConstantTrial(cluster=cluster, picker=picker, of=of, instead=instead)
        for of, instead in _changes()
        if of in chosen
        for cluster in options.on or clusters()
        for picker in PICKERS
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a change with one picker.

    mean, worst, where   geometric mean of the ratios, the largest one, and its cluster
    failed               largest rise of the part of failed and unanswered requests
    differ               number of runs whose p99 is another one
    """

    mean: float
    worst: float
    where: str
    failed: float
    differ: int


def outcomes(runs: Runs) -> Mapping[tuple[str, str], Mapping[str, Outcome]]:
    """Return the outcome of each change, but not of the unchanged law, by picker."""
    by_change: dict[tuple[str, str], dict[str, dict[str, Sequence[Figures]]]] = {}
    for trial, own in runs.items():
        by_picker = by_change.setdefault((trial.of, trial.instead), {})
        by_picker.setdefault(trial.picker, {})[trial.cluster] = own
    unchanged = by_change.pop((AS_IS, ""))
    return {
        change: {picker: _outcome(of, unchanged[picker]) for picker, of in by_picker.items()}
        for change, by_picker in by_change.items()
    }


def _outcome(changed: ByCluster, unchanged: ByCluster) -> Outcome:
    ratios = {cluster: _p99_ms(own) / _p99_ms(unchanged[cluster]) for cluster, own in changed.items()}
    pairs = [
        (after, before)
        for cluster, own in changed.items()
        for after, before in zip(own, unchanged[cluster], strict=True)
    ]
    where = max(ratios, key=lambda cluster: ratios[cluster])
    return Outcome(
        mean=geometric_mean(ratios.values()),
        worst=ratios[where],
        where=where,
        failed=max(_lost(after) - _lost(before) for after, before in pairs),
        differ=sum(after["p99_ms"] != before["p99_ms"] for after, before in pairs),
    )


def _p99_ms(own: Sequence[Figures]) -> float:
    return geometric_mean([each["p99_ms"] for each in own])


def _lost(figures: Figures) -> float:
    return figures["failed"] + figures["unanswered"]


def noises(of: Mapping[tuple[str, str], Mapping[str, Outcome]]) -> Mapping[str, float]:
    """Return the noise of ln mean by picker: its root mean square over the changes that mean nothing."""
    means = {
        picker: [math.log(each[picker].mean) for (name, _), each in of.items() if name == NOISE]
        for picker in PICKERS
    }
    return {picker: math.sqrt(math.fsum(x * x for x in own) / len(own)) for picker, own in means.items()}


def worth(outcome: Mapping[str, Outcome], noise: Mapping[str, float]) -> float:
    """Return how much p99 rises with a change, in noises, with the picker to which it matters more."""
    return max(
        math.log(outcome[picker].mean) / max(noise[picker], 1e-6) if outcome[picker].differ else 0.0
        for picker in PICKERS
    )


def page(_: argparse.Namespace, runs: Runs, command: str) -> Page:
    """Return a row for each change, sorted by its worth."""
    found = outcomes(runs)
    noise = noises(found)
    rows = sorted(
        ((worth(outcome, noise), change, outcome) for change, outcome in found.items() if change[0] != NOISE),
        key=lambda row: row[:2],
        reverse=True,
    )
    pickers = [title for picker in PICKERS for title in (f"{PICKERS[picker]}: mean", "worst")]
    head = ["constant or rule", "value", "instead", *pickers, "failed", "differ", "noises"]
    lines = [_line(change, outcome, noises_of) for noises_of, change, outcome in rows]
    beyond = sum(each >= WORTH_NOISES for each, _, _ in rows)
    unused = sum(not any(each.differ for each in outcome.values()) for *_, outcome in rows)
    chance = (f"{_percent(noise[picker])} ({title})" for picker, title in PICKERS.items())
    summary = (
        f"`{command}`: {counted(len({trial.cluster for trial in runs}), 'cluster')}, "
        f"{counted(len(next(iter(runs.values()))), 'seed')} each. "
        f"The noise of a mean is {', '.join(chance)}. "
        f"{beyond} of {len(rows)} changes cost at least {WORTH_NOISES:g} noises, and {unused} change no run."
    )
    text = document(summary, markdown(text_columns(head, lines, left=3)))
    return Page(text=lambda _plots: text, plots={})


def _line(change: tuple[str, str], outcome: Mapping[str, Outcome], in_noises: float) -> list[str]:
    by_picker = [
        text
        for picker in PICKERS
        for text in (f"{outcome[picker].mean:.3f}", f"{outcome[picker].worst:.2f} {outcome[picker].where}")
    ]
    failed = max(each.failed for each in outcome.values())
    differ = sum(each.differ for each in outcome.values())
    return [
        f"`{change[0]}`", _changes()[change].value, change[1], *by_picker,
        _percent(failed) if failed > SMALLEST_FAILED else "", str(differ), f"{in_noises:.1f}",
    ]  # fmt: skip


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


FLAGS: Mapping[str, Mapping[str, Any]] = {
    "--only": {
        "type": flags.names(lambda: {name: name for name in names()}), "metavar": "NAME,...",
        "help": "only these constants and rules; an unknown name lists all",
    },
    "--on": {
        "type": flags.names(lambda: {name: name for name in clusters()}), "metavar": "CLUSTER,...",
        "help": "only on these clusters; an unknown name lists all",
    },
}  # fmt: skip
