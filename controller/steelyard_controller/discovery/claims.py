"""Which Service declares which upstream, by its annotations. Pure: the Services' order does not matter.

Of several that claim one upstream the one that has it keeps it, so that nobody
takes it away with an annotation in another namespace; of new ones the oldest
gets it. The operator's configuration may say which upstreams each namespace can
claim at all (`Allowed`).

steelyard/upstream: web     the upstream that its pods are the servers of
steelyard/port: http        the name or number of one of its ports; needed where it has several
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from steelyard_protocol import wire

from steelyard_controller.discovery.objects import Key, Service, ServicePort

UPSTREAM = "steelyard/upstream"
PORT = "steelyard/port"


Allowed = Mapping[str, Sequence[str]]
"""By namespace the upstreams that its Services may claim: names, or patterns with `*`, such as `shop-*`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A Service that declares an upstream; `port` is its port's name, None where a fault says why."""

    service: Key
    port: str | None

    def __str__(self) -> str:
        """Return namespace/name."""
        return said(self.service)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims by upstream, and what is wrong by Service."""

    by_upstream: Mapping[str, Claim]
    faults: Mapping[Key, str]


def has_claim(service: Service) -> bool:
    """Tell whether a Service declares an upstream."""
    return UPSTREAM in (service.metadata.annotations or {})


def said(service: Key) -> str:
    """Return namespace/name, as kubectl's users write it."""
    return "/".join(service)


def claims_of(
    services: Iterable[Service], holders: Mapping[str, str], allowed: Allowed | None = None
) -> Claims:
    """Return who declares what; `holders` are the Services (namespace/name) that do so far, by upstream.

    `allowed` are the upstreams that each namespace may claim; None: every one may claim any.
    """
    by_upstream: dict[str, Claim] = {}
    faults: dict[Key, str] = {}
    for service in sorted(services, key=lambda service: (not _is_holder(service, holders), _age(service))):
        metadata = service.metadata
        key = (metadata.namespace, metadata.name)
        if not has_claim(service):
            continue
        upstream = (metadata.annotations or {})[UPSTREAM]
        if not wire.NAME.fullmatch(upstream):
            faults[key] = (
                f"{UPSTREAM}: {upstream[:70]!r} is no name of an upstream: 1 to 64 letters, digits, dots, "
                "dashes and underscores, the first a letter or digit"
            )
        elif allowed is not None and not any(
            fnmatchcase(upstream, pattern) for pattern in allowed.get(metadata.namespace, ())
        ):
            faults[key] = (
                f"the namespace {metadata.namespace} may not claim the upstream {upstream}: give it to it in "
                f"kubernetes_claims of the controller's configuration, or take {UPSTREAM} away"
            )
        elif upstream in by_upstream:
            first = by_upstream[upstream]
            faults[key] = f"the upstream {upstream} is {first}'s, which had it first: give it another name"
        else:
            port, fault = _port(service)
            by_upstream[upstream] = Claim(service=key, port=port)
            if fault is not None:
                faults[key] = f"{fault}; what was known of it holds"
    return Claims(by_upstream=by_upstream, faults=faults)


def _is_holder(service: Service, holders: Mapping[str, str]) -> bool:
    upstream = (service.metadata.annotations or {}).get(UPSTREAM, "")
    return holders.get(upstream) == said((service.metadata.namespace, service.metadata.name))


def _age(service: Service) -> tuple[str, str, str]:
    # RFC 3339 in UTC, to the second: as text in the order of time.
    metadata = service.metadata
    return metadata.creation_timestamp or "~", metadata.namespace, metadata.name


def _port(service: Service) -> tuple[str | None, str | None]:
    """Return the port's name and None, or None and what is wrong."""
    ports = [each for each in service.spec.ports or () if (each.protocol or "TCP") == "TCP"]
    wanted = (service.metadata.annotations or {}).get(PORT)
    names = ", ".join(_said(each) for each in ports)
    if not ports:
        return None, "it has no TCP port"
    if wanted is None:
        if len(ports) > 1:
            return None, f"it has several ports ({names}): say which with {PORT}"
        return ports[0].name or "", None
    for each in ports:
        if wanted in (each.name or "", str(each.port)):
            return each.name or "", None
    return None, f"{PORT}: {wanted[:70]!r} is none of its ports ({names})"


def _said(port: ServicePort) -> str:
    return f"{port.name} {port.port}" if port.name else str(port.port)
