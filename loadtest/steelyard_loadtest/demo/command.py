"""`steelyard-loadtest demo`: the command line, and the order in which things are done."""

import argparse
import platform
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from steelyard_loadtest.demo import reach
from steelyard_loadtest.demo.phase_figures import finding, summary, table, thirds
from steelyard_loadtest.demo.phase_run import Run
from steelyard_loadtest.demo.records import Phase, Plan, capacity, target_rate, users_for
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.reporting.exit_status import INTERRUPTED
from steelyard_loadtest.reporting.flags import Subparsers, named_urls, number, url, whole
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.result_files import write_json, write_text

QUIET_S = 3  # between phases: queues drain, weights and utilization settle


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand `demo`."""
    parser = subparsers.add_parser(
        "demo", help="load the running cluster, burn a server's CPU in the middle third, plot what happened"
    )
    flag = parser.add_argument
    # Thirds of at least 2 s.
    flag("--seconds", type=whole(6, 3600, "seconds"), default=60, help="each phase's length (%(default)s)")
    rate = number(1, 20_000, "requests per second")
    flag("--rate", type=rate, help="requests per second (default: 60 %% of what the servers can do)")
    users = whole(1, 5000, "users")
    flag("--users", type=users, help="locust users who share the rate (default: rate / 2)")
    flag("--out", type=Path, default=Path("demo-results"), help="folder for results (%(default)s)")
    flag("--base-url", type=url, default="http://127.0.0.1:8080", help="load balancer (%(default)s)")
    flag("--controller-url", type=url, default="http://127.0.0.1:8081", help="controller (%(default)s)")
    flag("--upstream", default="web", help="the upstream's name (%(default)s)")
    flag("--burn", default="server-1", help="the server whose CPU is burnt (%(default)s)")
    known = "the servers (default: the controller's peers)"
    flag("--servers", type=named_urls, metavar="NAME=URL,...", help=known)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the demo; 0, 1 (cluster not as it must be, one line on stderr) or 130 (Ctrl-C, results kept)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop is a stop: keep what was measured
    phases: list[Phase] = []
    ended_by: BaseException | None = None
    conditions: dict[str, object] = {}
    weights_url = f"{options.controller_url}/v1/upstreams/{options.upstream}"
    servers: tuple[str, ...] = ()
    try:
        steelyard = _plan(options, weights_url, conditions)
        servers = steelyard.servers
        equal = replace(steelyard, name="equal", title="Equal static weights", path="/equal/", static=True)
        for plan, left in ((steelyard, 1), (equal, 0)):
            with Progress(sys.stderr) as progress:
                current = Run(
                    plan=plan, base_url=options.base_url, weights_url=weights_url, folder=options.out,
                    progress=progress, phases_left=left,
                )  # fmt: skip
                phase = current.run()
            if phase is not None and phase.sent:
                phases.append(_as_static(phase, servers) if plan.static else phase)
            ended_by = current.ended_by
            if ended_by is not None:
                break
            if left:
                time.sleep(QUIET_S)
    except (ProgramError, KeyboardInterrupt) as error:
        ended_by = error
    if phases:
        _publish(options, phases, servers, conditions)
    if isinstance(ended_by, KeyboardInterrupt):
        print("interrupted" + (": the figures go as far as it went" if phases else ""), file=sys.stderr)
        return INTERRUPTED
    if ended_by is not None:
        print(f"steelyard-loadtest demo: {ended_by}", file=sys.stderr)
        return 1
    return 0


def _plan(options: argparse.Namespace, weights_url: str, conditions: dict[str, object]) -> Plan:
    """Look whether the cluster is up, fit the load to it, note the conditions. Raises ProgramError."""
    reach.must("GET", f"{options.base_url}/", "the load balancer")
    reach.must("GET", f"{options.base_url}/equal/", "the load balancer")
    servers = options.servers or reach.servers_of(weights_url)
    if options.burn not in servers:
        raise ProgramError(f"--burn {options.burn}: no such server; there are {', '.join(sorted(servers))}")
    for name, address in servers.items():
        reach.stop_burning(address)
        reach.must("GET", f"{address}/healthz", name)
    conditions["burned"] = options.burn
    conditions["machine"] = {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": psutil.cpu_count(),
    }
    rate = options.rate
    if rate is None:
        with Progress(sys.stderr) as progress:
            progress.show("measuring what a request costs")
            costs = {name: reach.measure_cost(name, address) for name, address in servers.items()}
        rate = target_rate(list(costs.values()))
        conditions["capacity_requests_per_s"] = round(capacity(costs.values()), 1)
        conditions["cpu_ms_per_request"] = {
            name: round(cost.cpu_s_per_request * 1000, 3) for name, cost in costs.items()
        }
    users = options.users or users_for(rate)
    conditions |= {"rate_per_s": rate, "users": users}
    options.out.mkdir(parents=True, exist_ok=True)
    return Plan(
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


def _publish(
    options: argparse.Namespace,
    phases: list[Phase],
    servers: Sequence[str],
    conditions: dict[str, object],
) -> None:
    from steelyard_loadtest.demo.plot import plot  # matplotlib takes a second that --help need not wait for

    out = options.out
    rows = {phase.name: thirds(phase, servers) for phase in phases}
    lines = [table({phase.title: rows[phase.name] for phase in phases}, servers), ""]
    lines += [f"{phase.title}: {finding(rows[phase.name], options.burn)}" for phase in phases]
    text = "\n".join(lines)
    print(text)
    write_text(out / "demo.txt", f"{text}\n")
    write_json(out / "demo.json", summary(conditions, phases, rows))
    plot(out / "demo.png", phases, servers, options.burn)
    print(f"\n{out}/demo.png (plot), demo.txt (this), demo.json (figures), locust-*/requests.csv")


def _as_static(phase: Phase, servers: Sequence[str]) -> Phase:
    """Replace the controller's weights, which this load did not follow, by those it did: all equal."""
    observed = tuple(replace(entry, weight_share=1 / len(servers)) for entry in phase.observed)
    return replace(phase, observed=observed)
