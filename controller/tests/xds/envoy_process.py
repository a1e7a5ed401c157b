"""A real Envoy with the configuration from docs/guides/envoy.md, and small servers behind it."""

import asyncio
import contextlib
import json
import re
import shutil
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from testing.answering_server import AnsweringServer
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S

DOCS = Path(__file__).parents[3] / "docs" / "guides" / "envoy.md"


def documented(word: str = "ads_config", changes: Iterable[tuple[str, str]] = ()) -> Any:
    """Return the first example of the documentation with a word (envoy.yaml), after these changes."""
    examples = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    text = next(each for each in examples if word in each)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    documents = list(yaml.safe_load_all(text))
    return documents if len(documents) > 1 else documents[0]


def cluster(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one cluster of a configuration."""
    found: dict[str, Any] = next(
        each for each in document["static_resources"]["clusters"] if each["name"] == name
    )
    return found


class Web(AnsweringServer):
    """Answers with its name, to /long only after `release`.

    Envoy's checks fail while it `is_sick`, and all other requests while it `is_broken`.
    """

    def __init__(
        self, name: str, headers: str = "", host: str = "127.0.0.1", port: int | None = None
    ) -> None:
        self._name, self._headers = name, headers
        self._released = asyncio.Event()
        self.is_sick = self.is_broken = False
        self.open = 0
        super().__init__(host, port)

    def release(self) -> None:
        """Answer the long requests."""
        self._loop.call_soon_threadsafe(self._released.set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: int) -> bool:  # noqa: ARG002
        """Answer one request with the name."""
        asked = await reader.readuntil(b"\r\n\r\n")
        if asked.startswith(b"GET /long "):
            self.open += 1
            await self._released.wait()
        fails = self.is_sick if b"Envoy/HC" in asked else self.is_broken
        status = "503 Fails" if fails else "200 OK"
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(self._name)}\r\n{self._headers}\r\n"
        writer.write(head.encode() + self._name.encode())
        await writer.drain()
        return True


@contextlib.contextmanager
def webs(*names: str, headers: str = "") -> Iterator[dict[str, Web]]:
    """Run a server for each name."""
    made: dict[str, Web] = {}
    try:
        for name in names:
            made[name] = Web(name, headers)
        yield made
    finally:
        for web in made.values():
            web.stop()


@dataclass
class Envoy:
    """The Envoy under test."""

    daemon: Daemon
    admin: int

    def endpoints(self, of: str = "web") -> dict[int, dict[str, Any]]:
        """Return Envoy's statistics of each server, by port."""
        document = json.loads(self.ask("/clusters?format=json"))
        hosts: list[dict[str, Any]] = next(
            (each.get("host_statuses", []) for each in document["cluster_statuses"] if each["name"] == of), []
        )
        return {each["address"]["socket_address"]["port_value"]: each for each in hosts}

    def weights(self, of: str = "web") -> dict[int, int]:
        """Return the weight of each server, by port."""
        return {port: each["weight"] for port, each in self.endpoints(of).items()}

    def states(self) -> dict[int, str]:
        """Return each server's health from EDS, by port."""
        return {port: each["health_status"]["eds_health_status"] for port, each in self.endpoints().items()}

    def connections(self) -> dict[int, int]:
        """Return the number of connections to each server so far, by port."""
        return {
            port: int(next((one.get("value", 0) for one in each["stats"] if one["name"] == "cx_total"), 0))
            for port, each in self.endpoints().items()
        }

    def ask(self, path: str) -> str:
        """Return the answer of its admin port."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())

    def unhealthy(self) -> set[int]:
        """Return the ports of the servers that fail Envoy's checks."""
        known = self.endpoints().items()
        return {port for port, each in known if "failed_active_health_check" in each["health_status"]}

    def passed_checks(self) -> int:
        """Return the number of checks that the servers of the cluster web have passed."""
        return int(self.ask("/stats?filter=^cluster.web.health_check.success$").split(":")[1])

    def request(self, path: str = "/") -> str:
        """Return the name of the server that answers 200, or another status."""
        url = f"http://127.0.0.1:{self.daemon.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.code)

    def requests(self, count: int) -> Counter[str]:
        """Send requests one after the other; return the names of the servers, or other statuses than 200."""
        return Counter(self.request() for _ in range(count))


@contextlib.contextmanager
def envoy(
    folder: Path, document: dict[str, Any], xds_ports: Iterable[int], node: str = "edge-1"
) -> Iterator[Envoy]:
    """Run Envoy with a configuration, which gets free ports and the controllers' own."""
    program = shutil.which("envoy") or shutil.which(Path(sys.executable).with_name("envoy"))
    if program is None:
        pytest.fail("envoy is not installed: run `make setup-tests`")
    port, admin = free_port(), free_port()
    document["admin"] = {"address": _at(admin)}
    document["static_resources"]["listeners"][0]["address"] = _at(port)
    endpoints = [{"endpoint": {"address": _at(each)}} for each in xds_ports]
    cluster(document, "steelyard")["load_assignment"]["endpoints"] = [{"lb_endpoints": endpoints}]
    path = folder / f"{node}.yaml"
    path.write_text(yaml.safe_dump(document))
    # With hot restarts it would share memory with every other Envoy here.
    flags = [
        "--disable-hot-restart",
        "--concurrency",
        "1",
        "--service-node",
        node,
        "--service-cluster",
        "edge",
    ]
    daemon = Daemon([program, "-c", str(path), *flags], port, folder / f"{node}.log")
    daemon.start()
    try:
        yield Envoy(daemon, admin)
    finally:
        daemon.kill()


def _at(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
