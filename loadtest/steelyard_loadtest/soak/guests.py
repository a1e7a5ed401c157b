"""Lets a server answer under ever new addresses, as new machines would (I/O)."""

import subprocess

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.soak.steps import GUESTS
from steelyard_loadtest.stage.stage import Stage

ASK_S = 5.0


def invite(stage: Stage, host: str) -> None:
    """Make every guest's address one of this host's, from nginx's point of view. Raises ProgramError.

    A route of type local is an address for each of its network, without naming them one by one.
    """
    _run(stage, host, ["ip", "route", "add", "local", GUESTS, "dev", "lo"])
    edge = stage.host_of("nginx")
    _run(stage, edge, ["ip", "route", "add", GUESTS, "via", stage.address(host)])


def _run(stage: Stage, host: str, command: list[str]) -> None:
    pid = next(
        (pid for name in stage.names if stage.host_of(name) == host and (pid := stage.daemon(name).pid)), None
    )
    if pid is None:
        raise ProgramError(f"nothing runs on {host}, whose addresses are to be changed")
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *command]
    done = subprocess.run(inside, capture_output=True, text=True, check=False, timeout=ASK_S)
    if done.returncode:
        raise ProgramError(f"{' '.join(command)} on {host}: {done.stderr.strip()}")
