"""Prequal's figures 6 and 7 (Wydrowski et al., NSDI 2024) with ours, and a verdict on each claim.

100 clients, each a load balancer, in front of 100 servers. The trace of their neighbours is not public. Here
a server has 75 to 100 % of its promise while neighbours want theirs, two fifths of the time, and 130 to 250 %
otherwise. The value changes every 4 s on average; together this is about 150 %. Published latencies are read
from the figures.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from steelyard_loadtest.compare.findings.evidence import Terms
from steelyard_loadtest.compare.findings.verdicts import Finding, Source, rulings
from steelyard_loadtest.reporting.markdown import document, markdown, pivot, text_columns
from steelyard_loadtest.reporting.publish import Page

from steelyard_simulator.model import Balancing, Case, Draw, OpenClients, RunResult, Server, Step, Work
from steelyard_simulator.studies.measures import Figures, Runs, averaged

SERVERS, WORK_S, WARMUP_S, END_S, EXCHANGE_S, TIMEOUT_MS = 100, 0.08, 8.0, 20.0, 0.009, 5000.0
CONTENDED, CHANGES_S, OTHERS_CHANGE = 0.35, 4.0, 0.3
PERCENTS = {"p50_ms": 50.0, "p90_ms": 90.0, "p99_ms": 99.0, "p999_ms": 99.9}
LOADS, RAMP, RAMPED = (70, 90), (75, 83, 93, 103, 114, 127, 141), ("WRR", "Prequal", "Steelyard")

# By the paper's name: law and picker; P90 and P99 in ms of figure 7 at both loads, 5,000 for the time-out.
RULES: Mapping[str, tuple[str | None, str, Sequence[Sequence[float]]]] = {
    "RoundRobin": (None, "wrr", ((4984, 5000), (5000, 5000))),
    "Random": (None, "random", ((294, 5000), (5000, 5000))),
    "WRR": ("cswrr", "vnswrr", ((173, 314), (1667, 5000))),
    "LeastLoaded": (None, "leastconn", ((343, 1804), (940, 2654))),
    "LL-Po2C": (None, "lr", ((224, 569), (623, 1918))),
    "YARP-Po2C": (None, "yarp", ((210, 2642), (213, 1169))),
    "Linear": (None, "linear", ((206, 698), (245, 1036))),
    "C3": (None, "c3", ((161, 299), (164, 304))),
    "Prequal": (None, "prequal", ((149, 281), (152, 286))),
    "Steelyard": ("steelyard", "vnswrr2", ()),
}
FINDINGS = {
    "Prequal has the least P99. (7)": f"p99_ms: Prequal / lowest of {', '.join([*RULES][:-2])} at 70 and 90",
    "Prequal's latency hardly grows with the load. (7)": "p99_ms alike: Prequal at 90, Prequal at 70",
    "C3 with Prequal's probes is nearly as good. (7)": "p99_ms alike: C3, Prequal at 70 and 90",
    "The sum of latency and requests in flight is much worse. (7)": "p99_ms: Linear / Prequal at 70 and 90",
    "WRR is nearly as good at 70 %. (7)": "p99_ms alike: WRR, Prequal at 70",
    "At 90 % WRR reaches the time-out. (7)": "p99_ms: WRR / Prequal at 90",
    "A client's own requests in flight do worse than WRR. (7)": "p99_ms: LeastLoaded, LL-Po2C / WRR at 70",
    "Polls every half second do worse than WRR. (7)": "p99_ms: YARP-Po2C / WRR at 70",
    "RoundRobin and Random reach the time-out. (7)": "p99_ms: RoundRobin, Random / Prequal at 70 and 90",
    "Below the promise WRR and Prequal are alike. (6)": "p99_ms alike: WRR, Prequal at 75",
    "Above it WRR reaches the time-out. (6)": "p999_ms: WRR at 103 and 141 ≥ 5000, theirs the time-out",
    "Prequal tolerates much more load. (6)": "p999_ms: Prequal at 141 ≤ 1400, theirs about 700 at 174",
}
"""The paper's claims (and the figure that shows each), and the compared figures."""
COMPARED = ("p99_ms: Steelyard / Prequal at 70 and 90", "p999_ms: Steelyard / Prequal at 141")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrequalTrial:
    """A rule at a load, in % of the promise; a server is promised `cores`."""

    rule: str
    load: int
    cores: int = 2

    def case(self) -> Case:
        """Return the simulation; all rules have the same neighbours."""
        random, rate_per_s = Random(7), self.load / 100 * SERVERS * self.cores / WORK_S
        law, picker, _ = RULES[self.rule]
        return Case(
            servers=tuple(Server(cores=self.cores, steps=tuple(_steps(random))) for _ in range(SERVERS)),
            clients=OpenClients(rate_per_s=rate_per_s, changes=((END_S, 0.0),)),
            work=Work(cpu=Draw(mean_s=WORK_S, shape="normal")), duration_s=END_S + TIMEOUT_MS / 1000,
            warmup_s=WARMUP_S, balancing=Balancing(law=law, picker=picker), balancers=SERVERS,
            exchange_s=EXCHANGE_S,
        )  # fmt: skip


