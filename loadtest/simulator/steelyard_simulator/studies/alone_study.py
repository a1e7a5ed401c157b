"""Weights alone, with one part at a time replaced by the truth: where is the rest of the way to true weights?

The clusters are those of evidence, or of a file of the same form: remedies are developed on clusters of one's
own. Each run has the picker `vnswrr`, which follows the weights only.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from steelyard_loadtest.reporting.markdown import document, markdown, text_columns
from steelyard_loadtest.reporting.publish import Page

from steelyard_simulator.model import Balancing, Case
from steelyard_simulator.studies.evidence_clusters import (
    ALGORITHMS,
    DECLARED,
    REFERENCE,
    TRUE_WEIGHTS_ALONE,
    WEIGHTS_ALONE,
    clusters,
)
from steelyard_simulator.studies.measures import Runs

ALONE, TRUE = "the law", "true weights"
VARIANTS: Mapping[str, Balancing] = {
    REFERENCE: ALGORITHMS[REFERENCE],
    ALONE: ALGORITHMS[WEIGHTS_ALONE],
    "capacity": Balancing(picker="vnswrr", known=("capacity",)),
    "change": Balancing(picker="vnswrr", known=("change",)),
    "both": Balancing(picker="vnswrr", known=("capacity", "change")),
    "backlog 1": Balancing(picker="vnswrr", known=("backlog",)),
    "no slow start": Balancing(picker="vnswrr", known=("start",)),
    "faults 1": Balancing(picker="vnswrr", known=("faults",)),
    "memory of 10 s": Balancing(picker="vnswrr", parameters={"tau": 10.0}),
    TRUE: ALGORITHMS[TRUE_WEIGHTS_ALONE],
}
"""By column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneTrial:
    """A cluster of a file, and a variant, by their names."""

    file: str
    cluster: str
    variant: str

    def case(self) -> Case:
        """Return the simulation."""
        return replace(clusters(Path(self.file))[self.cluster].case, balancing=VARIANTS[self.variant])


def trials(options: argparse.Namespace) -> list[AloneTrial]:
    """Return every variant on each cluster: those of the file that were not declared later."""
    file = options.clusters or DECLARED
    declared = clusters(file)
    names = options.only or [name for name, cluster in declared.items() if not cluster.later]
    unknown = [name for name in names if name not in declared]
    if unknown:
        raise ValueError(f"--only: {file} has no {unknown[0]!r}; it has {', '.join(declared)}")
    return [
        AloneTrial(file=str(file), cluster=name, variant=variant) for name in names for variant in VARIANTS
    ]


def page(_: argparse.Namespace, runs: Runs, command: str) -> Page:
    """Return p99 over that of the reference, by cluster and variant."""
    p99 = {
        (trial.cluster, trial.variant): geometric_mean([each["p99_ms"] for each in own])
        for trial, own in runs.items()
    }
    columns = [name for name in VARIANTS if name != REFERENCE]
    ratios = {
        cluster: [p99[cluster, name] / p99[cluster, REFERENCE] for name in columns]
        for cluster in dict.fromkeys(trial.cluster for trial in runs)
    }
    lines = [[cluster, *map(_short, row)] for cluster, row in ratios.items()]
    by_column = list(zip(*ratios.values(), strict=True))
    lines.append(["geometric mean", *(f"{geometric_mean(each):.3f}" for each in by_column)])
    lines.append(["worst", *(_short(max(each)) for each in by_column)])
    text = document(f"`{command}`", markdown(text_columns(["cluster", *columns], lines)))
    return Page(text=lambda _plots: text, plots={})


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


FLAGS: Mapping[str, Mapping[str, Any]] = {
    "--clusters": {
        "type": Path, "metavar": "FILE",
        "help": "clusters in the form of evidence_clusters.toml (default: that file)",
    },
    "--only": {
        "type": lambda text: tuple(text.split(",")), "metavar": "CLUSTER,...", "help": "only these clusters",
    },
}  # fmt: skip
