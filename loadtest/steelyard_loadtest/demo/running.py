"""A cluster that runs already, as the rig has servers and a balancer: nothing is started or ended (I/O)."""

from dataclasses import replace
from pathlib import Path
from typing import Self

from steelyard_loadtest.cluster.parts import HOST
from steelyard_loadtest.cluster.plan import Cluster
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.http_ask import why_not_ok
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.counters import Counters
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.algorithms import BY_NAME, named
from steelyard_loadtest.scenario.definition import Event, Load, Scenario, Server
from steelyard_loadtest.trial import Visit

TARGET_UTILIZATION = 0.6
"""Busy enough that a wrong weight hurts, and the others can still carry a burnt server's part."""

BURNT = "server-1"

PATHS = {"nginx-rr": "/equal/"}
"""Where the cluster's nginx balances otherwise than by Steelyard."""


def scenario_of(cluster: Cluster, seconds: int) -> Scenario:
    """Return the demo: a load of so many seconds, in whose middle third one server's CPU is burnt."""
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

    def __init__(self, scenario: Scenario, cluster: Cluster, programs: Programs) -> None:
        self._cluster = cluster
        place = Place(
            folder=cluster.run_dir,
            checkout=cluster.checkout,
            programs=programs,
            memcached_port=cluster.memcached_port,
            balancer_port=cluster.lb_port,
            server_ports=tuple(server.port for server in cluster.servers),
        )
        super().__init__(scenario, place)

    def __enter__(self) -> Self:
        """Look whether all is up, and end what burns. Raises SetupError."""
        doors = {"the load balancer": self._cluster.lb_port}
        doors |= {server.name: server.port for server in self._cluster.servers}
        for name, port in doors.items():
            if why := why_not_ok(HOST, port, "/"):
                raise SetupError(f"{name} is not well ({why}); start the cluster: make up")
        try:
            self._counters = [Counters(files) for files in self._files.values()]
        except OSError as error:
            raise SetupError(f"{error}; start the cluster anew: make down up") from None
        self.rest()
        return self

    def visit(self, algorithm: str, rate_per_s: float, folder: Path) -> Visit:
        """Return what `trial.measure` takes; the load's own files go to `folder`."""
        scenario = replace(self._scenario, path=PATHS.get(algorithm, "/"))
        place = replace(self._place, folder=folder)
        # Without a process of its own, which is the cluster's; only its address counts.
        balancer = Balancer(BY_NAME["direct"], scenario, self.addresses, place)
        balancer.urls = [f"http://{HOST}:{place.balancer_port}"]
        rates = {TARGET_UTILIZATION: rate_per_s}
        return Visit(scenario=scenario, place=place, servers=self, balancer=balancer, rates=rates)
