"""Listens to a controller's events for a moment, as a page does that is opened and closed (I/O)."""

import contextlib
import http.client
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError

PATIENCE_S = 3.0
"""The first event comes at once, a tick within a second."""

EVENTS = 2
"""Which role it has, and a tick."""


class Watcher:
    """Asks a controller at an address, with the token in a file."""

    def __init__(self, address: str, port: int, token_file: Path) -> None:
        self._address, self._port, self._token_file = address, port, token_file

    def watch(self, path: str) -> None:
        """Read the first events and close the connection. Raises ProgramError when they do not come."""
        token = self._token_file.read_text(encoding="ascii").strip()
        connection = http.client.HTTPConnection(self._address, self._port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
                response = connection.getresponse()
                if response.status != http.HTTPStatus.OK:
                    raise ProgramError(f"{path} answers {response.status}")
                heard = 0
                while heard < EVENTS:
                    line = response.readline()
                    if not line:
                        raise ProgramError(f"{path} ended after {heard} events")
                    heard += line.startswith(b"event:")
            except (OSError, http.client.HTTPException) as error:
                raise ProgramError(f"{path} does not answer: {error}") from None
