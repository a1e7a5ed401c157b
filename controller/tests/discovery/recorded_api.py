"""A Kubernetes API of recorded answers: lists by pages, watches, refusals, and its possible faults.

Its documents are those of a real kube-apiserver, in recordings/kubernetes.json, which testing/kubernetes
compares with one; the bookmarks are those of the API reference. Names and addresses are a test's own.
"""

import asyncio
import contextlib
import copy
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from testing.answering_server import AnsweringServer

RECORDED = json.loads((Path(__file__).parent / "recordings" / "kubernetes.json").read_text())

PLURALS = {"Service": "services", "EndpointSlice": "endpointslices"}

# The time between two checks for changes, and between two bytes of a server that drips.
LOOK_S, DRIP_S = 0.01, 0.02


def service(name: str = "web", namespace: str = "shop", **annotations: str) -> dict[str, Any]:
    """Return a Service as it was recorded, under another name."""
    made: dict[str, Any] = copy.deepcopy(RECORDED["service"])
    made["metadata"] |= {"name": name, "namespace": namespace}
    made["metadata"]["annotations"] |= {"steelyard/upstream": name} | annotations
    return made


def endpoint_slice(
    *pods: str, service: str = "web", name: str = "web-1", namespace: str = "shop", **conditions: bool
) -> dict[str, Any]:
    """Return an EndpointSlice as it was recorded, with these pods: `name=address`."""
    made: dict[str, Any] = copy.deepcopy(RECORDED["endpointslice"])
    endpoint = made["endpoints"][0]
    made["metadata"] |= {"name": name, "namespace": namespace}
    made["metadata"]["labels"]["kubernetes.io/service-name"] = service
    made["endpoints"] = []
    for pod in pods:
        called, _, address = pod.partition("=")
        one = copy.deepcopy(endpoint)
        one["addresses"] = [address]
        one["conditions"] |= conditions
        one["targetRef"] |= {"name": called, "namespace": namespace, "uid": f"uid-{called}"}
        made["endpoints"].append(one)
    return made


