"""The tokens file, read at each request: a change counts at once. I/O only.

Reading and comparing ten lines takes 70 us, a thousand 0.2 ms. A time stamp would miss a change within a tick
of the clock.
A broken or missing file changes nothing: its last content counts, with a fault meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from steelyard_protocol import secret_file
from steelyard_protocol.secret_file import SecretFileError

from steelyard_controller.api import tokens
from steelyard_controller.api.tokens import Access, Named

log = logging.getLogger("steelyard.controller")

# A thousand lines have 100 kB.
MOST_BYTES = 2**20


def read(path: Path) -> Named:
    """Return the file's tokens; raise `SecretFileError`."""
    return secret_file.read(path, "tokens", tokens.named_tokens, most_bytes=MOST_BYTES)


class TokenFile:
    """The present access, from the tokens file and the other settings.

    `note` is called with "tokens" and the fault of the file, or None.
    """

    def __init__(self, path: Path, access: Access, note: Callable[[str, str | None], None]) -> None:
        self._path = path
        self._access = access
        self._note = note
        self._text: bytes | None = None

    def access(self) -> Access:
        """Return the access as the file has it now."""
        try:
            secret_file.read(self._path, "tokens", self._take, most_bytes=MOST_BYTES)
        except SecretFileError as error:
            self._note("tokens", f"{error}. Until it is mended the previous tokens hold, removed ones too")
        else:
            self._note("tokens", None)
        return self._access

    async def watch(self) -> None:
        """Read the file each second, to report a broken one without a request, until cancelled."""
        while True:
            self.access()
            await asyncio.sleep(1.0)

    def _take(self, text: bytes) -> None:
        if text == self._text:
            return
        named = tokens.named_tokens(text)
        if self._text is not None or named != self._access.named:
            log.info(
                "%s has changed: %d tokens hold now", self._path, len(named.tokens), extra={"event": "tokens"}
            )
        self._access, self._text = replace(self._access, named=named), text
