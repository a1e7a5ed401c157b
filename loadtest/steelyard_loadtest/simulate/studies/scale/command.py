"""`steelyard-loadtest simulate scale`: the command line, and what is done with the figures."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.marked_page import filled
from steelyard_loadtest.simulate.parallel import processes
from steelyard_loadtest.simulate.studies import arguments
from steelyard_loadtest.simulate.studies.scale import controller_cpu, figures, grid, messages, report, volume
from steelyard_loadtest.simulate.studies.scale.study import simulated

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

INTERRUPTED = 130  # the shell's status for Ctrl-C
SEEDS, QUICK_SEEDS = 3, 2


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `scale`."""
    parser = subparsers.add_parser(
        "scale",
        help="100 to 10,000 servers, 1 to 256 load balancers: shares, p99, bytes, CPU",
        description="Simulates servers of four speeds, one in a hundred of which changes every tick, behind "
        "many load balancers; and tells what that is in bytes through Memcached and CPU of the controller.",
    )
    parser.add_argument(
        "--servers",
        type=arguments.counts,
        metavar="N,...",
        help=f"numbers of servers ({_listed(grid.SIZES)})",
    )
    parser.add_argument(
        "--load-balancers",
        type=arguments.counts,
        metavar="N,...",
        help=f"numbers of them ({_listed(grid.LOAD_BALANCERS)})",
    )
    arguments.add_common(parser, "scale", SEEDS, f"up to 500 servers, {QUICK_SEEDS} seeds: about a minute")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; 0, 1 (it could not: see stderr) or 130 (Ctrl-C)."""
    sizes, balancers, most_seeds = (
        (grid.QUICK_SIZES, grid.QUICK_LOAD_BALANCERS, QUICK_SEEDS)
        if options.quick
        else (grid.SIZES, grid.LOAD_BALANCERS, SEEDS)
    )
    sizes, balancers = options.servers or sizes, options.load_balancers or balancers
    seeds = options.seeds or most_seeds
    try:
        if options.page:
            filled(options.page.read_text(encoding="utf-8"), "simulate scale", "")  # better now
        cells = grid.cells(sizes, balancers)
        points, speed = simulated(
            cells, seeds=seeds, first_seed=options.seed, jobs=processes(options.jobs), stream=sys.stderr
        )
        # One after the other: two at a time would slow each other down, and be measured so.
        cpu = [controller_cpu.measure(*at) for at in controller_cpu.affordable(sizes, balancers)]
        _report(options, points, [(k, n) for k in sizes for n in balancers], cpu)
    except (SetupError, OSError, ValueError) as error:
        print(f"steelyard-loadtest simulate scale: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    print(speed, file=sys.stderr)
    return 0


def _report(
    options: argparse.Namespace,
    points: list[figures.Point],
    at: list[tuple[int, int]],
    cpu: list[figures.TickCpu],
) -> None:
    from steelyard_loadtest.simulate.studies.scale.curves import draw  # matplotlib takes a second

    command = arguments.command("scale", options)

    def written(picture: str | None) -> str:
        return report.report(points, at, cpu, command, picture)

    def drawn(file: Path) -> None:
        draw(
            file,
            points,
            [(k, n, report.volume_of(k, n).out_of) for k, n in at],
            cpu,
            most_in_a_table=messages.most_servers_in_a_table(),
            tick_ms=1000 * volume.TICK_S,
        )

    print(written(None))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "scale.csv").write_text(report.scale_csv(points, at), encoding="utf-8")
    (options.out / "scale-cpu.csv").write_text(report.cpu_csv(cpu), encoding="utf-8")
    (options.out / "scale.md").write_text(written("scale.png"), encoding="utf-8")
    drawn(options.out / "scale.png")
    print(
        f"{options.out}: scale.md (this), scale.csv, scale-cpu.csv (this machine's), scale.png",
        file=sys.stderr,
    )
    if options.page:
        drawn(options.page.parent / "plots" / "scale.png")
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(filled(page, "simulate scale", written("plots/scale.png")), encoding="utf-8")


def _listed(counts: tuple[int, ...]) -> str:
    return ",".join(str(count) for count in counts)
