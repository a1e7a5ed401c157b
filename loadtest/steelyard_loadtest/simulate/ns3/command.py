"""`steelyard-loadtest simulate ns3`: the command line, and what is done with the figures."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.marked_page import filled
from steelyard_loadtest.simulate.model import Balancing
from steelyard_loadtest.simulate.ns3 import files, study, summary, table
from steelyard_loadtest.simulate.parallel import mapped, processes
from steelyard_loadtest.simulate.run import run as simulated
from steelyard_loadtest.simulate.studies.arguments import at_least_1

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

INTERRUPTED = 130  # the shell's status for Ctrl-C

# Of a published single run nobody knows the spread; twenty seeds tell it to a few per mille.
SEEDS = 20

ALT = "Latency and the slow server's share of requests, by algorithm"

BY_NAME = {balancing.name: balancing for balancing in study.ALGORITHMS}


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `ns3`."""
    parser = subparsers.add_parser(
        "ns3",
        help="the published ns-3 study of Peak EWMA, again, with ours in the same table",
        description="10 clients, 10 servers (nine answer after 5 ms, one after 50 ms): the latencies of each "
        "algorithm beside those that the ns-3 study published.",
    )
    flag = parser.add_argument
    flag("--json", action="store_true", help="print only a JSON list, one object an algorithm")
    flag("--seeds", type=at_least_1, default=SEEDS, metavar="N", help="runs an algorithm (%(default)s)")
    flag("--seed", type=int, default=1, help="the first seed (%(default)s)")
    flag(
        "--requests",
        type=at_least_1,
        default=study.REQUESTS,
        metavar="N",
        help="requests a client sends (%(default)s)",
    )
    flag(
        "--only",
        type=_names,
        default=tuple(BY_NAME),
        metavar="NAME,...",
        help=f"of {', '.join(BY_NAME)}",
    )
    flag("--jobs", type=at_least_1, metavar="N", help="processes (one a core)")
    flag("--out", type=Path, metavar="DIR", help="also write ns3.csv, ns3.md and ns3.png there")
    flag("--page", type=Path, help="also write the tables between the marks of this page, the plot beside it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; 0, 1 (it could not: see stderr) or 130 (Ctrl-C)."""
    work = [
        (BY_NAME[name], seed, options.requests)
        for name in options.only
        for seed in range(options.seed, options.seed + options.seeds)
    ]
    try:
        if options.page is not None:
            filled(options.page.read_text(encoding="utf-8"), "simulate ns3", "")  # better now
        runs = mapped(_one, work, jobs=processes(options.jobs), title="ns3", stream=sys.stderr)
        _report(options, runs)
    except (SetupError, OSError, ValueError) as error:
        print(f"steelyard-loadtest simulate ns3: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _one(of: tuple[Balancing, int, int]) -> summary.Run:
    balancing, seed, requests = of
    return summary.summed_up(simulated(study.case(balancing, requests), seed))


def _report(options: argparse.Namespace, runs: list[summary.Run]) -> None:
    rows = summary.rows(runs)
    text = table.report(rows, _command(options))
    print(json.dumps(table.objects(rows), indent=1) if options.json else text)
    events, cpu_s = sum(run.events for run in runs), sum(run.cpu_s for run in runs)
    print(f"{events:,} events in {cpu_s:.1f} s of CPU: {events / cpu_s:,.0f} events/s", file=sys.stderr)
    if options.out is not None or options.page is not None:
        # Here, because matplotlib takes a second that nobody else need wait.
        from steelyard_loadtest.simulate.ns3.plot import plot

        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            files.write_runs(options.out / "ns3.csv", runs)
            (options.out / "ns3.md").write_text(f"{text}\n![{ALT}](ns3.png)\n", encoding="utf-8")
            plot(options.out / "ns3.png", rows)
            print(f"{options.out}: ns3.md (the tables), ns3.csv (every run), ns3.png", file=sys.stderr)
        if options.page is not None:
            page = options.page.read_text(encoding="utf-8")
            report = f"{text}\n![{ALT}](plots/ns3.png)\n"
            options.page.write_text(filled(page, "simulate ns3", report), encoding="utf-8")
            plot(options.page.parent / "plots" / "ns3.png", rows)


def _command(options: argparse.Namespace) -> str:
    words = ["steelyard-loadtest simulate ns3", f"--seeds {options.seeds}"]
    if options.seed != 1:
        words.append(f"--seed {options.seed}")
    if options.requests != study.REQUESTS:
        words.append(f"--requests {options.requests}")
    return " ".join(words)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; there are {', '.join(BY_NAME)}")
    return names
