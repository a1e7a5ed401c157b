"""HAProxy (I/O)."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from steelyard_loadtest.lab.rig import ask, front, haproxy_said
from steelyard_loadtest.lab.rig.control import Control
from steelyard_loadtest.lab.rig.patience import wait_until
from steelyard_loadtest.lab.rig.place import UPSTREAM, Place
from steelyard_loadtest.lab.rig.render import Scene
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError
from steelyard_loadtest.machine.process import Process

ANSWERED = "L7OK"
"""What `show stat` has as agent_status after a good answer."""


class HAProxy:
    """HAProxy; its servers change by its command socket, or by what a controller answers."""

    def __init__(
        self,
        place: Place,
        scene: Scene,
        control: Control | None,
        cpus: Collection[int] | None,
    ) -> None:
        if scene.socket is None:
            raise ValueError("HAProxy needs a path for its command socket")
        self._scene, self._control, self._socket = scene, control, Path(scene.socket)
        if control:
            control.wait()  # or HAProxy's first question is in vain, and the next one a second later
        config = front.write(scene, tuple(scene.addresses))
        command = [place.found.haproxy or "haproxy", "-db", "-f", str(config)]
        self.process = Process(command, front.new_log(scene), cpus)

    def wait(self) -> None:
        """Wait until it takes connections and, where it asks our controller, has its answers."""
        self.process.wait_listening(self._scene.port)
        if self._control:
            wait_until(self._why_not_yet, [self.process, self._control.process])

    def set_members(self, names: Sequence[str]) -> None:
        """Take servers out and in; requests under way end where they are."""
        out = [name for name in self._scene.addresses if name not in names]
        if self._control:
            # A state set here would last until the agent's next answer.
            self._control.drain(out)
            return
        for name in self._scene.addresses:
            state = "maint" if name in out else "ready"
            said = ask.command(self._socket, f"set server {UPSTREAM}/{name} state {state}")
            if said:
                raise ProgramError(f"HAProxy does not set {name} to {state}: {said}")

    def rows(self) -> Mapping[str, haproxy_said.Row]:
        """Return its servers as it sees them. Raises ProgramError."""
        try:
            return haproxy_said.servers(ask.command(self._socket, "show stat"), UPSTREAM)
        except UnreadableError as error:
            raise ProgramError(str(error)) from None

    def _why_not_yet(self) -> str | None:
        silent = [name for name, row in self.rows().items() if row.agent_status != ANSWERED]
        return f"the controller has told HAProxy nothing of {', '.join(silent)}" if silent else None
