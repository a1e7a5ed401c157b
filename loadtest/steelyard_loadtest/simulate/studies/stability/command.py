"""`steelyard-loadtest simulate stability`: the command line, and what is done with the figures."""

import argparse
import sys
from typing import TYPE_CHECKING

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.marked_page import filled
from steelyard_loadtest.simulate.parallel import processes
from steelyard_loadtest.simulate.studies import arguments
from steelyard_loadtest.simulate.studies.stability.figures import Maps
from steelyard_loadtest.simulate.studies.stability.grid import VARIANTS, map_cells
from steelyard_loadtest.simulate.studies.stability.report import report, stability_csv
from steelyard_loadtest.simulate.studies.stability.study import simulated

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

INTERRUPTED = 130  # the shell's status for Ctrl-C
SEEDS, QUICK_SEEDS = 3, 1


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `stability`."""
    parser = subparsers.add_parser(
        "stability",
        help="maps of where each law settles and where it oscillates, and the defaults' margin",
        description="Simulates five servers, one of which slows down, and maps how far the shares swing when "
        "all should be at rest: over load and delay, over load and mismatch, over gain and interval.",
    )
    arguments.add_common(parser, "stability", SEEDS, "coarse maps, one seed: about a minute")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; 0, 1 (it could not: see stderr) or 130 (Ctrl-C)."""
    seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    try:
        if options.page:
            filled(
                options.page.read_text(encoding="utf-8"), "simulate stability", ""
            )  # better now than in ten minutes
        maps, speed = simulated(
            map_cells(quick=options.quick),
            seeds=seeds,
            first_seed=options.seed,
            jobs=processes(options.jobs),
            stream=sys.stderr,
        )
        _report(options, maps)
    except (SetupError, OSError, ValueError) as error:
        print(f"steelyard-loadtest simulate stability: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    print(speed, file=sys.stderr)
    return 0


def _report(options: argparse.Namespace, maps: Maps) -> None:
    from steelyard_loadtest.simulate.studies.stability.heat_maps import draw  # matplotlib takes a second

    command = arguments.command("stability", options)
    print(report(maps, command, None))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "stability.csv").write_text(stability_csv(maps), encoding="utf-8")
    text = report(maps, command, "stability.png")
    (options.out / "stability.md").write_text(text, encoding="utf-8")
    draw(options.out / "stability.png", maps, VARIANTS)
    print(f"{options.out}: stability.md (this), stability.csv (every point), stability.png", file=sys.stderr)
    if options.page:
        draw(options.page.parent / "plots" / "stability.png", maps, VARIANTS)
        page = options.page.read_text(encoding="utf-8")
        text = report(maps, command, "plots/stability.png")
        options.page.write_text(filled(page, "simulate stability", text), encoding="utf-8")
