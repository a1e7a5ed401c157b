"""Kubernetes' Services and EndpointSlices, their lists and watch events, as far as they are read. Pure.

The members are those of the API reference (core/v1 Service, discovery.k8s.io/v1
EndpointSlice, meta/v1 ListMeta and WatchEvent); all others are skipped.
Members that are empty in Go may be absent or null: both are None here.
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

SERVICE_LABEL = "kubernetes.io/service-name"
"""The label of an EndpointSlice that names its Service."""

T = TypeVar("T")

Revision = Annotated[str, Meta(min_length=1)]
"""A resourceVersion. An answer without one is not a list, not even an empty one."""

Key = tuple[str, str]
"""A namespace and a name."""


class Metadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """An object's name and its revision."""

    name: str
    namespace: str = ""
    resource_version: Revision
    creation_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class ServicePort(Struct, frozen=True, kw_only=True):
    """A port of a Service; a single one may have no name."""

    port: int
    name: str | None = None
    protocol: str | None = None


class ServiceSpec(Struct, frozen=True, kw_only=True):
    """The ports of a Service."""

    ports: list[ServicePort] | None = None


class Service(Struct, frozen=True, kw_only=True):
    """A Service."""

    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()


class Conditions(Struct, frozen=True, kw_only=True):
    """The conditions of an endpoint; None is "unknown"."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Reference(Struct, frozen=True, kw_only=True):
    """The object behind an endpoint."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None


class Endpoint(Struct, frozen=True, kw_only=True, rename="camel"):
    """One endpoint; only its first address has a meaning."""

    addresses: list[str] | None = None
    conditions: Conditions | None = None
    target_ref: Reference | None = None
    zone: str | None = None


class SlicePort(Struct, frozen=True, kw_only=True):
    """A port of all endpoints of a slice; without a number, it means every port."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSlice(Struct, frozen=True, kw_only=True, rename="camel"):
    """Some endpoints of a Service, all of one kind of address and with the same ports."""

    metadata: Metadata
    address_type: str
    endpoints: list[Endpoint] | None = None
    ports: list[SlicePort] | None = None

    @property
    def service(self) -> Key:
        """Return the namespace and name of its Service; the name is empty if it has none."""
        return self.metadata.namespace, (self.metadata.labels or {}).get(SERVICE_LABEL, "")


class ListMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """The revision of a list, and the token of its next page."""

    resource_version: Revision
    continue_token: str | None = msgspec.field(default=None, name="continue")


class Page(Struct, frozen=True, kw_only=True):
    """One page of a list, its items unread."""

    metadata: ListMetadata
    items: list[Raw] | None = None


class Event(Struct, frozen=True, kw_only=True):
    """One line of a watch, its object unread."""

    type: str
    object: Raw


class _Revision(Struct, frozen=True, kw_only=True):
    metadata: ListMetadata


class Status(Struct, frozen=True, kw_only=True):
    """The API server's answer to a refused request."""

    message: str | None = None
    code: int | None = None


class UnreadableError(ValueError):
    """The text differs from the API reference; the message has the reason."""


def read(value: bytes | Raw, kind: type[T]) -> T:
    """Return an object of this kind; raise `UnreadableError`."""
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"it did not send a {kind.__name__.strip('_')}: {error}") from None


def revision_of(value: Raw) -> str:
    """Return the resourceVersion of an object of any kind; raise `UnreadableError`."""
    return read(value, _Revision).metadata.resource_version


def read_status(value: bytes | Raw) -> Status:
    """Return a Status, or an empty one for any other text, such as a proxy's answer."""
    try:
        return read(value, Status)
    except UnreadableError:
        return Status()
