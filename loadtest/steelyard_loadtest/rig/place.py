"""The place of a comparison: its folder, programs, ports, and each server's files and daemons. Pure."""

from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import HOST, Part
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.scenario.definition import Server

CALLS_PER_DISK_OPERATION = 9
"""Read and write calls of a demo server for one `/io` while its disk is the bottleneck. They are counted in
/proc/PID/io: 4 of the file, 5 of the connection and of the waiting thread. An agent in the process scope
counts these calls. With this capacity it reads the disk's utilization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder for configurations and logs, the installed programs, and TCP ports on 127.0.0.1 (0: unused).

    api_port              the controller's; without one the servers are in a balancer's configuration, or in a
                          published table
    follow_port           where HAProxy or Envoy asks it
    orca_port             where agents stream load reports to Envoy, at their servers' addresses
    server_ports          one for each server of the scenario, in its order
    more_balancer_ports   for an algorithm of several balancers, and the last one for one beside it
    """

    folder: Path
    checkout: Path
    programs: Programs
    memcached_port: int
    balancer_port: int
    redis_port: int = 0
    api_port: int = 0
    follow_port: int = 0
    orca_port: int = 0
    server_ports: tuple[int, ...] = ()
    more_balancer_ports: tuple[int, ...] = ()


class Files:
    """The files of one server and its agent, in a folder shared by all.

    pid: the server's process id. count: the number of requests that it answered. orca: the agent's newest
    load report. agent_config: the agent's settings that are not flags.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.pid, self.count, self.orca = (folder / f"{name}.{kind}" for kind in ("pid", "count", "orca"))
        self.agent_config = folder / f"{name}-agent.toml"
        self.server_log, self.agent_log = folder / f"{name}.log", folder / f"{name}-agent.log"


def server_part(server: Server, address: str, files: Files) -> Part:
    """Return a demo server."""
    host, port = address.split(":")
    return parts.server(
        server.name,
        int(port),
        pid_file=files.pid,
        host=host,
        count_file=files.count,
        orca_file=files.orca,
        cpu_limit=server.cpu_cores,
        limit_by="pauses" if server.paced else None,
        delay_ms=server.delay_ms or None,
        disk_ops=server.disk_ops_per_s,
        workers=server.workers,
    )


def agent_config(server: Server, address: str, *, streams: bool) -> str:
    """Return the TOML file of an agent: the server's pool of workers; its rate, if the agent streams it."""
    metrics = f'prometheus = "http://{address}/metrics"\n'
    workers = (
        f'[[indicator]]\nname = "workers"\n{metrics}metric = "demo_workers_busy"\nlimit = "demo_workers"\n'
    )
    rate = f'[rps_fractional]\n{metrics}metric = "demo_requests_total"\n'
    return (workers if server.workers else "") + (rate if streams else "")


def agent_part(
    server: Server, address: str, files: Files, *, memcached_port: int, orca_port: int = 0
) -> Part:
    """Return a server's agent. orca_port: where it streams load reports, at the server's address."""
    host = address.split(":")[0]
    calls_per_s = None if server.disk_ops_per_s is None else server.disk_ops_per_s * CALLS_PER_DISK_OPERATION
    return parts.agent(
        server.name,
        memcached=f"{HOST}:{memcached_port}",
        pid_file=files.pid,
        orca=files.orca,
        orca_grpc=f"{host}:{orca_port}" if orca_port else None,
        config=files.agent_config if server.workers or orca_port else None,
        # The agent reads a limit that changes by itself, as the quota of the server's control group.
        cpu_limit=None if server.moves else server.cpu_cores,
        io_capacity=calls_per_s,
    )
