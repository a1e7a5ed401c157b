"""`steelyard-loadtest fuzz`: the command line, and the files and the page of a run."""

import argparse
import logging
import random
from functools import partial

from pydantic_core import to_json
from steelyard_loadtest.reporting import flags
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.publish import Page, fill_page, write_page

from steelyard_resilience.fuzz import target
from steelyard_resilience.fuzz.target import Tally

# Some ten minutes in all.
SECONDS = 7.0

QUICK_S = 0.3


def add_parser(subparsers: flags.Subparsers) -> None:
    """Add the subcommand `fuzz`."""
    parser = subparsers.add_parser(
        "fuzz",
        help="malformed input for every decoder and port; nginx in random configurations",
    )
    flag = parser.add_argument
    seconds = flags.number(0.1, 86_400, "seconds")
    flag("--seconds", type=seconds, help=f"time for each target and method (default {SECONDS:g})")
    flag("--quick", action="store_true", help="the short form of CI: less than a minute in all")
    flag("--only", metavar="NAME,...", help="only these targets, by the table's first column (default: all)")
    again = "seed of the inputs, to repeat a run (default: random; printed). The time limit may cut a run off"
    flag("--seed", type=flags.whole(0, 2**32, "seeds"), metavar="N", help=again)
    flags.add_output(parser, "fuzz-results", page="the table")
    parser.set_defaults(run=partial(exit_status, "fuzz", _run))


def _run(options: argparse.Namespace) -> int:
    """Run it; return 0, 1 (a violation, or no run: see stderr) or 130 (Ctrl-C, violations kept)."""
    logging.disable(logging.CRITICAL)  # decoders log each malformed input, and here most are malformed
    from steelyard_resilience.fuzz import session  # imports for a second; --help should not wait

    plan = session.Plan(
        seconds=options.seconds or (QUICK_S if options.quick else SECONDS), out=options.out,
        seed=random.randrange(2**31) if options.seed is None else options.seed,
        only=tuple(options.only.split(",")) if options.only else (),
    )  # fmt: skip
    print(f"seed {plan.seed}, {plan.seconds:g} s for each target and method", flush=True)
    tallies: list[Tally] = []
    status = 0
    try:
        for tally in session.run(plan):
            tallies.append(tally)
            status |= bool(tally.violations)
            print(target.line(tally), flush=True)
            for text in session.kept(plan, tally):
                print(f"  VIOLATION {text}", flush=True)
    except KeyboardInterrupt:
        status = INTERRUPTED
    print(target.summary(tallies))
    figures = {"seed": plan.seed, "seconds": plan.seconds, "tallies": tallies}
    conditions = f"{plan.seconds:g} s for each target and method, seed {plan.seed}."
    written = Page(
        text=lambda _: target.page(tallies, conditions=conditions), plots={},
        files={"fuzz.json": to_json(figures, indent=1, bytes_mode="hex").decode()},
    )  # fmt: skip
    write_page(written, options.out, "fuzz")
    fill_page(written, options.page, "fuzz")
    return status
