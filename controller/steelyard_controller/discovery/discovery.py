"""Declares the pods of annotated Services as servers of upstreams, at most once a tick. I/O by its parts.

Every controller watches. So a new leader already knows the pods, and a
controller without the right to read a namespace reports it early. Only the
leader declares, through the same store and with the same events as a change over
REST. A rolling update of any size is one revision a tick.

Missing knowledge never removes servers from an upstream. While a namespace is
unread, or a Service, its slices or its port is missing, its declared servers
stay, and there is a fault. Only slices without pods remove the last server.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from steelyard_protocol import name_list

from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.discovered import Pod
from steelyard_controller.discovery import claims, endpoint_slices
from steelyard_controller.discovery.api_server import ApiServer
from steelyard_controller.discovery.claims import Allowed, Claim, Claims
from steelyard_controller.discovery.endpoint_slices import Endpoints
from steelyard_controller.discovery.objects import EndpointSlice, Key, Service
from steelyard_controller.discovery.watch import ENDPOINT_SLICES, SERVICES, TIMING, Timing, Watch
from steelyard_controller.fault_causes import Fault, told_once
from steelyard_controller.faults import Faults
from steelyard_controller.tick.cycle import Cycle

log = logging.getLogger("steelyard.controller")

KIND = "Kubernetes Services"
"""The parts whose faults may have one cause, such as a store that is away."""


class Declarer(Protocol):
    """The keeper of the declarations: the service."""

    @property
    def term(self) -> int | None:
        """Return the term in which it leads; None: it does not lead."""

    @property
    def views(self) -> Mapping[str, Cycle]:
        """Return the upstreams by name."""

    async def declare_pods(self, name: str, service: str, pods: Sequence[Pod]) -> str | None:
        """Declare the pods of a Service; return why nothing changed, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """The watches of a namespace, or of all (None)."""

    namespace: str | None
    services: Watch[Service]
    slices: Watch[EndpointSlice]

    @property
    def is_known(self) -> bool:
        """Return whether both have been listed."""
        return self.services.objects is not None and self.slices.objects is not None


_Known = tuple[Claim, tuple[EndpointSlice, ...], Endpoints]
"""A Service, its slices, and its endpoints."""


