"""`steelyard-loadtest soak`: the command line, and what is done with the figures."""

import argparse
import signal
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard_loadtest.lab.conditions import conditions
from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.found import find
from steelyard_loadtest.marked_page import filled
from steelyard_loadtest.soak import files, table
from steelyard_loadtest.soak.bounds import kind
from steelyard_loadtest.soak.growth import Growth
from steelyard_loadtest.soak.plan import LEAST_S, MOST_S, Plan
from steelyard_loadtest.soak.progress import Progress, describe
from steelyard_loadtest.soak.records import Reading, Soaked
from steelyard_loadtest.soak.session import Session
from steelyard_loadtest.soak.verdict import judge, newest_growth

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

INTERRUPTED = 130  # the shell's status for Ctrl-C
MARKS = "soak"
PICTURE = "soak.png"
PLOTS = "plots"


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `soak`."""
    parser = subparsers.add_parser(
        "soak", help="constant load and churn for half an hour: does anything leak? (needs root)"
    )
    flag = parser.add_argument
    flag("--seconds", type=_seconds, default=1800.0, help=f"length, {LEAST_S:g} to {MOST_S:g} (%(default)g)")
    flag("--rate", type=_rate, default=200.0, help="requests per second (%(default)g)")
    flag("--out", type=Path, default=Path("soak-results"), help="folder (%(default)s)")
    flag("--page", type=Path, help="also write the report between the marks of this page, the plot beside it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; 0, 1 (something leaked or failed, or it could not run) or 130 (Ctrl-C, figures kept)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop is a stop: keep what was measured
    plan = Plan(seconds=options.seconds, rate_per_s=options.rate)
    try:
        if options.page:
            filled(options.page.read_text(encoding="utf-8"), MARKS, "")  # better now than in half an hour
        where = network.enter(sys.argv[1:], mounts=True)
        about = conditions(sys.argv[1:], find(None), where)
        progress = Progress(sys.stderr)
        with tempfile.TemporaryDirectory(prefix="steelyard-soak-") as folder:
            soaked = Session(plan, Path(folder), lambda seen: _tell(progress, seen, plan)).run()
        progress.done()
    except (SetupError, ProgramError, OSError, ValueError) as error:
        print(f"steelyard-loadtest soak: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED  # nothing was measured yet
    if not soaked.readings:
        return INTERRUPTED
    passed = _report(options, plan, soaked, about)
    if soaked.interrupted:
        print("interrupted: the figures go as far as it went", file=sys.stderr)
        return INTERRUPTED
    return 0 if passed else 1


def _tell(progress: Progress, seen: Soaked, plan: Plan) -> None:
    at_s = seen.overviews[-1].at_s
    if progress.due(at_s):
        progress.say(describe(seen, _grown(seen, plan)))


def _grown(seen: Soaked, plan: Plan) -> dict[str, Growth]:
    lives: dict[tuple[str, int], list[Reading]] = defaultdict(list)
    for reading in seen.readings:
        if kind(reading.process) is not None:
            lives[reading.process, reading.pid].append(reading)
    found = {f"{name} ({pid})": newest_growth(life, plan) for (name, pid), life in lives.items()}
    return {name: growth for name, growth in found.items() if growth is not None}


def _report(options: argparse.Namespace, plan: Plan, soaked: Soaked, about: dict[str, str]) -> bool:
    """Print the report; write it, the readings and the plot; say whether all is well."""
    from steelyard_loadtest.soak.plot import plot  # matplotlib takes a second that --help need not wait

    verdict = judge(soaked, plan)
    options.out.mkdir(parents=True, exist_ok=True)
    files.write(options.out, soaked)
    plot(options.out / PICTURE, soaked)
    text = table.report(soaked, verdict, plan, about, PICTURE)
    (options.out / "soak.md").write_text(text, encoding="utf-8")
    print(table.report(soaked, verdict, plan, about, None))
    print(f"{options.out}: soak.md (this), {files.SAMPLES} and {files.OVERVIEW} (every reading), {PICTURE}")
    if options.page:
        page: Path = options.page
        folder = page.parent / PLOTS / page.stem
        folder.mkdir(parents=True, exist_ok=True)
        shown = table.report(soaked, verdict, plan, about, f"{PLOTS}/{page.stem}/{PICTURE}")
        page.write_text(filled(page.read_text(encoding="utf-8"), MARKS, shown), encoding="utf-8")
        plot(folder / PICTURE, soaked)
    return verdict.passed


def _seconds(text: str) -> float:
    seconds = float(text)
    if not LEAST_S <= seconds <= MOST_S:
        raise argparse.ArgumentTypeError(f"must be {LEAST_S:g} to {MOST_S:g}: a shorter one tells nothing")
    return seconds


def _rate(text: str) -> float:
    rate = float(text)
    if not 1 <= rate <= 5000:
        raise argparse.ArgumentTypeError(
            "must be 1 to 5000 requests per second, which one generator can make"
        )
    return rate
