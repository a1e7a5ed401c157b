"""`steelyard-loadtest dataplane`: the command line, and the output of the figures."""

import argparse
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from steelyard_loadtest.dataplane import report, session
from steelyard_loadtest.dataplane.contenders import BY_NAME, CONTENDERS, COST
from steelyard_loadtest.figures.columns import results_csv
from steelyard_loadtest.figures.trial_figures import figures
from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.find_programs import find
from steelyard_loadtest.measurements.trials import Results
from steelyard_loadtest.reporting.conditions import conditions
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.flags import Subparsers, add_output, ascending, names, whole
from steelyard_loadtest.reporting.publish import Page, check_page, fill_page, write_page
from steelyard_loadtest.scenario import find as scenarios

MARKS = "measured"
"""Marks of the page in a file."""

MOST_PEERS = 10_000
"""Servers that fit into one weight table in Memcached."""

# Numbers of servers, rounds, and seconds of a measurement.
FULL = ((3, 100, 500, 2000), 5, 4)
QUICK = ((3, 2000), 3, 2)


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand `dataplane`."""
    parser = subparsers.add_parser(
        "dataplane", help="the cost of a proxied request: ours beside nginx, HAProxy and Envoy, in one run"
    )
    flag = parser.add_argument
    flag("--quick", action="store_true", help="3 and 2000 servers, 3 rounds of 2 s: a first look")
    counts = ascending(whole(1, MOST_PEERS, "servers"))
    flag("--peers", type=counts, metavar="N,...", help="numbers of servers (default 3,100,500,2000)")
    flag("--rounds", type=whole(1, 100, "rounds"), help="alternated rounds (default 5)")
    flag("--seconds", type=whole(1, 600, "seconds"), help="length of one measurement (default 4)")
    contenders = f"contenders, of {', '.join(BY_NAME)} (default: all)"
    flag("--only", type=names(BY_NAME), default=CONTENDERS, metavar="NAME,...", help=contenders)
    flag(
        "--nginx",
        metavar="PATH",
        help="nginx to measure, such as OpenResty's or Tengine's (default: on PATH)",
    )
    add_output(parser, "bench-results/dataplane")
    parser.set_defaults(run=partial(exit_status, "dataplane", _run))


def _run(options: argparse.Namespace) -> int:
    """Run it; 0, 1 (not possible, or requests failed: see stderr) or 130 (Ctrl-C, figures kept)."""
    programs = find(options.nginx)
    if programs.wrk is None:
        raise SetupError("wrk is not installed and makes the load: apt-get install wrk")
    check_page(options.page, MARKS)
    where = network.enter(sys.argv[1:])
    known = conditions(sys.argv[1:], programs.versions, on_machine=[where])
    counts, repeats, length_s = QUICK if options.quick else FULL
    # Its one server answers at once; here it answers for every server.
    scenario = scenarios.find("proxy-cost", quick=options.quick)
    load = replace(
        scenario.load,
        levels=options.peers or counts,
        seconds=options.seconds or length_s,
        repeats=options.rounds or repeats,
        warm_up_s=0.0,
    )
    chosen = tuple(contender.name for contender in options.only)
    scenario = replace(scenario, name=COST, load=load, algorithms=chosen)
    with tempfile.TemporaryDirectory(prefix="steelyard-dataplane-") as folder:
        results = session.run(scenario, programs, Path(folder))
    failed = sum(entry.outcome.failures for entry in results.measured)
    if results.measured:
        _publish(options, known, results)
    if results.interrupted:
        print("interrupted: the page has the figures so far", file=sys.stderr)
        return INTERRUPTED
    if failed:
        print(f"{failed} requests failed, and none may", file=sys.stderr)
    return 0 if results.measured and not failed else 1


def _publish(options: argparse.Namespace, known: dict[str, str], results: Results) -> None:
    """Print the page; write it, the rounds and the plot."""
    from steelyard_loadtest.dataplane.plot import plot  # matplotlib takes a second that --help need not wait

    rows = report.rows(results.measured)
    page = Page(
        text=lambda paths: report.page(
            rows,
            conditions=known,
            missing={entry.algorithm: entry.why for entry in results.missing},
            plot=paths.get("dataplane"),
        ),
        plots={"dataplane": lambda file: plot(file, rows)} if any(map(report.cpu, rows)) else {},
        files={"dataplane.csv": results_csv(figures(entry, ()) for entry in results.measured)},
    )
    write_page(page, options.out, "dataplane")
    print(page.text({}))
    print(f"{options.out}: dataplane.md (this), dataplane.csv (every round), dataplane.png")
    fill_page(page, options.page, MARKS)
