"""`steelyard-loadtest soak`: the command line, and the files and the page of a run."""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from steelyard_loadtest.machine import network
from steelyard_loadtest.reporting import flags
from steelyard_loadtest.reporting.conditions import conditions
from steelyard_loadtest.reporting.csv_text import csv_text, names_of
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.publish import Page, check_page, fill_page, write_page

from steelyard_resilience.soak import page
from steelyard_resilience.soak.leaks import judge
from steelyard_resilience.soak.readings import Reading, Soaked
from steelyard_resilience.soak.timetable import LEAST_S, MOST_S, Plan

MARKS = "soak"
SAMPLES = "samples.csv"


def add_parser(subparsers: flags.Subparsers) -> None:
    """Add the subcommand `soak`."""
    parser = subparsers.add_parser(
        "soak", help="leaks under constant load and churn for half an hour (needs root)"
    )
    flag = parser.add_argument
    seconds = flags.number(LEAST_S, MOST_S, "seconds", ": a shorter soak proves nothing")
    length = f"length in seconds, {LEAST_S:g} to {MOST_S:g} (default %(default)g)"
    flag("--seconds", type=seconds, default=1800.0, help=length)
    rate = flags.number(1.0, 1000.0, "requests a second")
    flag("--rate", type=rate, default=200.0, help="requests a second, 1 to 1000 (default %(default)g)")
    flags.add_output(parser, "soak-results")
    parser.set_defaults(run=partial(exit_status, "soak", _run))


def _run(options: argparse.Namespace) -> int:
    """Run it; return 0, 1 (a leak, a failure, or no run) or 130 (Ctrl-C, figures kept)."""
    # These import many modules; --help should not wait for them.
    from steelyard_loadtest.reporting.progress import Progress

    from steelyard_resilience.soak import session
    from steelyard_resilience.stage.install import versions

    plan = Plan(seconds=options.seconds, rate_per_s=options.rate)
    check_page(options.page, MARKS)  # before the run rather than half an hour later
    where = network.enter(sys.argv[1:], mounts=True)
    about = conditions(sys.argv[1:], versions(), on_machine=[where])
    soaked = Soaked(seconds=plan.seconds)
    with Progress(sys.stderr) as progress, tempfile.TemporaryDirectory(prefix="steelyard-soak-") as folder:
        session.run(plan, Path(folder), soaked, lambda: progress.show(page.describe(soaked)))
    if not soaked.readings:
        return INTERRUPTED
    passed = _report(options, plan, soaked, about)
    if soaked.interrupted:
        print("interrupted: the figures cover the time so far", file=sys.stderr)
        return INTERRUPTED
    return 0 if passed else 1


def _report(options: argparse.Namespace, plan: Plan, soaked: Soaked, about: dict[str, str]) -> bool:
    """Print the page; write it, the readings and the plot; return whether the soak passed."""
    from steelyard_resilience.soak.plot import plot  # imports matplotlib for a second; --help should not wait

    verdict = judge(soaked, plan)
    written = Page(
        text=lambda plots: page.page(soaked, verdict, plan, about, plots.get("soak")),
        plots={"soak": lambda file: plot(file, soaked, plan)},
        files={SAMPLES: csv_text(soaked.readings, names_of(Reading))},
    )
    write_page(written, options.out, "soak")
    print(written.text({}))
    print(f"{options.out}: soak.md (this), {SAMPLES} (every reading), soak.png")
    if options.page:
        fill_page(written, options.page, MARKS, folder=f"plots/{options.page.stem}")
    return verdict.passed
