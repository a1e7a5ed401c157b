"""`steelyard-loadtest simulate`: the flags of the studies, and where reports, tables and plots go (I/O)."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from steelyard_loadtest.reporting import flags
from steelyard_loadtest.reporting.exit_status import exit_status
from steelyard_loadtest.reporting.publish import Page, check_page, fill_page, write_page

from steelyard_simulator.studies import (
    evidence_clusters,
    evidence_page,
    measures,
    ns3_study,
    scale_grid,
    scale_page,
    stability_grid,
    stability_page,
)
from steelyard_simulator.studies.evidence_clusters import ALGORITHMS, EvidenceTrial
from steelyard_simulator.studies.study import simulated

MOST = 100_000
"""Seeds, servers, load balancers: ten times the servers that a table holds, so that one may look beyond."""

IN_COMMAND = ("quick", "servers", "load_balancers", "seeds", "seed", "requests", "only")
"""Of the flags, those that make other figures: neither where they go nor how fast."""


Made = tuple[Page, str | None]
"""What a study writes, and what stands on stdout instead of its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One study: a subcommand, and the marks of its part of a page.

    work          from the options, the seeds and the command that makes the same figures to what it makes
    files         what each of the files in --out is
    seeds, runs   how many runs, if nobody says, and of what
    quick         what --quick does, and its seeds; None: there is no such flag, nor a default for --out
    flags         those that only this study has, as argparse takes them
    """

    name: str
    help: str
    description: str
    work: Callable[[argparse.Namespace, range, str], Made]
    files: str
    seeds: int
    runs: str = "runs a point, each with a seed of its own"
    quick: tuple[str, int] | None = None
    page: str = "the report"
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def add_parser(subparsers: flags.Subparsers) -> None:
    """Add the subcommand `simulate`, with a subcommand a study."""
    parser = subparsers.add_parser(
        "simulate",
        help="the shipped laws and pickers on simulated servers: the ns-3 study, scale, stability, evidence",
    )
    studies = parser.add_subparsers(required=True, metavar="STUDY")
    for study in STUDIES:
        _add_study(studies.add_parser(study.name, help=study.help, description=study.description), study)


def _add_study(parser: argparse.ArgumentParser, study: Study) -> None:
    for name, means in study.flags.items():
        parser.add_argument(name, **means)
    if study.quick:
        parser.add_argument("--quick", action="store_true", help=study.quick[0])
    default = None if study.quick else study.seeds
    flags.add_seeds(parser, most=MOST, default=default, told=f"{study.runs} ({study.seeds})")
    flags.add_output(parser, f"bench-results/{study.name}" if study.quick else None, page=study.page)
    name = f"simulate {study.name}"
    parser.set_defaults(run=lambda options: exit_status(name, partial(_run, study, options)))


def _run(study: Study, options: argparse.Namespace) -> None:
    name = f"simulate {study.name}"
    check_page(options.page, name)
    defaults = {"seed": 1, "requests": ns3_study.REQUESTS, "only": tuple(ns3_study.BY_NAME)}
    command = " ".join(["steelyard-loadtest", name, *flags.given(options, defaults, IN_COMMAND)])
    count = options.seeds or (study.quick[1] if study.quick and options.quick else study.seeds)
    made, printed = study.work(options, range(options.seed, options.seed + count), command)
    print(made.text({}) if printed is None else printed)
    if options.out is not None:
        write_page(made, options.out, name=study.name)
        print(f"{options.out}: {study.files}", file=sys.stderr)
    fill_page(made, options.page, name)


def _by(study: str, function: str, *of: object) -> Callable[[Path], object]:
    def draw(file: Path) -> None:
        # Here, because matplotlib takes a second that nobody else need wait.
        module = import_module(f"steelyard_simulator.studies.{study}_plot")
        getattr(module, function)(file, *of)

    return draw


def _ns3(options: argparse.Namespace, seeds: range, command: str) -> Made:
    trials = [ns3_study.Ns3Trial(algorithm=name, requests=options.requests) for name in options.only]
    work = [(trial, seed) for trial in dict.fromkeys(trials) for seed in seeds]
    figures = simulated(work, ns3_study.figures_of, jobs=options.jobs, title="ns3")
    runs = {trial.algorithm: own for trial, own in figures.items()}
    rows = measures.averaged(runs)
    made = Page(
        text=lambda _: ns3_study.page(rows, command), plots={},
        files={"ns3.csv": ns3_study.runs_csv(runs, options.seed)},
    )  # fmt: skip
    return made, json.dumps(ns3_study.objects(rows), indent=1) if options.json else None


def _scale(options: argparse.Namespace, seeds: range, command: str) -> Made:
    sizes, balancers = (
        (scale_grid.QUICK_SIZES, scale_grid.QUICK_LOAD_BALANCERS)
        if options.quick
        else (scale_grid.SIZES, scale_grid.LOAD_BALANCERS)
    )
    sizes, balancers = options.servers or sizes, options.load_balancers or balancers
    trials = scale_grid.trials(sizes, balancers)
    work = scale_grid.work(trials, seeds=len(seeds), first_seed=options.seed)
    runs = simulated(work, scale_grid.figures_of, jobs=options.jobs, title="scale")
    points = scale_grid.points(runs)
    grid = [(k, n) for k in sizes for n in balancers]
    made = Page(
        text=lambda _: scale_page.page(points, grid, command),
        plots={},
        files={"scale.csv": scale_page.scale_csv(points, grid)},
    )
    return made, None


def _stability(options: argparse.Namespace, seeds: range, command: str) -> Made:
    maps = stability_grid.maps(quick=options.quick)
    work = [(trial, seed) for trial in stability_grid.distinct(maps) for seed in seeds]
    runs = simulated(work, stability_page.figures_of, jobs=options.jobs, title="stability")
    points = measures.averaged(runs)
    made = Page(
        text=lambda plots: stability_page.page(maps, points, command, plots.get("stability")),
        plots={"stability": _by("stability", "draw", maps, points, stability_grid.VARIANTS)},
        files={"stability.csv": stability_page.stability_csv(maps, points)},
    )
    return made, None


def _evidence(options: argparse.Namespace, seeds: range, command: str) -> Made:
    clusters = tuple(dict.fromkeys(options.only or evidence_clusters.clusters()))
    trials = [EvidenceTrial(cluster=name, algorithm=by) for name in clusters for by in ALGORITHMS]
    work = [(trial, seed) for trial in trials for seed in seeds]
    runs = simulated(work, evidence_page.figures_of, jobs=options.jobs, title="evidence")
    evidence = evidence_page.Evidence(runs=runs)
    curves = evidence_page.over_time(clusters, seeds[0])
    made = Page(
        text=lambda plots: evidence_page.page(
            evidence, command, plots.get("evidence"), plots.get("evidence-curves")
        ),
        plots={
            "evidence": _by("evidence", "draw", evidence),
            "evidence-curves": _by("evidence", "draw_curves", curves),
        },
        files={"evidence.csv": evidence_page.evidence_csv(runs, options.seed)},
    )
    return made, None


def _sizes(what: str, default: Sequence[int]) -> Mapping[str, Any]:
    told = f"{what} ({','.join(map(str, default))})"
    return {"type": flags.ascending(flags.whole(1, MOST, "them")), "metavar": "N,...", "help": told}


STUDIES = (
    Study(
        name="ns3",
        help="the published ns-3 study of Peak EWMA, again, with ours in the same table",
        description="10 clients, 10 servers (nine answer after 5 ms, one after 50 ms): the latencies of each "
        "algorithm beside those that the ns-3 study published.",
        work=_ns3,
        files="ns3.md (the tables), ns3.csv (every run)",
        # Of a published single run nobody knows the spread; twenty seeds tell it to a few per mille.
        seeds=20,
        runs="runs an algorithm",
        page="the tables",
        flags={
            "--json": {"action": "store_true", "help": "print only a JSON list, one object an algorithm"},
            "--requests": {
                "type": flags.whole(1, MOST, "requests"),
                "default": ns3_study.REQUESTS,
                "metavar": "N",
                "help": "requests a client sends (%(default)s)",
            },
            "--only": {
                "type": flags.names({name: name for name in ns3_study.BY_NAME}),
                "default": tuple(ns3_study.BY_NAME),
                "metavar": "NAME,...",
                "help": f"of {', '.join(ns3_study.BY_NAME)}",
            },
        },
    ),
    Study(
        name="scale",
        help="100 to 10,000 servers, 1 to 256 load balancers: shares, p99, bytes",
        description="Simulates servers of four speeds, one in a hundred of which changes every tick, behind "
        "many load balancers; and tells what that is in bytes through Memcached.",
        work=_scale,
        files="scale.md (this), scale.csv",
        seeds=3,
        quick=("up to 500 servers, 2 seeds: about a minute", 2),
        flags={
            "--servers": _sizes("numbers of servers", scale_grid.SIZES),
            "--load-balancers": _sizes("numbers of them", scale_grid.LOAD_BALANCERS),
        },
    ),
    Study(
        name="stability",
        help="maps of where each law settles and where it oscillates, and the defaults' margin",
        description="Simulates five servers, one of which slows down, and maps how far the shares swing when "
        "all should be at rest: over load and delay, over load and mismatch, over gain and interval.",
        work=_stability,
        files="stability.md (this), stability.csv (every point), stability.png",
        seeds=3,
        quick=("coarse maps, one seed: about a minute", 1),
    ),
    Study(
        name="evidence",
        help="clusters that nobody tunes on: p99 of ours and others over that of least_conn on true weights",
        description="Simulates clusters that stand for what befalls real ones (neighbours, drifting sizes, "
        "cold starts, restarts, failures, stalls, bursts) under others' algorithms and ours.",
        work=_evidence,
        files="evidence.md (this), evidence.csv (every run), evidence.png, evidence-curves.png",
        seeds=4,
        runs="runs a cluster and algorithm",
        quick=("one seed: a minute or two", 1),
        flags={
            "--only": {
                # Looked up where it is asked for: the file is read for nobody else.
                "type": flags.names(lambda: {name: name for name in evidence_clusters.clusters()}),
                "metavar": "CLUSTER,...",
                "help": "of those on docs/evidence.md; a name that is none of them lists all",
            },
        },
    ),
)
"""One more study is one more of these."""