class RecordedApi(AnsweringServer):
    """Answers as a healthy kube-apiserver does; its kubeconfig is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.illness: str | int | None = None
        """`hang`, `drip`, `cut` (amidst an answer), `garbage`, `empty`, or the status of every answer."""
        self.ill_from_page: str | None = None
        """The token of the pages that are cut off."""
        self.forbidden: set[str] = set()
        """The namespaces that may not be read."""
        self.retry_after: str | None = None
        """The header of every answer with that status."""
        self.page_objects = 500
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.tokens: list[str] = []
        self.watching = 0
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._log: list[tuple[int, str, dict[str, Any]]] = []
        self._revision, self._forgotten = 100, 0
        self._over_before = 0
        super().__init__()
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                    "users": [{"name": "u", "user": {"token": "of-the-test"}}],
                }
            )
        )

    def put(self, *documents: dict[str, Any]) -> None:
        """Add objects, or change them."""
        for document in documents:
            key = _key(document)
            self._write("MODIFIED" if key in self._objects else "ADDED", key, document)

    def delete(self, document: dict[str, Any]) -> None:
        """Delete an object."""
        self._write("DELETED", _key(document), document)

    def forget(self) -> None:
        """Forget all earlier revisions, and end the watches: they get 410 Gone when they come back."""
        self._revision += 1
        self._forgotten = self._revision
        self.end_watches()

    def lose_unseen(self, document: dict[str, Any]) -> None:
        """Delete an object without an event, as during a long absence of the watches."""
        del self._objects[_key(document)]
        self.forget()

    def end_watches(self) -> None:
        """End the watches as a server that restarts does."""
        self._over_before += 1

    def lists(self, plural: str) -> int:
        """Return the number of requests for a list's first page."""
        return sum(
            path.endswith(plural) and "watch" not in given and "continue" not in given
            for path, given in self.requests
        )

    def _write(self, kind: str, key: tuple[str, str, str], document: dict[str, Any]) -> None:
        self._revision += 1
        written = copy.deepcopy(document)
        written["metadata"]["resourceVersion"] = str(self._revision)
        if kind == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = written
        self._log.append((self._revision, kind, written))

    def stop(self) -> None:
        """End it; a second call does nothing."""
        if not self.over.is_set():
            super().stop()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> bool:
        """Answer a request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = urlsplit(head.split()[1])
        given = {name: values[0] for name, values in parse_qs(target.query, keep_blank_values=True).items()}
        self.requests.append((target.path, given))
        self.tokens += [line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("Auth")]
        parts = target.path.split("/")
        namespace = parts[-2] if "namespaces" in parts else None
        illness = (
            "cut" if self.ill_from_page and self.ill_from_page == given.get("continue") else self.illness
        )
        if await self._is_ill(writer, illness):
            return False
        if namespace in self.forbidden or isinstance(self.illness, int):
            status = self.illness if isinstance(self.illness, int) else 403
            refusal = RECORDED["statuses"].get(str(status), {})
            return await self._send(writer, status, json.dumps(refusal).encode())
        if "watch" in given:
            return await self._watch(writer, parts[-1], namespace, given)
        return await self._list(writer, parts[-1], namespace, given)

    async def _is_ill(self, writer: asyncio.StreamWriter, illness: str | int | None) -> bool:
        if illness == "hang":
            await self.over.wait()
        elif illness == "drip":
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            with contextlib.suppress(OSError):
                while self.illness == "drip":
                    writer.write(b"1\r\n \r\n")
                    await writer.drain()
                    await asyncio.sleep(DRIP_S)
        elif illness == "cut":
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"metadata":')
            await writer.drain()
        elif illness == "garbage":
            await self._send(writer, 200, b"<html>\n")
        elif illness == "empty":
            await self._send(writer, 200, b'{"metadata":{},"items":[]}\n')
        else:
            return False
        return True

    def _of(self, plural: str, namespace: str | None) -> list[dict[str, Any]]:
        return [
            document
            for (kind, where, _), document in sorted(self._objects.items())
            if kind == plural and namespace in (None, where)
        ]

    async def _list(
        self, writer: asyncio.StreamWriter, plural: str, namespace: str | None, given: dict[str, str]
    ) -> bool:
        first = int(given.get("continue", "0"))
        documents = self._of(plural, namespace)
        last = first + min(self.page_objects, int(given["limit"]))
        document = copy.deepcopy(RECORDED["list"][plural])
        document["metadata"]["resourceVersion"] = str(self._revision)
        document["items"] = documents[first:last]
        if last < len(documents):
            document["metadata"] |= {"continue": str(last), "remainingItemCount": len(documents) - last}
        return await self._send(writer, 200, json.dumps(document).encode())

    async def _watch(
        self, writer: asyncio.StreamWriter, plural: str, namespace: str | None, given: dict[str, str]
    ) -> bool:
        seen, over = int(given["resourceVersion"]), self._over_before
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        if seen < self._forgotten:
            _chunk(writer, {"type": "ERROR", "object": RECORDED["statuses"]["410"]})
        else:
            self.watching += 1
            until_s = time.monotonic() + float(given["timeoutSeconds"])
            while over == self._over_before and time.monotonic() < until_s:
                for revision, kind, document in [each for each in self._log if each[0] > seen]:
                    seen = revision
                    if _key(document)[0] == plural and namespace in (None, _key(document)[1]):
                        _chunk(writer, {"type": kind, "object": document})
                await writer.drain()
                await asyncio.sleep(LOOK_S)
            self.watching -= 1
            bookmark = copy.deepcopy(RECORDED["bookmark"][plural])
            bookmark["object"]["metadata"]["resourceVersion"] = str(seen)
            _chunk(writer, bookmark)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _send(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> bool:
        head = f"HTTP/1.1 {status} Recorded\r\nContent-Length: {len(body)}\r\n"
        if self.retry_after is not None and status != 200:
            head += f"Retry-After: {self.retry_after}\r\n"
        writer.write(f"{head}\r\n".encode() + body)
        await writer.drain()
        return True


def _key(document: dict[str, Any]) -> tuple[str, str, str]:
    about = document["metadata"]
    return PLURALS[document["kind"]], about["namespace"], about["name"]


def _chunk(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    line = json.dumps(event).encode() + b"\n"
    # In two parts, because a network may split a line anywhere.
    for part in (line[:7], line[7:]):
        writer.write(b"%x\r\n%b\r\n" % (len(part), part))
