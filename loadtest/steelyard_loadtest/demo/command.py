"""`steelyard-loadtest demo`: a comparison on servers that already run; trials, tables and plot are compare's.

A running cluster takes the place of the rig's servers and balancer: nothing is started or ended.
"""

import argparse
import platform
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from steelyard_loadtest.cluster.command import add_cluster_flags, cluster_of
from steelyard_loadtest.cluster.parts import HOST
from steelyard_loadtest.cluster.plan import Cluster
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.find_programs import find
from steelyard_loadtest.machine.http_ask import why_not_ok
from steelyard_loadtest.measurements.trials import Results, Trial
from steelyard_loadtest.reporting.conditions import conditions, version_of
from steelyard_loadtest.reporting.exit_status import INTERRUPTED, exit_status
from steelyard_loadtest.reporting.flags import Subparsers, whole
from steelyard_loadtest.reporting.markdown import bullets, document, image
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.counters import Counters
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.algorithms import BY_NAME, named
from steelyard_loadtest.scenario.definition import Event, Load, Scenario, Server
from steelyard_loadtest.trial import RunningSetup, measure

TARGET_UTILIZATION = 0.6
"""Busy enough that a wrong weight hurts; the other servers can still carry a burnt server's part."""

BURNT = "server-1"

PATHS = {"nginx-rr": "/equal/"}
"""Path at which the cluster's nginx balances without Steelyard."""


def scenario_of(cluster: Cluster, seconds: int) -> Scenario:
    """Return the demo: a load of this length, in whose middle third one server's CPU is burnt."""
    third_s = seconds / 3
    return Scenario(
        name="demo",
        title="A neighbour takes a server's CPU for a while",
        what="",
        source="our own",
        servers=tuple(Server(name=one.name, cpu_cores=one.cpu_limit) for one in cluster.servers),
        load=Load(
            generator="open", levels=(TARGET_UTILIZATION,), of_capacity=True,
            seconds=seconds, repeats=1, warm_up_s=3.0,
        ),
        events=(Event(at_s=third_s, do="burn", server=BURNT, for_s=third_s),),
        algorithms=(named(f"steelyard-{cluster.law}-vnswrr2").name, *PATHS),
        quick=False,
    )  # fmt: skip


class RunningServers(Servers):
    """The servers of a cluster, which go on running."""

    at_one_address = True

    def __init__(self, scenario: Scenario, cluster: Cluster) -> None:
        self._cluster = cluster
        place = Place(
            folder=cluster.run_dir,
            checkout=cluster.checkout,
            programs=find(None),
            memcached_port=cluster.memcached_port,
            balancer_port=cluster.lb_port,
            server_ports=tuple(server.port for server in cluster.servers),
        )
        super().__init__(scenario, place)

    def __enter__(self) -> Self:
        """Check that everything is up, and end burners. Raises SetupError."""
        doors = {"the load balancer": self._cluster.lb_port}
        doors |= {server.name: server.port for server in self._cluster.servers}
        for name, port in doors.items():
            if why := why_not_ok(HOST, port, "/"):
                raise SetupError(f"{name} is not well ({why}); start the cluster: make up")
        try:
            self._counters = [Counters(files) for files in self._files.values()]
        except OSError as error:
            raise SetupError(f"{error}; restart the cluster: make down up") from None
        self.rest()
        return self

    def setup(self, algorithm: str, rate_per_s: float, folder: Path) -> RunningSetup:
        """Return the input of `trial.measure`; the load's own files go to `folder`."""
        scenario = replace(self._scenario, path=PATHS.get(algorithm, "/"))
        place = replace(self._place, folder=folder)
        # The process is the cluster's, so only the address counts here.
        balancer = Balancer(BY_NAME["direct"], scenario, self.addresses, place)
        balancer.urls = [f"http://{HOST}:{place.balancer_port}"]
        rates = {TARGET_UTILIZATION: rate_per_s}
        return RunningSetup(scenario=scenario, place=place, servers=self, balancer=balancer, rates=rates)


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand `demo`."""
    parser = subparsers.add_parser(
        "demo", help="load the running cluster, burn a server's CPU in the middle third, plot what happened"
    )
    flag = parser.add_argument
    # Thirds of at least 2 s.
    flag(
        "--seconds",
        type=whole(6, 3600, "seconds"),
        default=60,
        help="length of each load (default %(default)s)",
    )
    flag("--out", type=Path, default=Path("demo-results"), help="folder for results (default %(default)s)")
    add_cluster_flags(parser)
    parser.set_defaults(run=partial(exit_status, "demo", _run))


def _run(options: argparse.Namespace) -> int:
    """Run the demo; 0, 1 (the cluster is not ready: see stderr) or 130 (Ctrl-C, results kept)."""
    cluster = cluster_of(options)
    scenario = scenario_of(cluster, options.seconds)
    known = conditions(
        sys.argv[1:], {"nginx": version_of(["nginx", "-v"]), "Python": platform.python_version()}
    )
    results = Results(scenarios=(scenario,))
    try:
        known["Load"] = _measure(cluster, options.out, results)
    except KeyboardInterrupt:
        results.interrupted = True
        print("interrupted: the page has the figures so far", file=sys.stderr)
    if results.measured:
        results.conditions = known
        _publish(options.out, results)
    return INTERRUPTED if results.interrupted else 0


def _measure(cluster: Cluster, out: Path, results: Results) -> str:
    """Load the cluster once by each algorithm; return the load in words. Raises SetupError, ProgramError."""
    (scenario,) = results.scenarios
    seconds = scenario.load.seconds * len(scenario.algorithms)
    with (
        RunningServers(scenario, cluster) as servers,
        Progress(sys.stderr, steps=len(scenario.algorithms), expected_s=seconds) as progress,
    ):
        progress.say(f"Look on: http://127.0.0.1:{cluster.api_port}/")
        capacity = servers.capacity(scenario.path)
        rate_per_s = round(capacity.per_s * TARGET_UTILIZATION)
        text = f"{rate_per_s} requests/s, with a capacity of {capacity}"
        progress.say(text)
        for name in scenario.algorithms:
            progress.begin(BY_NAME[name].title)
            setup = servers.setup(name, rate_per_s, out / "load")
            trial = Trial(scenario=scenario.name, algorithm=name, level=TARGET_UTILIZATION, repeat=1)
            entry = measure(setup, trial, first=True)
            results.measured.append(entry)
            progress.end(f"{entry.outcome.requests} requests, {entry.outcome.failures} failed")
    return text


def _publish(out: Path, results: Results) -> None:
    # matplotlib takes a second that --help need not wait for
    from steelyard_loadtest.compare.page.document import blocks, titled
    from steelyard_loadtest.compare.page.plots.over_time import draw_over_time
    from steelyard_loadtest.compare.page.view import views
    from steelyard_loadtest.compare.page.write import write_csv

    (view,) = views(results)
    tables = document(*map(titled, blocks(view)))
    print(tables)
    plot = out / "demo.png"
    draw_over_time(plot, view, headline=view.scenario.title)
    shown = image("shares, CPU utilization and p99 over time", plot.name)
    page = document(f"# {view.scenario.title}", bullets(results.conditions), shown, tables)
    files = [plot, write_text(out / "demo.md", page), *write_csv(out, results)]
    print(", ".join(map(str, files)))
