"""Lists and watches one kind of object in one namespace, or in all, until cancelled. I/O.

A list comes in pages, and is used only as a whole. A watch goes on from the
revision of the last event or bookmark. If the API server does not know that
revision, or its answer is not a watch, everything is listed again. An overloaded
or failing server (429, 500, 503) is asked for the same watch again: a whole list
would add to its load. A failure changes no `objects`; it is the `fault` until a
later attempt succeeds.

The API server should end each watch after `watch_s`. A watch that goes on for
longer is ended here. Nothing else reveals a server that hangs, or sends a byte a
second.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx

from steelyard_controller.discovery import claims, objects
from steelyard_controller.discovery.api_server import AccessError, ApiServer, one_line
from steelyard_controller.discovery.objects import EndpointSlice, Event, Key, Service, UnreadableError

log = logging.getLogger("steelyard.controller")

Object = TypeVar("Object", Service, EndpointSlice)

PAGE_OBJECTS = 500

NO_HEADERS: Mapping[str, str] = {}

# In the message of a watch from a revision that the API server has not reached (kube-apiserver, 504).
TOO_LARGE = "Too large resource version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of watches, lists and pauses, in seconds.

    watch_s           length of a watch: its end reveals a dead connection that the kernel did not notice,
                      and a new watch costs one request
    late_s            extra time before a watch is ended here
    page_s            limit for a page of a list; it takes a second unless the API server is overloaded
    first_pause_s     pause after a fault; it doubles with each further fault
    longest_pause_s   limit of that pause, and of the pause that a server asks for, as in client-go
    """

    watch_s: float = 60.0
    late_s: float = 15.0
    page_s: float = 30.0
    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0


TIMING = Timing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[Object]):
    """A kind of object: the start of its path, its name there, its RBAC group, and its model.

    Only `wanted` objects are kept: most Services of a cluster are not.
    """

    prefix: str
    plural: str
    group: str
    model: type[Object]
    wanted: Callable[[Object], bool]

    def path(self, namespace: str | None) -> str:
        """Return the path of the objects of a namespace; None: of all."""
        within = "" if namespace is None else f"namespaces/{namespace}/"
        return f"{self.prefix}/{within}{self.plural}"


SERVICES = Kind(
    prefix="/api/v1",
    plural="services",
    group="",
    model=Service,
    wanted=claims.has_claim,
)
ENDPOINT_SLICES = Kind(
    prefix="/apis/discovery.k8s.io/v1",
    plural="endpointslices",
    group="discovery.k8s.io",
    model=EndpointSlice,
    wanted=lambda each: bool(each.service[1]),
)


class _Gone(Exception):
    """The API server does not know the revision to go on from."""


