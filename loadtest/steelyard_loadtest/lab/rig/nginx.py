"""nginx, alone and with Steelyard (I/O)."""

import json
import subprocess
from collections.abc import Collection, Sequence

from steelyard_loadtest.lab.rig import ask, front
from steelyard_loadtest.lab.rig.control import Control
from steelyard_loadtest.lab.rig.patience import wait_until
from steelyard_loadtest.lab.rig.place import UPSTREAM, Place
from steelyard_loadtest.lab.rig.render import CLIENTS, Scene
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.process import Process


class Nginx:
    """nginx with a method of its own; its servers change by a reload."""

    def __init__(self, place: Place, scene: Scene, cpus: Collection[int] | None) -> None:
        self._scene = scene
        self.process = start(place, scene, cpus)

    def wait(self) -> None:
        """Wait until it takes connections."""
        self.process.wait_listening(self._scene.port)

    def set_members(self, names: Sequence[str]) -> None:
        """Reload; requests under way end in the worker that goes."""
        old = set(self.process.workers())
        front.write(self._scene, names)
        self.process.reload()
        wait_until(
            lambda: None if set(self.process.workers()) - old else "nginx did not reload", [self.process]
        )


class Steelyard:
    """nginx with our Lua, and the controller that it follows."""

    def __init__(self, place: Place, scene: Scene, control: Control, cpus: Collection[int] | None) -> None:
        self._scene, self._control = scene, control
        self.process = start(place, scene, cpus)

    def wait(self) -> None:
        """Wait until it serves a table of the controller in which every server takes part."""
        self.process.wait_listening(self._scene.port)
        wait_until(self._why_not_yet, [self.process, self._control.process])

    def set_members(self, names: Sequence[str]) -> None:
        """Tell the controller; nginx serves its next table, about a second later."""
        self._control.set_members(names)

    def _why_not_yet(self) -> str | None:
        status, body = ask.http_ask(self._scene.port, "/steelyard/status")
        if status != 200:
            raise ProgramError(f"its status page answers {status}: {body[:300]!r}")
        upstream = json.loads(body)["upstreams"][UPSTREAM]
        if upstream["rung"] != "fresh":
            return (
                f"no table of the controller ({upstream['last_fetch']}; {self._control.process.last_words()})"
            )
        if upstream["picker_error"] is not None:
            raise ProgramError(upstream["picker_error"])
        there = {peer["id"] for peer in upstream["peers"] if peer["eligible"]}
        away = [name for name in self._scene.addresses if name not in there]
        return f"{', '.join(away)} take no part" if away else None


def start(place: Place, scene: Scene, cpus: Collection[int] | None) -> Process:
    """Write its configuration and start it."""
    config, log = front.write(scene, tuple(scene.addresses)), front.new_log(scene)
    command = [place.found.nginx, "-p", str(scene.folder), "-c", str(config), "-e", str(log)]
    return Process(command, log, cpus)


def our_upstream(place: Place, count: int) -> str:
    """Return the upstream block that our generator prints for so many servers. Raises ProgramError."""
    generator = place.checkout / "openresty" / "bin" / "steelyard-upstream"
    command = [str(generator), UPSTREAM, "--servers", str(count), "--concurrency", str(CLIENTS)]
    try:
        done = subprocess.run(
            [*command, "--nginx", place.found.nginx], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ProgramError(f"needs a checkout of Steelyard: {error}") from None
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip())
    return done.stdout
