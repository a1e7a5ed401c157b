"""`steelyard-loadtest dataplane`: the command line, and what is done with the figures."""

import argparse
import os
import platform
import re
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from steelyard_loadtest.dataplane import arguments, files, session, summary, table
from steelyard_loadtest.dataplane.contenders import CONTENDERS
from steelyard_loadtest.dataplane.verdict import verdicts
from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.found import Found, find
from steelyard_loadtest.marked_page import filled

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

INTERRUPTED = 130  # the shell's status for Ctrl-C
# Numbers of servers, rounds, and seconds of a measurement.
FULL = ((3, 100, 500, 2000), 5, 4)
QUICK = ((3, 2000), 3, 2)


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `dataplane`."""
    parser = subparsers.add_parser(
        "dataplane", help="what a proxied request costs: ours beside nginx, HAProxy and Envoy, in one run"
    )
    flag = parser.add_argument
    flag("--quick", action="store_true", help="3 and 2000 servers, 3 rounds of 2 s: a first look")
    flag("--peers", type=arguments.peer_counts, metavar="N,...", help="servers (3,100,500,2000)")
    flag("--rounds", type=arguments.rounds, help="rounds, alternated; 0 leaves this part out (5)")
    flag("--seconds", type=arguments.seconds, help="length of one measurement (4)")
    flag("--connections", type=arguments.connections, default=64, help="wrk's (%(default)s)")
    flag(
        "--only",
        type=arguments.contenders,
        default=CONTENDERS,
        metavar="NAME,...",
        help=f"of {', '.join(contender.name for contender in CONTENDERS)}",
    )
    flag("--reweigh", action="store_true", help="also: p99 before and after a change of all 2000 weights")
    flag("--nginx", metavar="PATH", help="measure this nginx (OpenResty's, Tengine's)")
    flag("--out", type=Path, default=Path("bench-results/dataplane"), help="folder (%(default)s)")
    flag("--page", type=Path, help="also write the report between the marks of this page, the plot beside it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; 0, 1 (it could not, or requests failed: see stderr) or 130 (Ctrl-C, figures kept)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop is a stop: keep what was measured
    try:
        found = find(options.nginx)
        if found.wrk is None:
            raise SetupError("wrk is not installed; it makes the load: apt-get install wrk")
        if options.page:
            filled(options.page.read_text(encoding="utf-8"), "measured", "")  # better now than then
        where = network.enter(sys.argv[1:])
        conditions = _conditions(found, where)
        with tempfile.TemporaryDirectory(prefix="steelyard-dataplane-") as folder:
            results = session.run(_plan(options), found, Path(folder))
    except (SetupError, OSError, ValueError) as error:
        print(f"steelyard-loadtest dataplane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED  # nothing was measured yet
    if results.measured or results.reweighed:
        _report(options, conditions, results)
    if results.interrupted:
        print("interrupted: the figures go as far as it went", file=sys.stderr)
        return INTERRUPTED
    if results.failed:
        print(f"{results.failed} requests failed; none may", file=sys.stderr)
    return 0 if (results.measured or results.reweighed) and not results.failed else 1


def _plan(options: argparse.Namespace) -> session.Plan:
    peers, rounds, seconds = QUICK if options.quick else FULL
    rounds = rounds if options.rounds is None else options.rounds
    return session.Plan(
        contenders=options.only,
        peers=options.peers or peers,
        rounds=rounds,
        seconds=options.seconds or seconds,
        connections=options.connections,
        reweigh_rounds=max(1, rounds) if options.reweigh else 0,
    )


def _conditions(found: Found, where: str) -> dict[str, str]:
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    cores = f"{psutil.cpu_count()} × {model[1] if model else platform.machine()}"
    return {
        "Command": f"`steelyard-loadtest {shlex.join(sys.argv[1:])}`",
        "Machine": f"{cores}, {platform.system()} {platform.release()}, {where}",
        # Above a few tenths, somebody else was at work.
        "Load average before": f"{os.getloadavg()[0]:.1f}",
        "Versions": ", ".join(f"{name} {version}" for name, version in found.versions.items()),
    }


def _report(options: argparse.Namespace, conditions: dict[str, str], results: session.Results) -> None:
    """Print the report; write it, the rounds and the plot."""
    from steelyard_loadtest.dataplane.plot import plot  # matplotlib takes a second that --help need not wait

    order = [contender.name for contender in CONTENDERS]
    rows = summary.rows(results.measured, order)
    changes = summary.changes(results.reweighed, order)

    def report(picture: str | None) -> str:
        return table.report(
            conditions=conditions,
            rows=rows,
            changes=changes,
            verdicts=verdicts(rows, changes),
            missing=results.missing,
            plot=picture,
        )

    options.out.mkdir(parents=True, exist_ok=True)
    files.write_rounds(options.out / "dataplane.csv", results.measured)
    files.write_changes(options.out / "reweigh.csv", results.reweighed)
    picture = "dataplane.png" if any(row.cpu_us for row in rows) else None
    if picture:
        plot(options.out / picture, rows)
    (options.out / "dataplane.md").write_text(report(picture), encoding="utf-8")
    print(report(None))
    print(f"{options.out}: dataplane.md (this), dataplane.csv and reweigh.csv (every round), dataplane.png")
    if options.page:
        shown = f"plots/{picture}" if picture else None
        options.page.write_text(
            filled(options.page.read_text(encoding="utf-8"), "measured", report(shown)), encoding="utf-8"
        )
        if picture:
            plot(options.page.parent / "plots" / picture, rows)
