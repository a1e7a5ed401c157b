"""The demo server's pool of workers: holding, waiting, and the figures in /metrics."""

import asyncio

import prometheus_client.parser
import pytest
from starlette.types import Message, Receive, Scope, Send
from steelyard_loadtest.server.answered import Answered, Count


class Application:
    """Answers when it is let go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.began: list[str] = []

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.began.append(scope["path"])
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


async def ask(app: Answered, path: str) -> bytes:
    body = b""

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        nonlocal body
        body += message.get("body", b"")

    await app({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send)
    return body


async def gauges(app: Answered) -> dict[str, float]:
    text = (await ask(app, "/metrics")).decode()
    families = prometheus_client.parser.text_string_to_metric_families(text)
    return {
        sample.name.removeprefix("demo_"): sample.value
        for one in families
        if one.type == "gauge"
        for sample in one.samples
    }


def test_no_more_requests_than_workers_are_served_at_a_time_and_the_others_wait_in_order() -> None:
    async def run() -> None:
        served = Application()
        app = Answered(served, Count(None), workers=2)
        assert await gauges(app) == {"workers_busy": 0, "workers": 2}
        asked = []
        for path in ("/", "/sleep", "/io", "/bytes"):
            asked.append(asyncio.create_task(ask(app, path)))
            await asyncio.sleep(0)
        assert served.began == ["/", "/sleep"]
        assert await gauges(app) == {"workers_busy": 2, "workers": 2}
        served.go_on.set()
        assert await asyncio.gather(*asked) == [b"ok"] * 4
        assert served.began == ["/", "/sleep", "/io", "/bytes"]
        assert await gauges(app) == {"workers_busy": 0, "workers": 2}

    asyncio.run(run())


def test_what_is_no_load_takes_no_worker() -> None:
    async def run() -> None:
        served = Application()
        app = Answered(served, Count(None), workers=1)
        asked = [asyncio.create_task(ask(app, path)) for path in ("/", "/healthz", "/burn")]
        await asyncio.sleep(0)
        assert served.began == ["/", "/healthz", "/burn"]
        served.go_on.set()
        await asyncio.gather(*asked)

    asyncio.run(run())


def test_a_request_that_is_given_up_leaves_its_worker_and_its_place() -> None:
    async def run() -> None:
        served = Application()
        app = Answered(served, Count(None), workers=1)
        holds, waits = (asyncio.create_task(ask(app, "/")) for _ in range(2))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert await gauges(app) == {"workers_busy": 1, "workers": 1}
        holds.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holds
        assert await gauges(app) == {"workers_busy": 0, "workers": 1}

    asyncio.run(run())
