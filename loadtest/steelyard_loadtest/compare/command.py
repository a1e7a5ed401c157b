"""`steelyard-loadtest compare`: the command line, and the order in which things are done."""

import argparse
import platform
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from steelyard_loadtest.compare import session
from steelyard_loadtest.compare.schedule import START_S, trial_s
from steelyard_loadtest.compare.store import Store
from steelyard_loadtest.machine import find_programs, network
from steelyard_loadtest.measurements.trials import Results
from steelyard_loadtest.reporting.conditions import conditions, kept
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.flags import Subparsers
from steelyard_loadtest.reporting.publish import check_page
from steelyard_loadtest.reporting.wording import duration
from steelyard_loadtest.scenario.algorithms import ALGORITHMS, named
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.scenario.file import ScenarioError
from steelyard_loadtest.scenario.find import MORE, NAMES, ORDER, find

MARKS = "measured"
"""Between which a page of docs/ has the lab's."""

ALONE = "inference"
"""A scenario with contenders, figures and a page of its own."""

DATAPLANE = Path("bench-results/dataplane/dataplane.csv")
"""Where `make bench-dataplane` leaves what a pick costs at many servers."""

LONG = """
Scenarios: {scenarios}, and `all` for these;
{more}, which `all` leaves out; or a TOML file of your own (docs/guides/load-lab.md).
And `inference`, alone: streamed answers of simulated inference engines (docs/research/inference.md),
at 70 and 90 % load, 27 minutes a repeat; with --quick at 80 %.
Each trace has its own results, and its own part of a page.

Servers, agents, controller and balancers are started here, each algorithm in its turn, in a private network
where this is root. DIR gets results.csv (one row a trial), servers.csv (each server second by second),
report.md and plots/. A run that was ended goes on where it was when it is started again with the
same --out.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand `compare`."""
    parser = subparsers.add_parser(
        "compare",
        help="every algorithm under the same load: the table and the plots",
        epilog=LONG.format(scenarios=", ".join(ORDER), more=", ".join(MORE)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="what is compared (see below)")
    parser.add_argument("--quick", action="store_true", help="under 3 minutes a scenario, fewer algorithms")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for results (loadtest-results/...)")
    parser.add_argument(
        "--only", metavar="ALGORITHM,...", help="these algorithms, whatever the scenario names"
    )
    parser.add_argument("--trace", type=Path, metavar="FILE", help="inference: what is asked (generated)")
    parser.add_argument("--repeats", type=int, metavar="N", help="inference: trials of each (3; --quick: 1)")
    parser.add_argument("--nginx", metavar="PATH", help="the nginx to measure (the one on PATH)")
    parser.add_argument(
        "--nginx-least-time", metavar="PATH", help="an nginx from 1.31 on, for nginx-least_time (none)"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page to write it into too")
    parser.add_argument("--again", action="store_true", help="measure again what DIR has")
    parser.add_argument("--list", action="store_true", help="list scenarios and algorithms, then end")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare; 0, 1 (nothing to measure with, or nothing measured), 2 (wrong words) or 130 (Ctrl-C)."""
    if options.scenarios == [ALONE]:
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
    status = exit_status("compare", _measure, options, out, results)
    if not results.measured:
        print("steelyard-loadtest compare: nothing was measured", file=sys.stderr)
        return INTERRUPTED if results.interrupted else status or 1
    results.interrupted |= status != 0
    results.scenarios = tuple(_as_measured(scenario, results) for scenario in scenarios)
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


def _scenarios(options: argparse.Namespace) -> tuple[Scenario, ...]:
    names = options.scenarios
    if not names:
        raise ScenarioError(f"which scenario? {', '.join(NAMES)}, all, or a FILE.toml")
    names = list(ORDER) if names == ["all"] else list(dict.fromkeys(names))
    scenarios = tuple(find(name, quick=options.quick) for name in names)
    if options.only is None:
        return scenarios
    only = tuple(dict.fromkeys(named(name.strip()).name for name in options.only.split(",")))
    return tuple(replace(scenario, algorithms=only) for scenario in scenarios)


def _as_measured(scenario: Scenario, results: Results) -> Scenario:
    """Add the algorithms and levels that an earlier run into the same folder has measured."""
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
        print(f"{name:24} {full.title} (quick {_lasts(quick)}, full {_lasts(full)})")
    print()
    for algorithm in ALGORITHMS:
        print(f"{algorithm.name:32} {algorithm.title}")
    return 0


def _lasts(scenario: Scenario) -> str:
    load = scenario.load
    visit_s = START_S + len(load.levels) * trial_s(load)
    return duration(len(scenario.algorithms) * load.repeats * visit_s)


def _report(out: Path, page: Path | None, results: Results) -> None:
    from steelyard_loadtest.compare.page.write import fill_page, write, write_csv  # --help need not wait

    written = write_csv(out, results) + write(out, results)
    print("\n".join(str(path) for path in written if path.parent == out))
    if results.interrupted:
        print("interrupted: the figures go as far as it went", file=sys.stderr)
    if page:
        fill_page(page, MARKS, out, results, DATAPLANE)
        print(page)
