"""`steelyard-loadtest demo`: the command line, and the order in which things are done."""

import argparse
import platform
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from steelyard_loadtest.demo import arguments, files, reach
from steelyard_loadtest.demo.aggregate import thirds
from steelyard_loadtest.demo.measure import Run
from steelyard_loadtest.demo.options import Options, Plan
from steelyard_loadtest.demo.progress import Progress
from steelyard_loadtest.demo.rate import capacity, target_rate, users_for
from steelyard_loadtest.demo.reach import ClusterError
from steelyard_loadtest.demo.records import Observed, Phase
from steelyard_loadtest.demo.table import finding, table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

QUIET_S = 3  # between phases: queues drain, weights and utilization settle
INTERRUPTED = 130  # the shell's status for Ctrl-C


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `demo`."""
    parser = subparsers.add_parser(
        "demo", help="load the running cluster, burn a server's CPU in the middle third, plot what happened"
    )
    parser.add_argument(
        "--seconds", type=arguments.seconds, default=60, help="length of each of the two phases (%(default)s)"
    )
    parser.add_argument(
        "--rate", type=arguments.rate, help="requests per second (default: 60 %% of what the servers can do)"
    )
    parser.add_argument(
        "--users", type=arguments.users, help="locust users who share the rate (default: rate / 2)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo-results"), help="folder for results (%(default)s)"
    )
    parser.add_argument(
        "--base-url", type=arguments.url, default="http://127.0.0.1:8080", help="load balancer (%(default)s)"
    )
    parser.add_argument(
        "--controller-url",
        type=arguments.url,
        default="http://127.0.0.1:8081",
        help="controller (%(default)s)",
    )
    parser.add_argument("--upstream", default="web", help="the upstream's name (%(default)s)")
    parser.add_argument("--burn", default="server-1", help="the server whose CPU is burnt (%(default)s)")
    parser.add_argument(
        "--servers",
        type=arguments.servers,
        metavar="NAME=URL,...",
        help="the servers (default: the controller's peers)",
    )
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Run the demo; 0, 1 (cluster not as it must be, one line on stderr) or 130 (Ctrl-C, results kept)."""
    options = Options(
        **{name: getattr(namespace, name) for name in Options.__dataclass_fields__}  # the flags' own names
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop is a stop: keep what was measured
    progress = Progress(sys.stderr, phases=2)
    phases: list[Phase] = []
    ended_by: BaseException | None = None
    servers: tuple[str, ...] = ()
    conditions: dict[str, object] = {}
    try:
        plans, conditions = prepare(options, progress)
        servers = plans[0].servers
        for plan in plans:
            progress.begin_phase()
            current = Run(plan, options.base_url, options.weights_url, options.out, progress)
            phase = current.run()
            if phase is not None and phase.sent:
                phases.append(_as_static(phase, servers) if plan.static else phase)
            ended_by = current.ended_by
            if ended_by is not None:
                break
            if plan is not plans[-1]:
                time.sleep(QUIET_S)
    except (ClusterError, KeyboardInterrupt) as error:
        ended_by = error
    progress.done()
    if phases:
        report(options, phases, servers, conditions)
    if isinstance(ended_by, KeyboardInterrupt):
        print("interrupted" + (": the figures go as far as it went" if phases else ""), file=sys.stderr)
        return INTERRUPTED
    if ended_by is not None:
        print(f"steelyard-loadtest demo: {ended_by}", file=sys.stderr)
        return 1
    return 0


def prepare(options: Options, progress: Progress) -> tuple[list[Plan], dict[str, object]]:
    """Look whether the cluster is up, fit the load to it, and plan the phases. Raises ClusterError."""
    reach.must("GET", f"{options.base_url}/", "the load balancer")
    reach.must("GET", f"{options.base_url}/equal/", "the load balancer")
    servers = options.servers or reach.servers_of(options.weights_url)
    if options.burn not in servers:
        raise ClusterError(f"--burn {options.burn}: no such server; there are {', '.join(sorted(servers))}")
    for name, url in servers.items():
        reach.stop_burning(url)
        reach.must("GET", f"{url}/healthz", name)
    conditions: dict[str, object] = {"burned": options.burn, "machine": _machine()}
    rate = options.rate
    if rate is None:
        progress.say("measuring what a request costs")
        costs = {name: reach.measure_cost(name, url) for name, url in servers.items()}
        rate = target_rate(list(costs.values()))
        conditions["capacity_requests_per_s"] = round(capacity(list(costs.values())), 1)
        conditions["cpu_ms_per_request"] = {
            name: round(cost.cpu_s_per_request * 1000, 3) for name, cost in costs.items()
        }
    users = options.users or users_for(rate)
    conditions |= {"rate_per_s": rate, "users": users}
    steelyard = Plan(
        name="steelyard",
        title="Steelyard",
        path="/",
        static=False,
        seconds=options.seconds,
        rate=rate,
        users=users,
        burn_url=servers[options.burn],
        servers=tuple(sorted(servers)),
    )
    equal = replace(steelyard, name="equal", title="Equal static weights", path="/equal/", static=True)
    options.out.mkdir(parents=True, exist_ok=True)
    return [steelyard, equal], conditions


def report(
    options: Options, phases: list[Phase], servers: tuple[str, ...], conditions: dict[str, object]
) -> None:
    """Print the table, and write demo.csv, demo.json and demo.png."""
    from steelyard_loadtest.demo.plot import plot  # matplotlib takes a second that --help need not wait for

    rows = {phase.name: thirds(phase, servers) for phase in phases}
    print(table({phase.title: rows[phase.name] for phase in phases}, servers), end="\n\n")
    for phase in phases:
        print(f"{phase.title}: {finding(rows[phase.name], options.burn)}")
    files.write_csv(options.out / "demo.csv", phases, servers)
    files.write_summary(options.out / "demo.json", conditions=conditions, phases=phases, thirds=rows)
    plot(options.out / "demo.png", phases, servers, options.burn)
    print(
        f"\n{options.out}/demo.png (plot), demo.csv (figures), demo.json (summary), requests-*.csv (requests)"
    )


def _as_static(phase: Phase, servers: tuple[str, ...]) -> Phase:
    """Replace the controller's weights, which this load did not follow, by those it did: all equal."""
    equal = 1 / len(servers)
    observed: tuple[Observed, ...] = tuple(replace(entry, weight_share=equal) for entry in phase.observed)
    return replace(phase, observed=observed)


def _machine() -> dict[str, object]:
    return {"system": platform.platform(), "python": platform.python_version(), "cores": psutil.cpu_count()}
