"""`steelyard-loadtest simulate`: the flags of the studies, and where reports, tables and plots go (I/O)."""

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from steelyard_loadtest.inference.arrivals import generated, loaded, read
from steelyard_loadtest.reporting import flags
from steelyard_loadtest.reporting.exit_status import exit_status
from steelyard_loadtest.reporting.markdown import document, markdown, text_columns
from steelyard_loadtest.reporting.publish import Page, check_page, fill_page, write_page

from steelyard_simulator.model import Case, RunResult
from steelyard_simulator.studies import (
    alone_study,
    autoscale_study,
    constants_study,
    evidence_clusters,
    evidence_page,
    inference_study,
    ns3_study,
    prequal_study,
    scale_study,
    stability_study,
    zones_study,
)
from steelyard_simulator.studies.evidence_clusters import ALGORITHMS, EvidenceTrial
from steelyard_simulator.studies.measures import Figures, Runs, runs_csv
from steelyard_simulator.studies.study import processes, simulated

INFERENCE = "simulate inference"

LARGEST_NUMBER = 100_000
"""Maximum of seeds, servers and load balancers: ten times the servers of the largest table."""

IN_COMMAND = ("quick", "servers", "load_balancers", "seeds", "seed", "only", "on", "clusters")
"""Flags that change the figures, unlike those for output and speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One study: a subcommand, and the marks of its part of a page.

    trials       from the options to the trials of the study
    figures_of   from a run to its figures; importable
    around       from a trial to the context of its runs; importable
    page         from the options, the runs and the command line that repeats them, to the page
    seeds        default number of seeds
    seeds_of     from a trial and the number of seeds to the trial's number of seeds
    quick        help of --quick, and its number of seeds
    flags        flags of this study only, as argparse takes them
    """

    name: str
    help: str
    trials: Callable[[argparse.Namespace], Iterable[Any]]
    figures_of: Callable[[Case, RunResult], Figures]
    page: Callable[[argparse.Namespace, Runs, str], Page]
    seeds: int
    seeds_of: Callable[[Any, int], int] = lambda _, most: most
    quick: tuple[str, int]
    around: Callable[[Any], AbstractContextManager[Any]] = nullcontext
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def add_parser(subparsers: flags.Subparsers) -> None:
    """Add the subcommand `simulate`, with a subcommand a study."""
    parser = subparsers.add_parser(
        "simulate",
        help="simulate the shipped laws and pickers on modelled servers: "
        + ", ".join([*(each.name for each in STUDIES), "inference"]),
    )
    studies = parser.add_subparsers(required=True, metavar="STUDY")
    _add_inference(studies)
    for study in STUDIES:
        _add_study(studies.add_parser(study.name, help=study.help, description=study.help), study)


def _add_study(parser: argparse.ArgumentParser, study: Study) -> None:
    for name, means in study.flags.items():
        parser.add_argument(name, **means)
    flag, (quick, _) = parser.add_argument, study.quick
    flag("--quick", action="store_true", help=quick)
    seeds = f"runs of each trial, each with its own seed (default {study.seeds})"
    flag("--seeds", type=flags.whole(1, LARGEST_NUMBER, "seeds"), metavar="N", help=seeds)
    flag(
        "--seed",
        type=flags.whole(0, 2**32, "seeds"),
        metavar="N",
        default=1,
        help="first seed (default %(default)s)",
    )
    flag(
        "--jobs",
        type=flags.whole(1, LARGEST_NUMBER, "processes"),
        metavar="N",
        help="processes (default: one a core)",
    )
    flags.add_output(parser, f"bench-results/{study.name}")
    name = f"simulate {study.name}"
    parser.set_defaults(run=lambda options: exit_status(name, partial(_run, name, study, options)))


def _run(name: str, study: Study, options: argparse.Namespace) -> None:
    check_page(options.page, name)
    command = " ".join(["steelyard-loadtest", name, *flags.given(options, {"seed": 1}, IN_COMMAND)])
    _, few = study.quick
    count = options.seeds or (few if options.quick else study.seeds)
    work = [
        (trial, options.seed + number)
        for trial in study.trials(options)
        for number in range(study.seeds_of(trial, count))
    ]
    runs = simulated(work, study.figures_of, around=study.around, jobs=options.jobs, title=study.name)
    made = study.page(options, runs, command)
    made = replace(made, files={f"{study.name}.csv": runs_csv(runs, options.seed)})
    print(made.text({}))
    written = write_page(made, options.out, name=study.name)
    print(f"{options.out}: {', '.join(file.name for file in written)}", file=sys.stderr)
    fill_page(made, options.page, name)


def _add_inference(studies: flags.Subparsers) -> None:
    title = "64 inference engines behind 8 load balancers: first tokens, cache hits"
    parser = studies.add_parser("inference", help=title, description=title)
    parser.add_argument("--quick", action="store_true", help="one load, for a simulated minute")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="recorded requests (default: generated)")
    flags.add_output(parser, "bench-results/inference")
    parser.set_defaults(run=partial(exit_status, INFERENCE, _run_inference))


