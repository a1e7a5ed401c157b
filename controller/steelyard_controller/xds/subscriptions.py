"""The subscriptions of one Envoy on a stream: their names, the versions sent, and the next response.

Pure. The xDS protocol has two variants. In "state of the world", each request names all subscriptions; in
"delta", it names the changes. In both, a response is due when a subscribed name has another version than the
last one sent. It contains just these names. The next response waits until Envoy has accepted (ACK) or
refused (NACK) it. A refused version is not sent again.

Servers that a person takes out leave in two responses: as UNHEALTHY first, then left out (`assignments`).
The second waits for Envoy's answer to the first. On a new stream, an Envoy may have any earlier endpoints.

An undeclared name stays open: its endpoints are sent when it is declared. Delta reports it as removed, so
that a starting Envoy does not wait for it. Envoy keeps the endpoints of an upstream that was deleted.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError, Message

from steelyard_controller.xds.assignments import Assignment
from steelyard_controller.xds.xds_messages import (
    EDS_TYPE,
    DeltaDiscoveryRequest,
    DeltaDiscoveryResponse,
    DiscoveryRequest,
    DiscoveryResponse,
)

# The most upstreams of a controller, and far more than the clusters of an Envoy.
MOST_NAMES = 10_000

# Characters of Envoy's reason for a refusal, which may have a line for each field.
LONGEST_REASON = 300

# The version of an undeclared name.
_ABSENT = ""


class BadRequest(Exception):
    """A request that cannot be served; the message has the reason and the remedy."""


class Subscription(ABC):
    """A stream's subscription; `refused` is Envoy's reason if it refused the last response."""

    request: type[Message]

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.refused: str | None = None
        self.refusals = 0
        self._sent: dict[str, str] = {}
        self._out: dict[str, frozenset[str]] = {}
        """By name, the servers that this Envoy has as UNHEALTHY or not at all."""
        self._nonce = 0
        self._is_waiting = False

    def take(self, value: bytes) -> Any:  # noqa: ANN401 (protobuf has no types here)
        """Take a request, and return it; raise `BadRequest`."""
        request = parsed(self.request, value)
        if request.type_url not in {"", EDS_TYPE}:
            return request
        is_answer = self._is_waiting and request.response_nonce == str(self._nonce)
        if is_answer:
            self._is_waiting = False
            reason = " ".join(request.error_detail.message.split())[:LONGEST_REASON] or "it gives no reason"
            self.refused = reason if request.HasField("error_detail") else None
            self.refusals += self.refused is not None
        self._follow(request, is_answer)
        if len(self.names) > MOST_NAMES:
            raise BadRequest(f"{len(self.names)} clusters on one stream are more than {MOST_NAMES}")
        return request

    def answer(self, assignments: Mapping[str, Assignment], absent: Container[str]) -> bytes | None:
        """Return the response that is due; None: none is. `absent` are the undeclared names."""
        if self._is_waiting:
            return None
        known = sorted(name for name in self.names if name in assignments)
        newest = {name: self._next(name, assignments[name]) for name in known}
        due = [name for name in known if newest[name].version != self._sent.get(name)]
        gone = self._gone(absent)
        self._out.update((name, assignments[name].out) for name in known)
        if not (due or gone):
            return None
        self._sent.update((name, newest[name].version) for name in due)
        self._sent.update((name, _ABSENT) for name in gone)
        self._nonce += 1
        self._is_waiting = True
        return self._response([newest[name] for name in due], gone)

    def _next(self, name: str, wanted: Assignment) -> Assignment:
        """Return the endpoints to send for a name: the wanted ones, or the farewell before them."""
        leaving, sent = wanted.out - self._out.get(name, frozenset()), self._sent.get(name)
        if not leaving or sent == wanted.version:
            return wanted
        farewell = wanted.farewell(leaving)
        return wanted if sent == farewell.version else farewell

    @abstractmethod
    def _follow(self, request: Any, is_answer: bool) -> None:  # noqa: ANN401
        """Follow the names in a request."""

    def _gone(self, absent: Container[str]) -> list[str]:  # noqa: ARG002
        """Return the names to report to Envoy as undeclared."""
        return []

    @abstractmethod
    def _response(self, due: Sequence[Assignment], gone: Sequence[str]) -> bytes:
        """Return a response; protobuf messages that follow each other are one message."""


class StateOfTheWorld(Subscription):
    """Each request has all names; this variant cannot report a name as undeclared."""

    request = DiscoveryRequest

    def _follow(self, request: Any, is_answer: bool) -> None:  # noqa: ANN401
        if self._is_waiting and not is_answer:
            return  # A stale request: the answer, which is still to come, has the same names.
        self.names = set(request.resource_names)
        for of_name in (self._sent, self._out):
            for name in of_name.keys() - self.names:
                del of_name[name]

    def _response(self, due: Sequence[Assignment], gone: Sequence[str]) -> bytes:  # noqa: ARG002
        text = " ".join(f"{name} {version}" for name, version in sorted(self._sent.items()))
        version = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        head = DiscoveryResponse(version_info=version, type_url=EDS_TYPE, nonce=str(self._nonce))
        return b"".join([head.SerializeToString(), *(each.whole for each in due)])


class Delta(Subscription):
    """Each request has the new names, and the names no longer wanted."""

    request = DeltaDiscoveryRequest

    def _follow(self, request: Any, is_answer: bool) -> None:  # noqa: ANN401, ARG002
        # A name that is subscribed to again is sent again.
        for name in (*request.resource_names_subscribe, *request.resource_names_unsubscribe):
            self._sent.pop(name, None)
            self._out.pop(name, None)
        self.names |= set(request.resource_names_subscribe)
        self.names -= set(request.resource_names_unsubscribe)
        # After a break of the stream, these are the versions from any controller.
        if self._nonce == 0:
            self._sent.update((each.key, each.value) for each in request.initial_resource_versions)

    def _gone(self, absent: Container[str]) -> list[str]:
        return sorted(name for name in self.names - self._sent.keys() if name in absent)

    def _response(self, due: Sequence[Assignment], gone: Sequence[str]) -> bytes:
        head = DeltaDiscoveryResponse(type_url=EDS_TYPE, nonce=str(self._nonce), removed_resources=gone)
        return b"".join([head.SerializeToString(), *(each.delta for each in due)])


def parsed(kind: type[Message], value: bytes) -> Any:  # noqa: ANN401
    """Return a request of this kind; raise `BadRequest`."""
    try:
        return kind.FromString(value)
    except DecodeError as error:
        raise BadRequest(f"this is not a {kind.DESCRIPTOR.name}: {error}") from None
