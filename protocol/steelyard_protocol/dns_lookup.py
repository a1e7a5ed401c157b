"""Look up a host's addresses within a given time. I/O only.

The system's resolver takes half a minute when its servers are unreachable, and
has no timeout. So a thread asks it, one look-up of a host at a time; the next
call uses a late answer.
"""

import socket
import threading
from collections.abc import Callable

from steelyard_protocol.setting_values import Address


def system(host: str, port: int) -> list[Address]:
    """Return a host's addresses, as the system's resolver gives them; raise OSError or UnicodeError."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((str(entry[4][0]), port) for entry in entries))


class DnsLookup:
    """Finds one host's addresses; a numeric one is not looked up."""

    def __init__(self, address: Address, resolve: Callable[[str, int], list[Address]] = system) -> None:
        self._address = address
        self._resolve = resolve
        self._numeric = _is_numeric(address)
        self._asking: threading.Thread | None = None
        self._answer: list[Address] | Exception = []

    def __call__(self, timeout_s: float) -> list[Address]:
        """Return at least one address; raise OSError (TimeoutError: no answer yet) or UnicodeError."""
        if self._numeric:
            return [self._address]
        if self._asking is None:
            self._asking = threading.Thread(target=self._ask, name="lookup", daemon=True)
            self._asking.start()
        self._asking.join(timeout_s)
        if self._asking.is_alive():
            raise TimeoutError("the resolver has not answered")
        self._asking = None
        if isinstance(self._answer, Exception):
            raise self._answer
        if not self._answer:
            raise OSError("the host name has no address")
        return self._answer

    def _ask(self) -> None:
        try:
            self._answer = self._resolve(*self._address)
        except (OSError, UnicodeError) as error:  # the latter: an impossible host name
            self._answer = error


def _is_numeric(address: Address) -> bool:
    try:
        socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True
