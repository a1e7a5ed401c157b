"""How the servers, their agents and their stores are started. Pure."""

import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

from steelyard_loadtest.lab.rig.place import UPSTREAM
from steelyard_loadtest.lab.scenario.model import Server

HOST = "127.0.0.1"

CALLS_PER_DISK_OPERATION = 9
"""Read and write calls of a demo server for one `/io` while its disk is the bottleneck, as counted in
/proc/PID/io: 4 of the file, 5 of the connection and of the thread that waits. An agent in the process scope
counts these calls, so with as many as its capacity it reads the disk's utilization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of one server and its agent, in a folder that they share with the others'."""

    folder: Path
    name: str

    @property
    def pid(self) -> Path:
        """Return the file with the server's process id."""
        return self.folder / f"{self.name}.pid"

    @property
    def count(self) -> Path:
        """Return the file with the number of requests that it answered."""
        return self.folder / f"{self.name}.count"

    @property
    def orca(self) -> Path:
        """Return the file with the agent's newest load report."""
        return self.folder / f"{self.name}.orca"

    @property
    def server_log(self) -> Path:
        """Return the server's log."""
        return self.folder / f"{self.name}.log"

    @property
    def agent_log(self) -> Path:
        """Return its agent's log."""
        return self.folder / f"{self.name}-agent.log"


class _Percent(Template):
    # nginx's own variables begin with a dollar sign.
    delimiter = "%"


def memcached(program: str, port: int, *, root: bool) -> list[str]:
    """Return Memcached's command; as root it wants to be told to be somebody else."""
    return [program, "-l", HOST, "-p", str(port), "-U", "0", "-m", "64", *(["-u", "nobody"] if root else [])]


def redis(program: str, port: int, folder: Path) -> list[str]:
    """Return Redis's command: nothing outlives a comparison."""
    return [
        program, "--bind", HOST, "--port", str(port), "--dir", str(folder),
        "--save", "", "--appendonly", "no", "--daemonize", "no",
    ]  # fmt: skip


def server(server: Server, port: int, files: Files) -> list[str]:
    """Return a demo server's command."""
    command = [
        sys.executable, "-m", "steelyard_loadtest.server", "--name", server.name, "--host", HOST,
        "--port", str(port), "--pid-file", str(files.pid), "--count-file", str(files.count),
        "--orca-file", str(files.orca),
    ]  # fmt: skip
    if server.cpu_cores is not None:
        command += ["--cpu-limit", str(server.cpu_cores), "--limit-by", "auto"]
    if server.delay_ms:
        command += ["--delay-ms", str(server.delay_ms)]
    if server.disk_ops_per_s is not None:
        command += ["--disk-ops", str(server.disk_ops_per_s)]
    return command


def agent(server: Server, memcached_port: int, files: Files) -> list[str]:
    """Return the command of a server's agent."""
    command = [
        sys.executable, "-m", "steelyard_agent", "--upstream", UPSTREAM, "--peer", server.name,
        "--memcached", f"{HOST}:{memcached_port}", "--scope", "process", "--pid-file", str(files.pid),
        "--orca", str(files.orca),
    ]  # fmt: skip
    if server.cpu_cores is not None:
        command += ["--cpu-limit", str(server.cpu_cores)]
    if server.disk_ops_per_s is not None:
        command += ["--io-capacity", str(server.disk_ops_per_s * CALLS_PER_DISK_OPERATION)]
    return command


def static_servers(template: str, ports: tuple[int, ...], folder: Path, *, files: int, root: bool) -> str:
    """Return the nginx.conf of servers that answer at once."""
    listen = "\n".join(f"        listen {HOST}:{port} backlog=4096;" for port in ports)
    # As root its worker would become a user who may not read the folder.
    user = "user root;" if root else ""
    return _Percent(template).substitute(folder=str(folder), listen=listen, files=str(files), user=user)
