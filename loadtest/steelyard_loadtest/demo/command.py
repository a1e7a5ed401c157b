"""`steelyard-loadtest demo`: a comparison whose servers run already; trials, tables, plot are compare's."""

import argparse
import sys
from functools import partial
from pathlib import Path

from steelyard_loadtest.cluster.command import add_cluster_flags, cluster_of
from steelyard_loadtest.cluster.plan import Cluster
from steelyard_loadtest.demo.running import TARGET_UTILIZATION, RunningServers, scenario_of
from steelyard_loadtest.machine.find_programs import find
from steelyard_loadtest.measurements.trials import Results, Trial
from steelyard_loadtest.reporting.conditions import conditions
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.flags import Subparsers, whole
from steelyard_loadtest.reporting.markdown import bullets, document, image
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.scenario.algorithms import BY_NAME
from steelyard_loadtest.trial import measure


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand `demo`."""
    parser = subparsers.add_parser(
        "demo", help="load the running cluster, burn a server's CPU in the middle third, plot what happened"
    )
    flag = parser.add_argument
    # Thirds of at least 2 s.
    flag("--seconds", type=whole(6, 3600, "seconds"), default=60, help="each load's length (%(default)s)")
    flag("--out", type=Path, default=Path("demo-results"), help="folder for results (%(default)s)")
    add_cluster_flags(parser)
    parser.set_defaults(run=partial(exit_status, "demo", _run))


def _run(options: argparse.Namespace) -> int:
    """Run the demo; 0, 1 (cluster not as it must be, one line on stderr) or 130 (Ctrl-C, results kept)."""
    cluster = cluster_of(options)
    scenario = scenario_of(cluster, options.seconds)
    known = conditions(sys.argv[1:], {})
    results = Results(scenarios=(scenario,))
    try:
        known["Load"] = _measure(cluster, options.out, results)
    except KeyboardInterrupt:
        results.interrupted = True
        print("interrupted: the figures go as far as it went", file=sys.stderr)
    if results.measured:
        results.conditions = known
        _publish(options.out, results)
    return INTERRUPTED if results.interrupted else 0


def _measure(cluster: Cluster, out: Path, results: Results) -> str:
    """Load the cluster once by each algorithm; return what the load was. Raises SetupError, ProgramError."""
    (scenario,) = results.scenarios
    seconds = scenario.load.seconds * len(scenario.algorithms)
    with (
        RunningServers(scenario, cluster, find(None)) as servers,
        Progress(sys.stderr, steps=len(scenario.algorithms), expected_s=seconds) as progress,
    ):
        progress.say(f"Look on: http://127.0.0.1:{cluster.api_port}/")
        capacity = servers.capacity_per_s(scenario.path)
        rate_per_s = round(capacity * TARGET_UTILIZATION)
        told = f"{rate_per_s} requests/s, of {capacity:.0f} that the servers can do together"
        progress.say(told)
        for name in scenario.algorithms:
            progress.begin(BY_NAME[name].title)
            visit = servers.visit(name, rate_per_s, out / "load")
            trial = Trial(scenario=scenario.name, algorithm=name, level=TARGET_UTILIZATION, repeat=1)
            entry = measure(visit, trial, first=True)
            results.measured.append(entry)
            progress.end(f"{entry.outcome.requests} requests, {entry.outcome.failures} failed")
    return told


def _publish(out: Path, results: Results) -> None:
    # matplotlib takes a second that --help need not wait for
    from steelyard_loadtest.compare.page.document import blocks, titled
    from steelyard_loadtest.compare.page.plots.over_time import draw_over_time
    from steelyard_loadtest.compare.page.view import views
    from steelyard_loadtest.compare.page.write import write_csv

    (view,) = views(results)
    tables = document(*map(titled, blocks(view)))
    print(tables)
    plot = out / "demo.png"
    draw_over_time(plot, view, headline=view.scenario.title)
    shown = image("shares, CPU utilization and p99 over time", plot.name)
    page = document(f"# {view.scenario.title}", bullets(results.conditions), shown, tables)
    files = [plot, write_text(out / "demo.md", page), *write_csv(out, results)]
    print(", ".join(map(str, files)))