class Discovery:
    """The pods of the Services in these namespaces; without any, in all.

    `allowed` are the upstreams that each namespace may claim; None: all may claim any.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        namespaces: Sequence[str],
        faults: Faults,
        tick_s: float,
        allowed: Allowed | None = None,
        clock: Callable[[], float] = time.monotonic,
        timing: Timing = TIMING,
    ) -> None:
        about: dict[str, Any] = {"clock": clock, "changed": self._changed, "timing": timing}
        within: Sequence[str | None] = namespaces or [None]
        self._scopes = [
            _Scope(
                namespace=namespace,
                services=Watch(api, SERVICES, namespace=namespace, **about),
                slices=Watch(api, ENDPOINT_SLICES, namespace=namespace, **about),
            )
            for namespace in within
        ]
        self._faults = faults
        self._allowed = allowed
        self._tick_s = tick_s
        self._claims = Claims(by_upstream={}, faults={})
        self._known: dict[str, _Known] = {}
        self._declared: dict[str, tuple[Declaration, Endpoints]] = {}
        self._noted: set[str] = set()
        self._is_stale = True
        self._term: int | None = None

    @property
    def watches(self) -> list[Watch[Service] | Watch[EndpointSlice]]:
        """Return the watches, two for each namespace."""
        return [watch for scope in self._scopes for watch in (scope.services, scope.slices)]

    def declaring_service(self, upstream: str, declared_by: str | None) -> str | None:
        """Return the Service (namespace/name) that declares an upstream; None: there is none.

        `declared_by` is the last one; it still counts while its namespace is unread.
        """
        claim = self._claims.by_upstream.get(upstream)
        if declared_by is not None and self._is_unread(declared_by):
            return declared_by
        return None if claim is None else str(claim)

    async def run(self, declarer: Declarer) -> None:
        """Watch and declare until cancelled."""
        tasks = [asyncio.create_task(watch.run(), name="watch") for watch in self.watches]
        try:
            while True:
                try:
                    await self._step(declarer)
                except Exception:
                    # The declarations stay, and the next step tries again.
                    log.exception("declaring the pods of Kubernetes failed; it is tried again")
                # After a tick's time, so that all changes meanwhile are one change.
                await asyncio.sleep(self._tick_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _changed(self) -> None:
        self._is_stale = True

    async def _step(self, declarer: Declarer) -> None:
        if declarer.term != self._term:
            self._term, self._is_stale = declarer.term, True
        if self._is_stale:
            self._is_stale = False
            # With thousands of pods this takes a tenth of a second, so it must not block the event loop.
            self._claims, self._known = await asyncio.to_thread(self._evaluate, _holders(declarer.views))
        found = {
            f"Kubernetes {watch.kind.plural} in {watch.where}": Fault(watch.fault, kind="Kubernetes watches")
            for watch in self.watches
            if watch.fault is not None
        }
        for service, text in self._claims.faults.items():
            found[_part(claims.service_name(service))] = Fault(text, kind=KIND)
        for upstream, (claim, _, endpoints) in self._known.items():
            if endpoints.fault is not None:
                found[_part(str(claim))] = Fault(endpoints.fault, f"upstream {upstream}", KIND)
        if declarer.term is not None:
            found |= await self._declare(declarer)
        faults = told_once(found)
        for part in dict.fromkeys([*self._noted, *faults]):
            self._faults.note(part, faults.get(part))
        self._noted = set(faults)

    def _evaluate(self, holders: Mapping[str, str]) -> tuple[Claims, dict[str, _Known]]:
        """Return the claims and endpoints from the watches; unchanged objects are not evaluated again."""
        services = [each for scope in self._scopes for each in (scope.services.objects or {}).values()]
        claimed = claims.claims_of(services, holders, self._allowed)
        by_service: dict[Key, list[EndpointSlice]] = defaultdict(list)
        for scope in self._scopes:
            for each in (scope.slices.objects or {}).values():
                by_service[each.service].append(each)
        known: dict[str, _Known] = {}
        for upstream, claim in claimed.by_upstream.items():
            slices = tuple(by_service.get(claim.service, ()))
            last = self._known.get(upstream)
            if last is not None and last[0] == claim and _are_same(last[1], slices):
                known[upstream] = last
            elif claim.port is not None and not self._is_unread(str(claim)):
                known[upstream] = (claim, slices, endpoint_slices.pods_of(slices, claim.port))
        return claimed, known

    async def _declare(self, declarer: Declarer) -> dict[str, Fault]:
        """Declare the changes; return the faults by part."""
        faults = {}
        for upstream, (claim, _, endpoints) in self._known.items():
            view = declarer.views.get(upstream)
            declared = None if view is None else view.declaration
            before = None if declared is None or declared.discovered is None else declared.discovered.service
            if before is not None and self._is_unread(before):
                continue  # Its present Service is unknown; the namespace has the fault.
            of_file = () if declared is None else declared.file_peers
            if both := {pod.id for pod in endpoints.pods or ()} & set(of_file):
                names = name_list.shown(sorted(both), endpoint_slices.MOST_NAMED)
                faults[f"upstream {upstream}"] = Fault(
                    f"the configuration file declares {names}, which are also pods of the Service {claim}: "
                    "the file takes precedence; remove them there"
                )
            last = self._declared.get(upstream)
            if endpoints.pods is None or (last is not None and last[0] is declared and last[1] is endpoints):
                continue
            fault = await declarer.declare_pods(upstream, str(claim), endpoints.pods)
            if fault is not None:
                faults[_part(str(claim))] = Fault(f"nothing changes: {fault}", f"upstream {upstream}", KIND)
            elif upstream in declarer.views:
                self._declared[upstream] = declarer.views[upstream].declaration, endpoints
        for upstream, view in declarer.views.items():
            by = view.declaration.discovered
            if by is not None and self.declaring_service(upstream, by.service) is None:
                faults[f"upstream {upstream}"] = Fault(
                    f"no Service declares it any more (the last was {by.service}): its last known servers "
                    f"stay; annotate the Service again, or delete the upstream"
                )
        return faults

    def _is_unread(self, service: str) -> bool:
        """Return whether the namespace of a Service (namespace/name) is watched but not listed yet."""
        namespace = service.partition("/")[0]
        return any(not scope.is_known for scope in self._scopes if scope.namespace in (None, namespace))


def _holders(views: Mapping[str, Cycle]) -> dict[str, str]:
    declared = {upstream: view.declaration.discovered for upstream, view in views.items()}
    return {upstream: known.service for upstream, known in declared.items() if known is not None}


def _part(service: str) -> str:
    return f"Kubernetes Service {service}"


def _are_same(before: Sequence[EndpointSlice], after: Sequence[EndpointSlice]) -> bool:
    return len(before) == len(after) and all(old is new for old, new in zip(before, after, strict=True))
