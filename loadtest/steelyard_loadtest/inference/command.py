"""`compare inference`: what it takes, and what it leaves (I/O)."""

import argparse
import sys
from pathlib import Path

from steelyard_loadtest.inference import session
from steelyard_loadtest.inference.contenders import BY_NAME, scenario
from steelyard_loadtest.inference.page import page
from steelyard_loadtest.machine import find_programs, network
from steelyard_loadtest.reporting.conditions import conditions
from steelyard_loadtest.reporting.flags import names
from steelyard_loadtest.reporting.publish import check_page, fill_page, write_page

MARKS = "inference"


def run(options: argparse.Namespace) -> None:
    """Compare. Raises SetupError, OSError, ValueError."""
    check_page(options.page, MARKS)
    contenders = names(BY_NAME)(options.only) if options.only else tuple(BY_NAME.values())
    wanted = scenario(tuple(one.name for one in contenders), quick=options.quick)
    programs = find_programs.find(options.nginx)
    where = network.enter(sys.argv[1:])
    network.raise_files()
    told = conditions(sys.argv[1:], programs.versions, on_machine=[where])
    out = options.out or Path("loadtest-results") / ("inference-quick" if options.quick else "inference")
    runs, missing = session.run(wanted, options.trace, out, programs)
    asked = f"`{options.trace.name}`" if options.trace else "conversations as Mooncake's, generated"
    document = page(runs, missing, told, asked)
    print("\n".join(map(str, write_page(document, out))))
    fill_page(document, options.page, MARKS, prefix="inference-")
