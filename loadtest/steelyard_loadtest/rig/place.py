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
    server_ports          one for each server of the scenario, in its order
    more_balancer_ports   for an algorithm of several balancers
    """

    folder: Path
    checkout: Path
    programs: Programs
    memcached_port: int
    balancer_port: int
    redis_port: int = 0
    api_port: int = 0
    follow_port: int = 0
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


def server_part(server: Server, port: int, files: Files) -> Part:
    """Return a demo server."""
    return parts.server(
        server.name,
        port,
        pid_file=files.pid,
        host=HOST,
        count_file=files.count,
        orca_file=files.orca,
        cpu_limit=server.cpu_cores,
        delay_ms=server.delay_ms or None,
        disk_ops=server.disk_ops_per_s,
        workers=server.workers,
    )


def agent_config(port: int) -> str:
    """Return the TOML file of an agent that reads the pool of workers of the server at this port."""
    return (
        '[[indicator]]\nname = "workers"\n'
        f'prometheus = "http://{HOST}:{port}/metrics"\n'
        'metric = "demo_workers_busy"\nlimit = "demo_workers"\n'
    )


def agent_part(server: Server, memcached_port: int, files: Files) -> Part:
    """Return a server's agent."""
    calls_per_s = None if server.disk_ops_per_s is None else server.disk_ops_per_s * CALLS_PER_DISK_OPERATION
    return parts.agent(
        server.name,
        memcached=f"{HOST}:{memcached_port}",
        pid_file=files.pid,
        orca=files.orca,
        config=files.agent_config if server.workers else None,
        # The agent reads a limit that drifts by itself, as the quota of the server's control group.
        cpu_limit=None if server.drift else server.cpu_cores,
        io_capacity=calls_per_s,
    )
