"""Changes the servers while the load runs: a step each second, over the REST API (I/O).

A server answers under ever new addresses, as new machines would.
"""

import http.client
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from steelyard_controller.declarations.upstream import Peer
from steelyard_loadtest.machine import picker_list
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.repeating import repeating

from steelyard_resilience.soak.readings import Soaked
from steelyard_resilience.soak.timetable import CHURNED, Step, steps
from steelyard_resilience.stage.hosts import API_PORT, CONTROLLERS, UPSTREAM
from steelyard_resilience.stage.namespaces import run
from steelyard_resilience.stage.stage import Stage, overview

PATIENCE_S = 3.0
"""The first event comes at once, a tick within a second."""

PICKERS = [name for name in picker_list.keyless() if name != picker_list.DEFAULT]

EVENTS = 2
"""Which role it has, and a tick."""

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""No proxy leads to a stage."""


def churning(
    stage: Stage, token_file: Path, servers: Sequence[Peer], soaked: Soaked, every_s: float
) -> AbstractContextManager[None]:
    """Take one step after another in a thread of its own, until it is left."""
    left = steps(UPSTREAM, servers, PICKERS)

    def churn() -> None:
        step = next(left)
        try:
            _take(stage, step, token_file)
        except (ProgramError, OSError, ValueError, http.client.HTTPException) as error:
            soaked.refused.append(f"{step.words}: {error}")
        soaked.steps += 1

    return repeating(churn, interval_s=every_s)


def declared(stage: Stage) -> list[Peer]:
    """Return the servers of the upstream. Raises ProgramError."""
    return [Peer.model_validate(peer) for peer in overview(stage, "/declaration")["peers"]]


def _take(stage: Stage, step: Step, token_file: Path) -> None:
    if step.watch:
        # Events reach whoever leads as well through a controller that stands by.
        _watch(stage.addresses[CONTROLLERS[0]], token_file, step.path)
        return
    document = step.document if step.members is None else overview(stage, "/declaration") | dict(step.members)
    leader = stage.leader() if step.standby else None
    standby = next(name for name in CONTROLLERS if name != leader) if step.standby else None
    stage.api(step.method, step.path, document, standby)


def _watch(address: str, token_file: Path, path: str) -> None:
    """Read the first events of a controller and close the connection."""
    bearer = {"Authorization": f"Bearer {token_file.read_text(encoding='ascii').strip()}"}
    request = urllib.request.Request(f"http://{address}:{API_PORT}{path}", headers=bearer)
    events = 0
    with DIRECT.open(request, timeout=PATIENCE_S) as lines:
        for line in lines:
            events += line.startswith(b"event:")
            if events == EVENTS:
                return
    raise ProgramError(f"{path} ended after {events} events")


def add_addresses(stage: Stage, host: str) -> None:
    """Give a host the addresses of all churned servers, from nginx's point of view. Raises SetupError.

    A route of type local is an address for each of its network, without naming them one by one.
    """
    edge = stage.daemon("nginx").host
    run(*stage.on(host), "ip", "route", "add", "local", str(CHURNED), "dev", "lo")
    run(*stage.on(edge), "ip", "route", "add", str(CHURNED), "via", stage.addresses[host])
