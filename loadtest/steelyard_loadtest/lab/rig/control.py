"""Our controller for one cell: a process that begins from nothing (I/O)."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from steelyard_loadtest.lab.rig import ask, render
from steelyard_loadtest.lab.rig.patience import wait_until
from steelyard_loadtest.lab.rig.place import UPSTREAM, Place
from steelyard_loadtest.lab.rig.render import Scene
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.process import Process

TEMPLATE = Path(__file__).with_name("templates") / "controller.yaml"
WEIGHTS = f"/v1/upstreams/{UPSTREAM}/weights"
PEERS = f"/v1/upstreams/{UPSTREAM}/peers"


class Control:
    """A controller; made, it has been started and need not answer yet. All raise ProgramError."""

    def __init__(self, place: Place, scene: Scene) -> None:
        self._place, self._scene = place, scene
        self._members = set(scene.addresses)
        self._drained: set[str] = set()
        # What an earlier cell left: tables, reports and samples (the agents' are back within a second),
        # the declaration, the law's memory, and the lease, which a new controller would wait for.
        ask.order(place.memcached_port, "flush_all", "OK")
        ask.order(place.redis_port, "FLUSHALL", "+OK")
        config = scene.folder / "controller.yaml"
        config.write_text(render.controller(scene, TEMPLATE.read_text(encoding="utf-8")))
        command = [
            sys.executable, "-m", "steelyard_controller", "--config", str(config),
            "--api-port", str(place.api_port),
            "--memcached", f"127.0.0.1:{place.memcached_port}",
            "--state-url", f"redis://127.0.0.1:{place.redis_port}/0",
            "--log-level", "warning",
        ]  # fmt: skip
        if scene.algorithm.fed_by == "agent-check":
            command += ["--agent-check-port", str(place.agent_check_port)]
        log = scene.folder / "controller.log"
        log.write_text("")  # what the last one said is not this one's
        self.process = Process(command, log)

    def wait(self) -> None:
        """Wait until it has decided on weights."""
        wait_until(self._why_not_yet, [self.process])

    def set_members(self, names: Sequence[str]) -> None:
        """Declare and forget servers, so that these are left."""
        wanted = set(names)
        for name in sorted(wanted - self._members):
            self._change("PUT", name, render.peer(self._scene, name))
        for name in sorted(self._members - wanted):
            self._change("DELETE", name)
        self._members = wanted

    def drain(self, names: Sequence[str]) -> None:
        """Let these servers, and no others, have no new requests: HAProxy's agent-check tells it so."""
        wanted = set(names)
        for name in sorted(wanted ^ self._drained):
            self._change("PATCH", name, {"state": "drain" if name in wanted else "up"})
        self._drained = wanted

    def shares(self) -> dict[str, float]:
        """Return what the published weight table gives each server, of 1."""
        status, body = ask.http_ask(self._place.api_port, WEIGHTS)
        if status != 200:
            raise ProgramError(f"the controller answers {status} for its weights: {body[:300]!r}")
        weights = {peer["id"]: peer["weight"] for peer in json.loads(body)["peers"] if peer["state"] == "up"}
        total = sum(weights.values())
        return {name: weights.get(name, 0) / total if total else 0.0 for name in self._scene.addresses}

    def _why_not_yet(self) -> str | None:
        try:
            status, body = ask.http_ask(self._place.api_port, WEIGHTS)
        except ProgramError as error:
            return str(error)
        return None if status == 200 else f"the controller has no weights: {status}, {body[:300]!r}"

    def _change(self, method: str, name: str, document: object = None) -> None:
        path = f"{PEERS}/{name}"
        status, body = ask.http_ask(self._place.api_port, path, method=method, document=document)
        if status not in (200, 201, 204):
            raise ProgramError(f"the controller answers {status} to {method} {path}: {body[:300]!r}")