def _run_inference(options: argparse.Namespace) -> None:
    """Simulate. Raises OSError, and ValueError for an invalid page or trace."""
    check_page(options.page, INFERENCE)
    trace, lines = options.trace, list[list[str]]()
    arrivals = read(trace.read_text("utf-8").splitlines()) if trace else generated(Random(1), 12_031)
    head, size = inference_study.HEAD, sum(inference_study.SIZES)
    for load in (0.8,) if options.quick else (0.7, 0.9):
        asked = loaded(arrivals, load=load, size=size, seconds=60 if options.quick else 220)
        rate = len(asked) / asked[-1].at_s
        lines.append([f"load {load:.0%}: {rate:.1f} requests/s", *[""] * (len(head) - 1)])
        with processes(len(os.sched_getaffinity(0))) as pool:
            lines += pool.map(partial(inference_study.figures, arrivals=asked), inference_study.CONTENDERS)
    command = " ".join(["steelyard-loadtest", INFERENCE, *flags.given(options, {}, ("quick", "trace"))])
    text = document(f"`{command}`", markdown(text_columns(head, lines)))
    made = Page(text=lambda _: text, plots={})
    print("\n".join(map(str, write_page(made, options.out))), file=sys.stderr)
    fill_page(made, options.page, INFERENCE)


def _evidence_page(_: argparse.Namespace, runs: Runs, command: str) -> Page:
    # Imported here, because matplotlib takes a second and --help does not need it.
    from steelyard_simulator.studies import evidence_plot

    evidence = evidence_page.Evidence(runs=runs)
    return Page(
        text=lambda plots: evidence_page.page(evidence, command, plots),
        plots={"evidence": lambda file: evidence_plot.draw(file, evidence)},
    )


def _sizes(what: str, default: Sequence[int]) -> Mapping[str, Any]:
    text = f"{what} (default {','.join(map(str, default))})"
    return {"type": flags.ascending(flags.whole(1, LARGEST_NUMBER, "them")), "metavar": "N,...", "help": text}


def _only(known: Callable[[], Iterable[str]], metavar: str) -> Mapping[str, Any]:
    return {
        # Looked up only when needed: reading the file of clusters takes time.
        "type": flags.names(lambda: {name: name for name in known()}),
        "metavar": f"{metavar},...",
        "help": "only these; an unknown name lists all",
    }


STUDIES = (
    Study(
        name="ns3",
        help="repeat the published ns-3 study of Peak EWMA, with Steelyard in the same table",
        trials=lambda options: map(ns3_study.Ns3Trial, options.only or ns3_study.BY_NAME),
        figures_of=ns3_study.figures_of,
        page=lambda _, runs, command: Page(text=lambda _: ns3_study.page(runs, command), plots={}),
        # The spread of the published single run is unknown; twenty seeds give ours to a few per mille.
        seeds=20,
        quick=("five seeds: seconds", 5),
        flags={"--only": _only(lambda: ns3_study.BY_NAME, "NAME")},
    ),
    Study(
        name="scale",
        help="100 to 10,000 servers of four changing speeds, 1 to 256 load balancers: shares, p99, bytes",
        trials=lambda options: scale_study.trials(*scale_study.axes(options)),
        figures_of=scale_study.figures_of,
        page=scale_study.page,
        seeds=3,
        seeds_of=scale_study.seeds_of,
        quick=("up to 500 servers, 2 seeds: about a minute", 2),
        flags={
            "--servers": _sizes("numbers of servers", scale_study.SIZES),
            "--load-balancers": _sizes("numbers of load balancers", scale_study.LOAD_BALANCERS),
        },
    ),
    Study(
        name="stability",
        help="a map of each law over load and message delay: where it settles, and where it oscillates",
        trials=stability_study.trials,
        figures_of=stability_study.figures_of,
        page=stability_study.page,
        seeds=3,
        quick=("coarse maps, one seed: seconds", 1),
    ),
    Study(
        name="evidence",
        help="clusters that nobody tunes on: p99 relative to least_conn on true weights, for ours and others",
        trials=lambda options: itertools.starmap(
            EvidenceTrial, itertools.product(options.only or evidence_clusters.clusters(), ALGORITHMS)
        ),
        figures_of=evidence_page.figures_of,
        page=_evidence_page,
        seeds=4,
        quick=("one seed: a minute or two", 1),
        flags={"--only": _only(lambda: evidence_clusters.clusters(), "CLUSTER")},
    ),
    Study(
        name="alone",
        help="weights alone on these clusters, with one part at a time replaced by the truth",
        trials=alone_study.trials,
        figures_of=evidence_page.figures_of,
        page=alone_study.page,
        seeds=4,
        quick=("one seed: a minute or two", 1),
        flags=alone_study.FLAGS,
    ),
    Study(
        name="constants",
        help="the default law with one of its constants or rules switched off, halved or doubled at a time",
        trials=constants_study.trials,
        figures_of=evidence_page.figures_of,
        around=constants_study.changed_law,
        page=constants_study.page,
        seeds=2,
        quick=("one seed: twenty minutes", 1),
        flags=constants_study.FLAGS,
    ),
    Study(
        name="autoscale",
        help="a day's load on servers that are started and stopped by headroom, or by mean CPU",
        trials=lambda _: autoscale_study.TRIALS,
        figures_of=autoscale_study.figures_of,
        page=autoscale_study.page,
        seeds=2,
        quick=("one seed: minutes", 1),
    ),
    Study(
        name="prequal",
        help="repeat Prequal's figures 6 and 7, with Steelyard: 100 load balancers, a verdict on each claim",
        trials=prequal_study.trials,
        figures_of=prequal_study.figures_of,
        page=prequal_study.page,
        seeds=3,
        quick=("one seed, fewer loads of figure 6: minutes", 1),
    ),
    Study(
        name="zones",
        help="a day on three zones, one at half its size: crossing requests, p99, beside Envoy's two methods",
        trials=lambda _: zones_study.TRIALS,
        figures_of=zones_study.figures_of,
        page=zones_study.page,
        seeds=2,
        quick=("one seed: minutes", 1),
    ),
)
"""All studies; to add one, append it here."""
