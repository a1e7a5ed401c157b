"""The Services that declare upstreams, by their annotations. Pure: the order of the Services does not matter.

If several Services claim one upstream, its present holder keeps it. So another
namespace cannot take it away with an annotation. Among new ones, the oldest gets
it. The operator may configure the upstreams that each namespace can claim
(`Allowed`).

steelyard/upstream: web     the upstream of the pods
steelyard/port: http        the name or number of a port of the Service; required if it has several
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from steelyard_protocol import wire

from steelyard_controller.discovery.objects import Key, Service, ServicePort

UPSTREAM_ANNOTATION = "steelyard/upstream"
PORT_ANNOTATION = "steelyard/port"


Allowed = Mapping[str, Sequence[str]]
"""The upstreams that the Services of each namespace may claim: names, or patterns such as `shop-*`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A Service that declares an upstream; `port` is its port's name, None if there is a fault."""

    service: Key
    port: str | None

    def __str__(self) -> str:
        """Return namespace/name."""
        return service_name(self.service)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims by upstream, and the faults by Service."""

    by_upstream: Mapping[str, Claim]
    faults: Mapping[Key, str]


def has_claim(service: Service) -> bool:
    """Return whether a Service declares an upstream."""
    return UPSTREAM_ANNOTATION in (service.metadata.annotations or {})


def service_name(service: Key) -> str:
    """Return namespace/name, kubectl's notation."""
    return "/".join(service)


def claims_of(
    services: Iterable[Service], holders: Mapping[str, str], allowed: Allowed | None = None
) -> Claims:
    """Return the claims; `holders` are the present Services (namespace/name) by upstream.

    `allowed` are the upstreams that each namespace may claim; None: all may claim any.
    """
    by_upstream: dict[str, Claim] = {}
    faults: dict[Key, str] = {}
    for service in sorted(services, key=lambda service: (not _is_holder(service, holders), _age(service))):
        metadata = service.metadata
        key = (metadata.namespace, metadata.name)
        if not has_claim(service):
            continue
        upstream = (metadata.annotations or {})[UPSTREAM_ANNOTATION]
        if not wire.NAME.fullmatch(upstream):
            faults[key] = (
                f"{UPSTREAM_ANNOTATION}: {upstream[:70]!r} is not an upstream's name: 1 to 64 letters, "
                "digits, dots, dashes and underscores, the first a letter or digit"
            )
        elif allowed is not None and not any(
            fnmatchcase(upstream, pattern) for pattern in allowed.get(metadata.namespace, ())
        ):
            faults[key] = (
                f"the namespace {metadata.namespace} may not claim the upstream {upstream}: add it to "
                f"kubernetes_claims of the controller's configuration, or remove {UPSTREAM_ANNOTATION}"
            )
        elif upstream in by_upstream:
            first = by_upstream[upstream]
            faults[key] = (
                f"the upstream {upstream} belongs to {first}, the first to claim it: choose another name"
            )
        else:
            port, fault = _port(service)
            by_upstream[upstream] = Claim(service=key, port=port)
            if fault is not None:
                faults[key] = f"{fault}; its last known servers stay"
    return Claims(by_upstream=by_upstream, faults=faults)


def _is_holder(service: Service, holders: Mapping[str, str]) -> bool:
    upstream = (service.metadata.annotations or {}).get(UPSTREAM_ANNOTATION, "")
    return holders.get(upstream) == service_name((service.metadata.namespace, service.metadata.name))


def _age(service: Service) -> tuple[str, str, str]:
    # RFC 3339 in UTC, in seconds: the order of the texts is the order of time.
    metadata = service.metadata
    return metadata.creation_timestamp or "~", metadata.namespace, metadata.name


def _port(service: Service) -> tuple[str | None, str | None]:
    """Return the port's name and None, or None and the fault."""
    ports = [each for each in service.spec.ports or () if (each.protocol or "TCP") == "TCP"]
    wanted = (service.metadata.annotations or {}).get(PORT_ANNOTATION)
    names = ", ".join(_shown(each) for each in ports)
    if not ports:
        return None, "it has no TCP port"
    if wanted is None:
        if len(ports) > 1:
            return None, f"it has several ports ({names}): name one with {PORT_ANNOTATION}"
        return ports[0].name or "", None
    for each in ports:
        if wanted in (each.name or "", str(each.port)):
            return each.name or "", None
    return None, f"{PORT_ANNOTATION}: {wanted[:70]!r} is none of its ports ({names})"


def _shown(port: ServicePort) -> str:
    return f"{port.name} {port.port}" if port.name else str(port.port)
