"""`steelyard-loadtest fuzz`: the command line, and what is done with the tallies."""

import argparse
import json
import logging
import random
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard_loadtest.fuzz import report
from steelyard_loadtest.fuzz.model import Tally
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.marked_page import filled

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

INTERRUPTED = 130  # the shell's status for Ctrl-C

# Some ten minutes in all.
SECONDS = 7.0

QUICK_S = 0.3


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `fuzz`."""
    parser = subparsers.add_parser(
        "fuzz", help="what nobody meant to every decoder, Python's and Lua's, to the API and to every port"
    )
    flag = parser.add_argument
    flag("--seconds", type=_seconds, help=f"for each target and method ({SECONDS:g})")
    flag("--quick", action="store_true", help="less than a minute in all: what CI runs")
    flag("--only", metavar="NAME,...", help="these targets alone (as the first column names them)")
    flag(
        "--seed",
        type=int,
        help="the same inputs again, but for those that time cuts off (random; it is printed)",
    )
    flag("--out", type=Path, default=Path("fuzz-results"), help="folder (%(default)s)")
    flag("--page", type=Path, help="also write the table between the marks of this page")
    flag(
        "--input",
        type=Path,
        metavar="FILE",
        help="give this input to the decoder that --only names, and say what it makes of it",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; 0, 1 (a violation, or it could not: see stderr) or 130 (Ctrl-C, what was found is kept)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop is a stop: keep what was found
    # Only here: hypothesis is there where the tests are.
    try:
        from steelyard_loadtest.fuzz import session
    except ModuleNotFoundError as error:
        print(f"steelyard-loadtest fuzz: {error}: run `make setup-tests`", file=sys.stderr)
        return 1
    logging.disable(logging.CRITICAL)  # decoders say what is wrong with an input, which here is all of them
    seed = random.randrange(2**31) if options.seed is None else options.seed
    seconds = options.seconds or (QUICK_S if options.quick else SECONDS)
    tallies: list[Tally] = []
    status = 0
    try:
        plan = session.Plan(
            seconds=seconds, quick=options.quick, seed=seed, out=options.out,
            only=tuple(options.only.split(",")) if options.only else (),
        )  # fmt: skip
        if options.input is not None:
            return session.repeat(plan, options.input)
        print(f"seed {seed}, {seconds:g} s for each target and method", flush=True)
        for tally in session.run(plan):
            tallies.append(tally)
            print(report.line(tally), flush=True)
            for said in session.kept(plan, tally):
                print(f"  VIOLATION {said}", flush=True)
    except SetupError as error:
        print(f"steelyard-loadtest fuzz: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        status = INTERRUPTED
    try:
        _keep(options, tallies, seed, seconds)
    except (OSError, ValueError) as error:  # the page is not there, or has no marks
        print(f"steelyard-loadtest fuzz: nothing is written: {error}", file=sys.stderr)
        status = status or 1
    print(report.summary(tallies))
    return status or int(any(tally.violations for tally in tallies))


def _keep(options: argparse.Namespace, tallies: list[Tally], seed: int, seconds: float) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"seed": seed, "seconds": seconds, "tallies": [asdict(tally) for tally in tallies]}
    (options.out / "fuzz.json").write_text(json.dumps(document, indent=1, default=repr), encoding="utf-8")
    conditions = f"{seconds:g} s for each target and method, seed {seed}."
    text = report.page(tallies, conditions=conditions)
    (options.out / "fuzz.md").write_text(text, encoding="utf-8")
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(filled(page, "fuzz", text), encoding="utf-8")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError("give seconds within 0.1..86400")
    return seconds
