"""Envoy (I/O)."""

from collections.abc import Collection, Sequence

from steelyard_loadtest.lab.rig import front, render
from steelyard_loadtest.lab.rig.place import Place
from steelyard_loadtest.lab.rig.render import Scene
from steelyard_loadtest.machine.process import Process


class Envoy:
    """Envoy; its servers change by a file that takes another one's place."""

    def __init__(self, place: Place, scene: Scene, cpus: Collection[int] | None) -> None:
        self._scene = scene
        self.set_members(tuple(scene.addresses))
        config = front.write(scene, tuple(scene.addresses))
        command = [
            place.found.envoy or "envoy", "-c", str(config), "--concurrency", "1", "--disable-hot-restart",
            "--log-level", "error",
        ]  # fmt: skip
        self.process = Process(command, front.new_log(scene), cpus)

    def wait(self) -> None:
        """Wait until it takes connections, which it does when it has its servers."""
        self.process.wait_listening(self._scene.port)

    def set_members(self, names: Sequence[str]) -> None:
        """Put another file in the place of the one that it watches."""
        new = self._scene.endpoints.with_suffix(".new")
        new.write_text(render.endpoints(self._scene, names))
        new.replace(self._scene.endpoints)
