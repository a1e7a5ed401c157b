"""`compare inference`: its input and output (I/O)."""

import argparse
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from steelyard_loadtest.inference import session
from steelyard_loadtest.inference.contenders import BY_NAME, scenario
from steelyard_loadtest.inference.page import page
from steelyard_loadtest.machine import find_programs, network
from steelyard_loadtest.reporting.conditions import CONDITIONS, conditions, kept
from steelyard_loadtest.reporting.publish import check_page, fill_page, write_page

MARKS = "inference"
"""Followed by the trace's name: each has its own part of a page."""


def run(options: argparse.Namespace) -> None:
    """Compare. Raises SetupError, OSError, and ValueError for an invalid page, trace or name."""
    name = f"{MARKS}-{options.trace.stem if options.trace else 'generated'}"
    if options.report_only:
        raise ValueError("--report-only is not for inference: the same command measures only what is missing")
    check_page(options.page, name)
    only = tuple(name.strip() for name in options.only.split(",")) if options.only else tuple(BY_NAME)
    if unknown := [name for name in only if name not in BY_NAME]:
        raise ValueError(f"there is no contender {unknown[0]!r}; there are {', '.join(BY_NAME)}")
    wanted = scenario(only, quick=options.quick)
    if options.repeats:
        wanted = replace(wanted, load=replace(wanted.load, repeats=options.repeats))
    programs = find_programs.find(options.nginx)
    where = network.enter(sys.argv[1:])
    network.raise_files()
    setup = conditions(sys.argv[1:], programs.versions, on_machine=[where])
    out = options.out or Path("loadtest-results") / (f"{name}-quick" if options.quick else name)
    if options.again:
        shutil.rmtree(out / session.TRIALS, ignore_errors=True)
        (out / CONDITIONS).unlink(missing_ok=True)
    before = session.measured(wanted, options.trace, out)
    runs, missing = session.run(wanted, options.trace, out, programs)
    asked = f"`{options.trace.name}`" if options.trace else "conversations as Mooncake's, generated"
    document = page(runs, missing, kept(out, setup, new=len(runs) > len(before)), asked)
    print("\n".join(map(str, write_page(document, out))))
    fill_page(document, options.page, name, prefix=f"{name}-")
