"""What one Envoy has subscribed to on a stream, what it has of it, and what it is to be sent.

Pure. The xDS protocol in its two variants: state of the world, where each request names all that is wanted,
and delta, where it names what is new. In both a response is sent when something that is subscribed to has
another version than what was sent last, it has just that, and the next one waits until Envoy has accepted
(ACK) or refused (NACK) it. What was refused is not sent again before it is another.

A name that is not declared is left open: it is sent once it is. In delta that is said, so that Envoy does not
wait for it at its start. What is declared no more stays as Envoy has it.
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

# As many upstreams as a controller has, and far more than an Envoy has clusters.
MOST_NAMES = 10_000

# Envoy's words, which may have a line for each field.
MOST_WORDS = 300

# What a name has been sent that is not declared.
_ABSENT = ""


class BadRequest(Exception):
    """A request that cannot be served; the message says why, and the remedy."""


class Subscription(ABC):
    """A stream's subscription; `refused` has Envoy's words where it refused the last response."""

    request: type[Message]

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.refused: str | None = None
        self.refusals = 0
        self._sent: dict[str, str] = {}
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
            words = " ".join(request.error_detail.message.split())[:MOST_WORDS] or "it does not say why"
            self.refused = words if request.HasField("error_detail") else None
            self.refusals += self.refused is not None
        self._follow(request, is_answer)
        if len(self.names) > MOST_NAMES:
            raise BadRequest(f"{len(self.names)} clusters on one stream are more than {MOST_NAMES}")
        return request

    def answer(self, assignments: Mapping[str, Assignment], absent: Container[str]) -> bytes | None:
        """Return the response that is due, None where none is; `absent` are the names not declared."""
        if self._is_waiting:
            return None
        known = sorted(name for name in self.names if name in assignments)
        due = [name for name in known if assignments[name].version != self._sent.get(name)]
        gone = self._gone(absent)
        if not (due or gone):
            return None
        self._sent.update((name, assignments[name].version) for name in due)
        self._sent.update((name, _ABSENT) for name in gone)
        self._nonce += 1
        self._is_waiting = True
        return self._response([assignments[name] for name in due], gone)

    @abstractmethod
    def _follow(self, request: Any, is_answer: bool) -> None:  # noqa: ANN401
        """Follow what a request asks for."""

    def _gone(self, absent: Container[str]) -> list[str]:  # noqa: ARG002
        """Return the names of which Envoy is to be told that they are not declared."""
        return []

    @abstractmethod
    def _response(self, due: Sequence[Assignment], gone: Sequence[str]) -> bytes:
        """Return a response: messages of protobuf that follow each other are one."""


class StateOfTheWorld(Subscription):
    """Each request has all names; there is no way to tell that one is not declared."""

    request = DiscoveryRequest

    def _follow(self, request: Any, is_answer: bool) -> None:  # noqa: ANN401
        if self._is_waiting and not is_answer:
            return  # stale: what it asks for stands in the answer, too, which is still to come
        self.names = set(request.resource_names)
        self._sent = {name: version for name, version in self._sent.items() if name in self.names}

    def _response(self, due: Sequence[Assignment], gone: Sequence[str]) -> bytes:  # noqa: ARG002
        text = " ".join(f"{name} {version}" for name, version in sorted(self._sent.items()))
        version = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        head = DiscoveryResponse(version_info=version, type_url=EDS_TYPE, nonce=str(self._nonce))
        return b"".join([head.SerializeToString(), *(each.whole for each in due)])


class Delta(Subscription):
    """Each request has the names that are new and those that are no longer wanted."""

    request = DeltaDiscoveryRequest

    def _follow(self, request: Any, is_answer: bool) -> None:  # noqa: ANN401, ARG002
        # A name that is subscribed to again is sent again.
        for name in (*request.resource_names_subscribe, *request.resource_names_unsubscribe):
            self._sent.pop(name, None)
        self.names |= set(request.resource_names_subscribe)
        self.names -= set(request.resource_names_unsubscribe)
        # After a break of the stream: what it has from whichever controller.
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
        raise BadRequest(f"this is no {kind.DESCRIPTOR.name}: {error}") from None
