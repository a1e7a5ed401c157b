"""`steelyard-loadtest chaos`: the command line, the sequence of a run, and its files."""

import argparse
import itertools
import shutil
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial

from pydantic_core import to_json
from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.machine import network
from steelyard_loadtest.reporting import flags
from steelyard_loadtest.reporting.conditions import conditions
from steelyard_loadtest.reporting.csv_text import Field, csv_text
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.publish import Page, check_page, fill_page, write_page

from steelyard_resilience.chaos.fault import Gathered, Look
from steelyard_resilience.chaos.faults.catalogue import FAULTS, chosen, listed
from steelyard_resilience.chaos.outcomes import strays
from steelyard_resilience.chaos.page import page, summary
from steelyard_resilience.running_load import TIMEOUT_S

NAME = "chaos"
"""The subcommand's name, and that of the marks in a page."""

RATE_PER_S = 200
"""Requests a second; the bounds are for this rate."""

QUICK_RATE_PER_S = 100
"""Requests a second with --quick, for machines whose CPUs have other work; the bounds allow twice as many."""

MOST_SLACK = 10
"""Beyond it, a bound would be longer than the time limit of a request."""

MOMENTS = ("began_s", "undone_s", "until_s")
"""Moments of a trial, to find a fault's requests and looks in the files."""


def add_parser(subparsers: flags.Subparsers) -> None:
    """Add the subcommand `chaos`."""
    parser = subparsers.add_parser(
        NAME, help="the cost of one fault after the other in the whole cluster under load (needs root)"
    )
    flag = parser.add_argument
    some = "only faults with PATTERN in their name or group; may be repeated (default: all)"
    flag("--only", action="append", default=[], metavar="PATTERN", help=some)
    flag("--list", action="store_true", help="list the faults and exit")
    flag("--quick", action="store_true", help="faults of nearly every kind, at half the load")
    times = flags.whole(1, MOST_SLACK, "times the bounds")
    busy = "multiplier of each time bound, for a busy machine (default %(default)s)"
    flag("--slack", type=times, default=1, metavar="TIMES", help=busy)
    flags.add_output(parser, "chaos-results")
    parser.set_defaults(run=partial(exit_status, NAME, _run))


def _run(options: argparse.Namespace) -> int:
    """Run the faults; return 0, 1 (a broken bound, or no run) or 130 (Ctrl-C, figures kept)."""
    wanted = chosen(FAULTS, options.only, quick=options.quick)
    if options.list:
        print(listed(wanted))
        return 0
    # These import many modules; --help and --list should not wait for them.
    from steelyard_loadtest.reporting.progress import Progress

    from steelyard_resilience.chaos import session
    from steelyard_resilience.stage.hosts import Front, Settings
    from steelyard_resilience.stage.install import versions

    check_page(options.page, NAME)  # before the run rather than after it
    network.enter(sys.argv[1:], mounts=True)
    about = conditions(sys.argv[1:], versions(), on_machine=[f"{network.NETWORK_PRIVATE} for each host"])
    rate_per_s, look_s = (
        (QUICK_RATE_PER_S, session.QUICK_LOOK_S) if options.quick else (RATE_PER_S, session.LOOK_S)
    )
    about["Load"] = f"{rate_per_s} GET requests/s, open loop, each given {TIMEOUT_S:g} s, each answer checked"
    folder = options.out / "stages"
    shutil.rmtree(folder, ignore_errors=True)  # logs of an earlier run would mislead
    numbers, gathered = itertools.count(1), Gathered()

    def open_scene(faketime: bool, front: Front) -> AbstractContextManager["session.Scene"]:
        settings = Settings(faketime=faketime, front=front)
        return session.scene(folder / str(next(numbers)), settings, float(rate_per_s), gathered, look_s)

    faults = [replace(fault, bound=fault.bound.slackened(options.slack)) for fault in wanted]
    try:
        with Progress(sys.stderr, steps=len(faults)) as progress:
            session.run(faults, open_scene, gathered, progress)
    except KeyboardInterrupt:
        gathered.interrupted = True
    finally:
        if gathered.outcomes:
            _report(options, gathered, about)
    kept = all(outcome.passed for outcome in gathered.outcomes) and not strays(gathered)
    return INTERRUPTED if gathered.interrupted else int(not kept)


def _report(options: argparse.Namespace, gathered: Gathered, about: dict[str, str]) -> None:
    made = left_of(gathered, about)
    files = write_page(made, options.out)
    print(summary(gathered))
    print("\n".join(map(str, files)))
    if gathered.interrupted:
        print("interrupted: the figures cover the faults so far", file=sys.stderr)
    if options.page:
        fill_page(made, options.page, NAME)
        print(options.page)


def left_of(run: Gathered, conditions: Mapping[str, str]) -> Page:
    """Return the files and the page of a run; 0 s is the first request."""
    zero_s = min((one.due_s for one in run.requests), default=0.0)
    requests: list[Field[Request]] = [
        ("due_s", lambda one: f"{one.due_s - zero_s:.6f}"),
        ("latency_ms", lambda one: f"{one.latency_ms:.3f}"),
        "failure",
    ]
    looks: list[Field[Look]] = [("at_s", lambda look: f"{look.at_s - zero_s:.3f}"), "rung", "not_well"]
    document = {
        "conditions": dict(conditions),
        "interrupted": run.interrupted,
        "outcomes": [
            asdict(one) | {"passed": one.passed} | {at: getattr(trial, at) - zero_s for at in MOMENTS}
            for trial, one in zip(run.trials, run.outcomes, strict=True)
        ],
    }
    return Page(
        text=lambda _: page(run, conditions),
        plots={},
        files={
            "outcomes.json": to_json(document, indent=1).decode(),
            "requests.csv.gz": csv_text(run.requests, requests),
            "looks.csv.gz": csv_text(run.looks, looks),
        },
    )
