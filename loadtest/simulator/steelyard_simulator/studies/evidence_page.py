"""The evidence study's figures of a run, and its report: template evidence_page.md beside this file.

ratio    p99 over that of the reference with the same seed; a cluster has the geometric mean over its seeds
whole    seconds from a server's full recovery to the first tick with a fair published share. Fair is at least
         80 % of its part of the total capacity, averaged over that tick and the next two. A run has the
         value of its slowest server
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from steelyard_loadtest.reporting.markdown import markdown, pivot, text_columns
from steelyard_loadtest.reporting.wording import counted, milliseconds, number, ratio, small_percent
from steelyard_loadtest.templates import render_file

from steelyard_simulator.model import Case, RunResult, Server, Work
from steelyard_simulator.simulated_server import able_at, speed_edges
from steelyard_simulator.studies import evidence_clusters as declared
from steelyard_simulator.studies.evidence_clusters import DEFAULT, REFERENCE, WEIGHTS_ALONE, EvidenceTrial
from steelyard_simulator.studies.measures import Figures, Runs, capacities, shares

FAIR, STEADY_TICKS = 0.8, 3

BEST_TARGET, WEIGHTS_ALONE_TARGET, WHOLE_TARGET_S = (0.90, 1.05), (1.2, 2.0), (3.0, 5.0)
"""Geometric mean and worst of the ratios; median and worst of the recoveries in seconds."""

BEHIND_TARGETS = {declared.BEHIND_16: (1.25, 1.45), declared.BEHIND_16_FASTER: (1.15, 1.45)}
"""Geometric mean and worst of the ratios to one load balancer."""

REST_NEEDED = "neighbour-rest-needed"


def figures_of(case: Case, result: RunResult) -> Figures:
    """Sum up a run; a request still unanswered at the end counts as waiting `DRAIN_S`."""
    waited_ms = np.append(result.latency_ms, np.full(result.in_flight, 1000 * declared.DRAIN_S))
    whole_s = [math.nan]
    if case.balancing.law is not None:
        given, t_s = result.ticks.weights, result.ticks.t_s[: 1 - STEADY_TICKS]
        steady = sliding_window_view(given, STEADY_TICKS, axis=0).mean(axis=-1)
        enough = steady >= FAIR * shares(capacities(case, t_s))
        for index, server in enumerate(case.servers):
            at_s = whole_at(server, case.work)
            if at_s is not None:
                there = t_s[enough[:, index] & (t_s >= at_s)]
                whole_s.append(float(there[0]) - at_s if len(there) else math.inf)
    return {
        "p99_ms": float(np.percentile(waited_ms, 99)),
        "failed": result.failed / result.arrived,
        "unanswered": result.in_flight / result.arrived,
        "whole_after_s": float(np.fmax.reduce(whole_s)),
    }


def whole_at(server: Server, work: Work) -> float | None:
    """Return when the server has its full capacity again after a loss; None if that never happens.

    None for a server that was out of service, too: the law starts it slowly for a documented time.
    """
    edges = speed_edges(server)
    able = [able_at(server, work, edge) for edge in edges]
    return edges[-1] if len(edges) > 1 and able[-1] == max(able) and not server.away else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The runs of some clusters, and their summaries."""

    runs: Runs

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return the clusters that were simulated."""
        return tuple(dict.fromkeys(trial.cluster for trial in self.runs))

    def figures(self, cluster: str, algorithm: str, measure: str) -> list[float]:
        """Return one value of a measure for each seed."""
        return [each[measure] for each in self.runs[EvidenceTrial(cluster=cluster, algorithm=algorithm)]]

    def ratio(self, cluster: str, algorithm: str, of: str = REFERENCE) -> float:
        """Return a cluster's p99 over that of another algorithm with the same seeds."""
        mine, its = (self.figures(cluster, name, "p99_ms") for name in (algorithm, of))
        return geometric_mean(mine) / geometric_mean(its)

    def of(self, *, later: bool) -> tuple[str, ...]:
        """Return the simulated clusters that were declared later, or those that were not."""
        return tuple(name for name in self.clusters if declared.clusters()[name].later == later)

    def ratios(self, algorithm: str, *, later: bool = False) -> list[float]:
        """Return the ratios to the reference of the clusters of one kind, or of all if that kind is empty."""
        return [self.ratio(cluster, algorithm) for cluster in self.of(later=later) or self.clusters]

    def summary(self, algorithm: str, *, later: bool = False) -> tuple[float, float]:
        """Return geometric mean and worst of the ratios."""
        ratios = self.ratios(algorithm, later=later)
        return geometric_mean(ratios), max(ratios)


def page(evidence: Evidence, command: str, plots: Mapping[str, str]) -> str:
    """Return the tables: ratios, targets, failures, recoveries and clusters. plots: paths by name."""
    values = {
        "command": command, "seeds": counted(len(next(iter(evidence.runs.values()))), "seed"),
        "reference": REFERENCE, "drain_s": f"{declared.DRAIN_S:g}", "fair": f"{100 * FAIR:.0f}",
        "plots": plots, "ratios": _ratio_table(evidence),
        "targets": markdown(text_columns(["", "at most", "measured", ""], _targets(evidence))),
        "lost": _lost_table(evidence), "whole": _whole_table(evidence), "clusters": _cluster_table(evidence),
    }  # fmt: skip
    return render_file(Path(__file__).with_name("evidence_page.md"), values)


