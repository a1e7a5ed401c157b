"""One HTTP request to a controller, in bounded time. I/O only; `register_request` makes and judges it.

Redirects are not followed and proxies not used, so that the token goes to the given URL only.
"""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException

from steelyard_agent import http_exchange
from steelyard_agent.http_exchange import Answer
from steelyard_agent.registration.register_flags import Url

TIMEOUT_S = 2.0

# A problem document has some hundred bytes.
MOST_BYTES = 65536


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The reason for a missing answer."""

    why: str


class ControllerClient:
    """Asks controllers; each request may take `timeout_s` to connect and `timeout_s` to be answered."""

    def __init__(self, token: str | None, *, timeout_s: float = TIMEOUT_S) -> None:
        self._token = token
        self._timeout_s = timeout_s
        # Once: it reads all certificates of the system.
        self._system_trust = cache(ssl.create_default_context)

    def __call__(
        self, url: Url, method: str, path: str, body: Callable[[str], bytes] | None = None
    ) -> Answer | NoAnswer:
        """Send a request; `body` makes its JSON from this machine's IP address. Never raises."""
        try:
            return http_exchange.exchange(
                method,
                url.host,
                url.port,
                url.path + path,
                trust=self._system_trust() if url.scheme == "https" else None,
                headers=self._headers(with_content=body is not None),
                timeout_s=self._timeout_s,
                most_bytes=MOST_BYTES,
                body=body,
            )
        except TimeoutError:
            return NoAnswer(f"no answer within {self._timeout_s:g} s")
        except (OSError, HTTPException, UnicodeError) as error:  # the last one: an impossible host name
            return NoAnswer(http_exchange.reason(error))

    def _headers(self, *, with_content: bool) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if with_content:
            headers["Content-Type"] = "application/json"
            # With an administrator's token, a PUT would reset the state and the pin that it leaves out. As an
            # agent it cannot.
            headers["Steelyard-Role"] = "agent"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers


def source_ip(url: Url) -> str:
    """Return this machine's IP address in a connection to a controller; raise OSError.

    Sends nothing to the controller: connecting a datagram socket only chooses the route.
    """
    addresses = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, address = addresses[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
