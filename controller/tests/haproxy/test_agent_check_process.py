"""Two controllers, Redis, Memcached and HAProxy, set up as in docs/guides/haproxy.md; the leader dies."""

import asyncio
import contextlib
import itertools
import json
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pymemcache.client.base import Client
from steelyard_protocol import wire

from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S

from ..examples import sample
from ..processes import own_token
from .haproxy_process import Edge, Web, documented, haproxy, replaced, running

pytestmark = pytest.mark.integration

PEERS = ("server-1", "server-2", "server-3")


def _request(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/merge-patch+json", **own_token()} if data else {}
    request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
        return json.load(answer)


class Controller:
    """One controller's process."""

    def __init__(self, number: int, memcached: Daemon, redis: Daemon, config: Path, folder: Path) -> None:
        self.api, self.check = free_port(), free_port()
        self.daemon = Daemon(
            [
                sys.executable, "-m", "steelyard_controller", "--config", str(config),
                "--memcached", memcached.address, "--state-url", f"redis://{redis.address}/0",
                "--api-port", str(self.api), "--agent-check-port", str(self.check),
                "--tick-s", "0.2", "--lease-s", "0.6", "--id", f"controller-{number}",
            ],
            self.check,
            folder / f"controller-{number}.log",
        )  # fmt: skip

    @property
    def url(self) -> str:
        """Return the URL of its API."""
        return f"http://127.0.0.1:{self.api}"

    async def leads(self) -> bool:
        """Return whether it leads."""
        try:
            answer = await asyncio.to_thread(_request, "GET", f"{self.url}/v1/service")
        except OSError:
            return False
        return bool(answer["role"] == "leader")


async def _agents(memcached: Daemon, cpu: dict[str, float]) -> None:
    """Write samples for ever."""
    client = Client(("127.0.0.1", memcached.port))
    try:
        for seq in itertools.count(1):
            for peer in PEERS:
                # Not in a thread, which could connect again after the end had closed its client.
                client.set(wire.sample_key("web", peer), sample(peer, seq=seq, cpu=cpu[peer]), noreply=False)
            await asyncio.sleep(0.1)
    finally:
        client.close()


@contextlib.asynccontextmanager
async def _edge(folder: Path, webs: list[Web], controllers: list[Controller]) -> AsyncIterator[Edge]:
    passing = free_port()
    config = replaced(
        documented(),
        [
            ("agent-port 8083", f"agent-port {passing}"),
            ("bind 127.0.0.1:8083", f"bind 127.0.0.1:{passing}"),
            *((f"10.0.0.1{n}:80", f"127.0.0.1:{web.port}") for n, web in enumerate(webs, 1)),
            *(
                (f"10.0.0.{4 + n}:8082", f"127.0.0.1:{each.check} port {each.api}")
                for n, each in enumerate(controllers, 1)
            ),
            ("check port 8081 inter 1s", "check inter 100ms"),
        ],
    )
    async with haproxy(folder, config) as edge:
        yield edge


def test_haproxy_follows_whoever_leads(memcached: Daemon, redis_server: Daemon, tmp_path: Path) -> None:
    cpu = dict.fromkeys(PEERS, 0.3)

    async def session() -> None:
        async with contextlib.AsyncExitStack() as stack:
            webs = [Web() for _ in PEERS]
            for web in webs:
                await web.start()
                stack.push_async_callback(web.stop)
            config = tmp_path / "controller.yaml"
            peers = [
                {"id": peer, "address": f"127.0.0.1:{web.port}", "baseline": 1}
                for peer, web in zip(PEERS, webs, strict=True)
            ]
            config.write_text(yaml.safe_dump({"upstreams": {"web": {"law": "paper", "peers": peers}}}))
            controllers = [Controller(n, memcached, redis_server, config, tmp_path) for n in (1, 2)]
            for each in controllers:
                stack.callback(each.daemon.kill)
                await asyncio.to_thread(each.daemon.start)
            await stack.enter_async_context(running(_agents(memcached, cpu)))
            edge = await stack.enter_async_context(_edge(tmp_path, webs, controllers))
            await asyncio.wait_for(_steps(edge, controllers, cpu), 4 * PATIENCE_S)

    asyncio.run(session())


async def _steps(edge: Edge, controllers: list[Controller], cpu: dict[str, float]) -> None:
    cpu["server-1"] = 0.95
    await edge.until(lambda servers: int(servers["server-1"]["weight"]) < 15)
    leader, standby = controllers if await controllers[0].leads() else reversed(controllers)

    peer = f"{leader.url}/v1/upstreams/web/peers/server-2"
    await asyncio.to_thread(_request, "PATCH", peer, {"state": "drain"})
    await edge.until(lambda servers: servers["server-2"]["status"] == "DRAIN (agent)")

    leader.daemon.kill()
    cpu["server-1"] = 0.3
    cpu["server-3"] = 0.95
    while not await standby.leads():
        servers = await edge.servers()
        assert servers["server-2"]["status"] == "DRAIN (agent)"
        assert servers["server-1"]["status"].startswith("UP")
    followed = await edge.until(lambda servers: int(servers["server-3"]["weight"]) < 15)
    assert followed["server-2"]["status"] == "DRAIN (agent)"

    peer = f"{standby.url}/v1/upstreams/web/peers/server-2"
    await asyncio.to_thread(_request, "PATCH", peer, {"state": "up"})
    await edge.until(lambda servers: servers["server-2"]["status"] == "UP")