def _steps(random: Random) -> Iterator[Step]:
    at_s, contended = 0.0, random.random() < CONTENDED
    while at_s < END_S:
        yield Step(at_s=at_s, factor=random.uniform(*((0.75, 1.0) if contended else (1.3, 2.5))))
        at_s += random.expovariate(1 / CHANGES_S)
        if random.random() < OTHERS_CHANGE:
            contended = random.random() < CONTENDED


def trials(options: argparse.Namespace) -> list[PrequalTrial]:
    """Return figure 7, figure 6 for its own rules and ours, and these rules with ten cores."""
    ramp = RAMP[::3] if options.quick else RAMP
    trials = [PrequalTrial(rule=rule, load=load) for load in LOADS for rule in RULES]
    trials += [PrequalTrial(rule=rule, load=load) for load in ramp for rule in RAMPED]
    return trials + [PrequalTrial(rule=rule, load=load, cores=10) for load in LOADS for rule in RAMPED]


def figures_of(_case: Case, result: RunResult) -> Figures:
    """Sum up a run; an unanswered request has waited until the time-out."""
    waited_ms = np.append(result.latency_ms, np.full(result.in_flight, TIMEOUT_MS)).clip(max=TIMEOUT_MS)
    return {name: float(np.percentile(waited_ms, percent)) for name, percent in PERCENTS.items()}


def page(_options: argparse.Namespace, runs: Runs, command: str) -> Page:
    """Return both figures as tables, and the verdicts."""
    here = {
        (str(trial.cores), trial.rule, trial.load): {name: each.mean for name, each in row.items()}
        for trial, row in averaged(runs).items()
    }

    def both(rule: str, load: int) -> str:
        own = _text([*here["2", rule, load].values()][1:3])
        return f"{own} ({_text(published[rule][load].values())})" if rule in published else own

    def all_four(row: tuple[str, int], rule: str) -> str:
        return _text(here[row[0], rule, row[1]].values())

    published = {
        name: {float(load): {"p90_ms": of[0], "p99_ms": of[1]} for load, of in zip(LOADS, own, strict=True)}
        for name, (_, _, own) in RULES.items()
        if own
    }
    terms = Terms(scenario="2", unit="%", algorithms={name: name for name in RULES}, published=published)
    findings = [Finding(statement=statement, checks=[check]) for statement, check in FINDINGS.items()]
    findings.append(Finding(statement="Steelyard, for comparison", beside=COMPARED))
    ruled = rulings(Source(title="", what="", mirrored="", terms=terms, findings=findings), here)
    lines = [
        [one.finding.statement, one.verdict if one.judged else "", *line]
        for one in ruled
        for line in one.lines
    ]
    rows = dict.fromkeys((cores, load) for cores, _, load in here if cores != "2" or load not in LOADS)
    tables = (
        pivot("P90 / P99, ms (published)", [*RULES], LOADS, both, column_text="{} %".format),
        pivot(
            "P50 / P90 / P99 / P99.9, ms", [*rows], RAMPED, all_four, row_text="{0[1]} %, {0[0]} cores".format
        ),
        text_columns(["finding", "verdict", "figure", "theirs", "reproduced if", "here"], lines, left=6),
    )
    return Page(text=lambda _: document(f"`{command}`.", *map(markdown, tables)), plots={})


def _text(figures_ms: Iterable[float]) -> str:
    return " / ".join("TO" if each >= TIMEOUT_MS else f"{each:,.0f}" for each in figures_ms)
