"""`steelyard-loadtest chaos`: the command line, and the order in which things are done."""

import argparse
import itertools
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard_loadtest.chaos import session, wording
from steelyard_loadtest.chaos.choice import chosen, listed
from steelyard_loadtest.chaos.faults.catalogue import FAULTS
from steelyard_loadtest.chaos.judge import lost_between
from steelyard_loadtest.chaos.model import Fault
from steelyard_loadtest.chaos.records import Gathered
from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.marked_page import filled

if TYPE_CHECKING:
    from steelyard_loadtest.chaos.trial import Scene

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

NAME = "chaos"
"""Of the subcommand, and of the marks in a page."""

INTERRUPTED = 130  # the shell's status for Ctrl-C

RATE_PER_S = 200
LEAST_PER_S, MOST_PER_S = 1, 2000
"""Some 2000 requests/s take a core; a load near that measures the machine."""

LONG = """
Starts the whole cluster on this machine, each part on a host of its own (a network namespace: needs root),
puts a constant load on it, and does one fault after the other. Each answer is checked. PATTERN is a part of a
fault's name or group, or a whole name with * and ?.

DIR gets report.md (the table), outcomes.json, outcomes.csv, requests.csv.gz (every request), looks.csv.gz
(what was seen ten times a second), bounds.png, timeline.png, and the logs of every part.
"""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `chaos`."""
    parser = subparsers.add_parser(
        NAME,
        help="the whole cluster under load, and one fault after the other: what each costs",
        epilog=LONG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="these faults; may be given again"
    )
    parser.add_argument("--list", action="store_true", help="list the faults with their bounds, then end")
    parser.add_argument("--quick", action="store_true", help="faults of nearly every kind: two minutes")
    parser.add_argument(
        "--out", type=Path, default=Path("chaos-results"), metavar="DIR", help="folder (default: %(default)s)"
    )
    parser.add_argument(
        "--rate",
        type=_rate,
        default=RATE_PER_S,
        metavar="PER_S",
        help="requests a second (default: %(default)s, which the bounds are for)",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page to write the report into too")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do the faults; 0, 1 (a bound was broken, or it could not run), 2 (wrong words) or 130 (Ctrl-C)."""
    try:
        faults = chosen(FAULTS, options.only, quick=options.quick)
    except ValueError as error:
        return _fail(error, 2)
    if options.list:
        print(listed(faults))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop is a stop: keep what was measured
    gathered, failed = Gathered(), False
    try:
        if options.page:
            filled(options.page.read_text(encoding="utf-8"), NAME, "")  # better now than at the end
        network.enter(sys.argv[1:], mounts=True)
        conditions = _conditions(options)
        _do(faults, options, gathered)
    except KeyboardInterrupt:
        gathered.interrupted = True
    except (SetupError, ProgramError, OSError, ValueError) as error:
        _fail(error, 1)
        failed = True
    if not gathered.outcomes:
        return INTERRUPTED if gathered.interrupted else 1
    _report(options, gathered, conditions)
    if gathered.interrupted:
        return INTERRUPTED
    return int(
        failed or bool(lost_between(gathered)) or not all(outcome.passed for outcome in gathered.outcomes)
    )


def _do(faults: Sequence[Fault], options: argparse.Namespace, gathered: Gathered) -> None:
    # They start daemons and need root's programs: nothing that --help and --list should wait for.
    from steelyard_loadtest.chaos.progress import Progress
    from steelyard_loadtest.chaos.scene import scene
    from steelyard_loadtest.stage.settings import Settings

    folder = options.out / "stages"
    shutil.rmtree(folder, ignore_errors=True)  # logs of another run would only mislead
    numbers = itertools.count(1)

    def open_scene(faketime: bool) -> AbstractContextManager["Scene"]:
        settings = Settings(faketime=faketime)
        return scene(folder / str(next(numbers)), settings, float(options.rate), gathered)

    progress = Progress(sys.stderr, len(faults))
    try:
        session.run(faults, open_scene, gathered, progress)
    finally:
        progress.clear()


def _conditions(options: argparse.Namespace) -> dict[str, str]:
    from steelyard_loadtest.chaos.conditions import known  # asks programs for their versions

    return known(sys.argv[1:], options.rate)


def _report(options: argparse.Namespace, gathered: Gathered, conditions: dict[str, str]) -> None:
    from steelyard_loadtest.chaos import publish  # matplotlib takes a second that --help need not wait for

    files = publish.write(options.out, gathered, conditions)
    print(wording.summary(gathered.outcomes, len(gathered.requests), lost_between(gathered)))
    print("\n".join(map(str, files)))
    if gathered.interrupted:
        print("interrupted: the figures go as far as it went", file=sys.stderr)
    if options.page:
        publish.fill(options.page, NAME, gathered, conditions)
        print(options.page)


def _rate(text: str) -> int:
    if not text.isdecimal() or not LEAST_PER_S <= int(text) <= MOST_PER_S:
        raise argparse.ArgumentTypeError(f"a whole number from {LEAST_PER_S} to {MOST_PER_S}, not {text!r}")
    return int(text)


def _fail(error: Exception, status: int) -> int:
    print(f"steelyard-loadtest {NAME}: {error}", file=sys.stderr)
    return status