def _ratio_table(evidence: Evidence) -> str:
    compared = [name for name in declared.ALGORITHMS if name != REFERENCE]
    lines = []
    for cluster in evidence.clusters:
        p99_ms = milliseconds(geometric_mean(evidence.figures(cluster, REFERENCE, "p99_ms")))
        lines.append([cluster, p99_ms, *(_short(evidence.ratio(cluster, name)) for name in compared)])
    for later in sorted({declared.clusters()[cluster].later for cluster in evidence.clusters}):
        summaries = [evidence.summary(name, later=later) for name in compared]
        for place, name in enumerate(("geometric mean", "worst")):
            group = " of those declared later" if later else ""
            lines.append([name + group, "", *(_short(summary[place]) for summary in summaries)])
    return markdown(text_columns(["cluster", "reference, ms", *compared], lines))


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _targets(evidence: Evidence) -> list[list[str]]:
    """Return a row for each target: title, bound, measured value, "met" or "not met"."""
    best = min(declared.OURS, key=lambda name: evidence.summary(name)[0])
    asked: list[tuple[str, float, float, Callable[[float], str]]] = []
    for title, algorithm, bounds in (
        (f"ours at its best ({best})", best, BEST_TARGET),
        (f"weights alone ({WEIGHTS_ALONE})", WEIGHTS_ALONE, WEIGHTS_ALONE_TARGET),
    ):
        mean, worst = evidence.summary(algorithm)
        asked += [
            (f"{title}: geometric mean", bounds[0], mean, ratio),
            (f"{title}: worst", bounds[1], worst, ratio),
        ]
    back = [
        each for cluster in evidence.clusters for each in evidence.figures(cluster, DEFAULT, "whole_after_s")
    ]
    if back := [each for each in back if not math.isnan(each)]:
        title = f"seconds from recovery to {100 * FAIR:.0f} % of the fair share ({DEFAULT})"
        asked += [(f"{title}: median", WHOLE_TARGET_S[0], median(back), number)]
        asked += [(f"{title}: worst", WHOLE_TARGET_S[1], max(back), number)]
    drifting = [name for name in evidence.clusters if name.startswith("drift")]
    beside = [
        (REST_NEEDED, name, declared.OUR_LEAST_CONN_EQUAL) for name in (DEFAULT, declared.OUR_LEAST_CONN)
    ]
    beside += [(name, WEIGHTS_ALONE, declared.CSWRR) for name in drifting]
    beside += [(name, DEFAULT, declared.NGINX_LEAST_CONN) for name in drifting]
    asked += [
        (f"{cluster}: {mine} over {its}", 1.0, evidence.ratio(cluster, mine, its), ratio)
        for cluster, mine, its in beside
        if cluster in evidence.clusters
    ]
    alone = [name for name in evidence.of(later=False) if declared.clusters()[name].case.balancers == 1]
    for behind, (mean, worst) in BEHIND_TARGETS.items() if alone else ():
        ratios = [evidence.ratio(cluster, behind, DEFAULT) for cluster in alone]
        asked += [
            (f"{behind}, over behind one: geometric mean", mean, geometric_mean(ratios), ratio),
            (f"{behind}, over behind one: worst", worst, max(ratios), ratio),
        ]
    return [
        [title, f"{bound:g}", text(value), "met" if value <= bound else "not met"]
        for title, bound, value, text in asked
    ]


def _lost_table(evidence: Evidence) -> str:
    def lost(cluster: str, name: str) -> float:
        both = (evidence.figures(cluster, name, which) for which in ("failed", "unanswered"))
        return max(map(sum, zip(*both, strict=True)))

    hit = [
        cluster for cluster in evidence.clusters if any(lost(cluster, name) for name in declared.ALGORITHMS)
    ]
    return markdown(pivot("cluster", hit, [*declared.ALGORITHMS], lambda *of: small_percent(lost(*of))))


def _whole_table(evidence: Evidence) -> str:
    def back(cluster: str, name: str) -> str:
        values = evidence.figures(cluster, name, "whole_after_s")
        return f"{number(median(values), 1)} ({number(max(values), 1)})"

    mended = [
        name
        for name in evidence.clusters
        if not math.isnan(evidence.figures(name, DEFAULT, "whole_after_s")[0])
    ]
    return markdown(pivot("cluster", mended, [declared.CSWRR, *declared.OURS], back))


def _cluster_table(evidence: Evidence) -> str:
    own = [declared.clusters()[name] for name in evidence.clusters]
    lines = [[each.name, each.what, str(len(each.case.servers)), f"{each.load:g}"] for each in own]
    return markdown(text_columns(["cluster", "what it stands for", "servers", "load"], lines, left=2))
