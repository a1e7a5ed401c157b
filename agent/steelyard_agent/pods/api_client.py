"""Asks the API server of Kubernetes for a node's pods: one GET, in bounded time and size. I/O only.

The `kubernetes` client takes 59 MB of memory, and the agent may take 40 in all
(docs/reference/agent.md). Token and CA are read again each time: the kubelet replaces the token
within the hour.
"""

import json
import ssl
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from steelyard_protocol import peer_address
from steelyard_protocol.setting_values import Address

from steelyard_agent import http_exchange, regular_file
from steelyard_agent.http_exchange import Answer
from steelyard_agent.log_text import one_line
from steelyard_agent.pods import pod_list
from steelyard_agent.pods.pod_list import PodList

TIMEOUT_S = 5.0

# The metadata of 250 pods, with 60 KB of annotations each.
MOST_BYTES = 16 * 1024 * 1024
MOST_TOKEN_BYTES = 65536

# An error is a Status object with a sentence as its message.
MOST_MESSAGE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class ApiFault:
    """The reason for a missing list: its kind, and a sentence."""

    kind: str
    why: str


class ApiClient:
    """Asks for the pods of one node; `folder` has the ServiceAccount's token and ca.crt."""

    def __init__(self, address: Address, folder: Path, node: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = address
        self._folder = folder
        self._path = pod_list.path(node)
        self._timeout_s = timeout_s

    def __call__(self) -> PodList | ApiFault:
        """Return the pods, or why they cannot be had; never raises."""
        name = f"the API server at {peer_address.join(*self._address)}"
        try:
            token = regular_file.read(str(self._folder / "token"), MOST_TOKEN_BYTES).strip().decode("ascii")
            trust = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        except (OSError, ValueError) as error:  # the latter for a malformed token or certificate
            why = one_line(str(error)) or type(error).__name__
            return ApiFault("token", f"the ServiceAccount's token and ca.crt cannot be read: {why}")
        try:
            answer = self._ask(token, trust)
        except TimeoutError:
            return ApiFault("no answer", f"{name} does not answer within {self._timeout_s:g} s")
        except (OSError, HTTPException, ValueError) as error:
            return ApiFault("no answer", f"{name} cannot be asked: {http_exchange.reason(error)}")
        if answer.status != 200:
            return ApiFault(str(answer.status), f"{name} answers {answer.status}{_reason(answer)}")
        try:
            return pod_list.parse(answer.body)
        except (ValueError, RecursionError) as error:
            return ApiFault("malformed", f"the answer of {name} cannot be read: {one_line(str(error))}")

    def _ask(self, token: str, trust: ssl.SSLContext) -> Answer:
        return http_exchange.exchange(
            "GET",
            *self._address,
            self._path,
            trust=trust,
            headers={"Accept": pod_list.ACCEPT, "Authorization": f"Bearer {token}"},
            timeout_s=self._timeout_s,
            most_bytes=MOST_BYTES,
        )


def _reason(answer: Answer) -> str:
    """Return the API server's own message, and the remedy if it is known."""
    try:
        document = json.loads(answer.body)
        message = str(document["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        message = ""
    remedies = {
        401: "the token is not (any more) the API server's",
        403: "the ServiceAccount needs a ClusterRole with the right to list pods",
    }
    words = [one_line(message)[:MOST_MESSAGE_CHARACTERS], remedies.get(answer.status, "")]
    return "".join(f": {word}" for word in words if word)