class _Refused(Exception):
    """The API server's answer is another one than requested; the message says how.

    `pause_s` is the pause that it asks for (Retry-After), 0 without one.
    """

    def __init__(self, message: str, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.pause_s = pause_s


class Watch(Generic[Object]):
    """The objects of one kind in a namespace (None: all); `clock` gives the time of ages, in seconds."""

    def __init__(
        self,
        api: ApiServer,
        kind: Kind[Object],
        *,
        namespace: str | None,
        clock: Callable[[], float],
        changed: Callable[[], None],
        timing: Timing = TIMING,
    ) -> None:
        self._api = api
        self.kind: Kind[Object] = kind
        self.namespace = namespace
        self._clock = clock
        self._changed = changed
        self._timing = timing
        self._objects: Mapping[Key, Object] | None = None
        self._fault: str | None = None
        self._last_answer_s: float | None = None
        self._lists = 0
        self._revision: str | None = None
        self._is_late = False

    @property
    def objects(self) -> Mapping[Key, Object] | None:
        """Return the objects at the API server, as last seen; None before the first whole list."""
        return self._objects

    @property
    def fault(self) -> str | None:
        """Return the last request's fault; None if it succeeded."""
        return self._fault

    @property
    def last_answer_s(self) -> float | None:
        """Return the time of the last whole list, event, bookmark or end of a watch."""
        return self._last_answer_s

    @property
    def lists(self) -> int:
        """Return the number of whole lists taken."""
        return self._lists

    @property
    def where(self) -> str:
        """Return the watched namespaces, in words."""
        return "all namespaces" if self.namespace is None else f"namespace {self.namespace}"

    async def run(self) -> None:
        """List and watch until cancelled."""
        pause_s = self._timing.first_pause_s
        while True:
            began_s, asked_s = self._clock(), 0.0
            try:
                async with await self._api.connect() as client:
                    await self._follow(client)
            except _Gone:
                self._revision = None
                log.info(
                    "%s in %s: the API server does not know the revision of the watch; listing again",
                    self.kind.plural, self.where, extra={"event": "relist"},
                )  # fmt: skip
            except _Refused as error:
                self._fault, asked_s = str(error), min(error.pause_s, self._timing.longest_pause_s)
            except UnreadableError as error:
                self._revision = None
                self._fault = f"{error}: is this a Kubernetes API server?"
            except (AccessError, TimeoutError) as error:
                self._fault = str(error)
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                self._fault = f"the API server is unreachable: {one_line(error)}"
            except Exception as error:
                # An unexpected error must not end the discovery: the known objects stay.
                log.exception("watching %s in %s failed; it is tried again", self.kind.plural, self.where)
                self._revision, self._fault = None, one_line(error)
            self._changed()
            if self._clock() - began_s > self._timing.longest_pause_s:
                # The watch worked for a while, so this fault is a new one.
                pause_s = self._timing.first_pause_s
            # Drawn, because all controllers of a cluster met the fault at the same time.
            await asyncio.sleep(max(asked_s, random.uniform(0.5, 1.0) * pause_s))  # noqa: S311
            pause_s = min(2 * pause_s, self._timing.longest_pause_s)

    async def _follow(self, client: httpx.AsyncClient) -> None:
        while True:
            if self._revision is None:
                await self._list(client)
            began_s = self._clock()
            await self._watch(client)
            # A server that ends each watch at once must not be asked without pause.
            await asyncio.sleep(max(0.0, began_s + self._timing.first_pause_s - self._clock()))

    async def _list(self, client: httpx.AsyncClient) -> None:
        listed: dict[Key, Object] = {}
        token: str | None = None
        while True:
            parameters: dict[str, Any] = {"limit": PAGE_OBJECTS}
            if token:
                parameters["continue"] = token
            try:
                async with asyncio.timeout(self._timing.page_s):
                    answer = await client.get(self.kind.path(self.namespace), params=parameters)
            except TimeoutError:
                raise TimeoutError(f"no whole list came within {self._timing.page_s:g} s") from None
            self._judge("list", answer.status_code, answer.content, answer.headers)
            page = objects.read(answer.content, objects.Page)
            for item in page.items or ():
                each = objects.read(item, self.kind.model)
                if self.kind.wanted(each):
                    listed[each.metadata.namespace, each.metadata.name] = each
            token = page.metadata.continue_token
            if not token:
                break
        self._objects, self._revision = listed, page.metadata.resource_version
        self._lists += 1
        self._is_late = False
        self._answered()

    async def _watch(self, client: httpx.AsyncClient) -> None:
        parameters = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._revision or "",
            "timeoutSeconds": f"{self._timing.watch_s:g}",
        }
        try:
            async with (
                asyncio.timeout(self._timing.watch_s + self._timing.late_s),
                client.stream("GET", self.kind.path(self.namespace), params=parameters) as answer,
            ):
                if answer.status_code != 200:
                    self._judge("watch", answer.status_code, await answer.aread(), answer.headers)
                if not self._is_late:
                    self._answered()
                async for line in _lines(answer):
                    self._take(objects.read(line, Event))
        except TimeoutError:
            self._is_late = True
            longest_s = self._timing.watch_s + self._timing.late_s
            raise TimeoutError(
                f"a watch did not end within {longest_s:g} s: the API server hangs, or is too slow"
            ) from None
        self._is_late = False
        self._answered()

    def _take(self, event: Event) -> None:
        if event.type == "ERROR":
            status = objects.read_status(event.object)
            self._judge("watch", status.code or 500, bytes(event.object))
        if event.type == "BOOKMARK":
            self._revision = objects.revision_of(event.object)
        elif event.type in {"ADDED", "MODIFIED", "DELETED"}:
            each = objects.read(event.object, self.kind.model)
            key = each.metadata.namespace, each.metadata.name
            after = dict(self._objects or {})
            after.pop(key, None)
            if event.type != "DELETED" and self.kind.wanted(each):
                after[key] = each
            self._objects, self._revision = after, each.metadata.resource_version
        else:
            raise UnreadableError(f"an event of a watch is {event.type[:40]!r}")
        self._answered()

    def _answered(self) -> None:
        self._last_answer_s = self._clock()
        self._fault = None
        self._changed()

    def _judge(self, verb: str, status: int, body: bytes, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Raise for an answer that is not the one asked for."""
        if status == 200:
            return
        reason = objects.read_status(body).message or "no reason given"
        # 410: the revision was compacted. 400 and 504: etcd was restored, and never had the revision.
        if status == 410 or (self._revision and (status == 400 or (status == 504 and TOO_LARGE in reason))):
            raise _Gone
        if status == 401:
            raise _Refused(f"the API server does not accept the credentials (401): {reason}")
        if status == 403:
            role = (
                "ClusterRole and ClusterRoleBinding"
                if self.namespace is None
                else (f"Role and RoleBinding in {self.namespace}")
            )
            raise _Refused(
                f"no right to {verb} {self.kind.plural} in {self.where} ({reason}): give the controller's "
                f"ServiceAccount list and watch on {self.kind.plural}"
                f"{'.' + self.kind.group if self.kind.group else ''} by a {role}"
            )
        if status == 404:
            raise _Refused(
                f"the API server has no {self.kind.prefix}/{self.kind.plural} (404): it is older "
                "than 1.21, or something else answers there"
            )
        raise _Refused(f"the API server answers {status}: {reason}", _retry_after_s(headers))


def _retry_after_s(headers: Mapping[str, str]) -> float:
    # API servers send seconds, never a date.
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0


async def _lines(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the non-empty lines of a body, without a last one that has no newline."""
    rest = b""
    async for part in answer.aiter_bytes():
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
