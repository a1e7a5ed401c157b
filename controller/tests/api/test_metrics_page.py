"""/metrics: where it is made, how often, and of how many servers."""

import asyncio
import threading
from typing import Any

import pytest
from steelyard_controller.api import metrics
from steelyard_controller.api.metrics_page import MetricsPage

from testing.waiting import PATIENCE_S

from .serving import WEB, service_of, serving

TICK_S = 0.05
SERVER = 'steelyard_peer_weight{peer="server-1",upstream="web"}'


class Rendered:
    """Texts that say how many were made before, and a clock that stands."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.count = 0
        self.page = MetricsPage(service_of(), render=self.render, clock=lambda: self.now_s)

    def render(self, *_: Any, **__: Any) -> bytes:
        self.count += 1
        return b"%d" % self.count


def test_it_is_made_once_a_tick_however_many_ask() -> None:
    async def run() -> None:
        it = Rendered()
        assert await asyncio.gather(*(it.page.text() for _ in range(5))) == [b"1"] * 5
        it.now_s += 0.9 * TICK_S
        assert await it.page.text() == b"1"
        it.now_s += 0.2 * TICK_S
        assert await it.page.text() == b"2"

    asyncio.run(run())


def test_nobody_waits_for_it_but_who_asks() -> None:
    async def run() -> None:
        lives = threading.Event()

        def render(*_: Any, **__: Any) -> bytes:
            # The event loop sets it: never, where this runs in it.
            assert lives.wait(PATIENCE_S)
            return b"text"

        asked = asyncio.create_task(MetricsPage(service_of(), render=render).text())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(lives.set)
        assert await asked == b"text"

    asyncio.run(run())


@pytest.mark.parametrize(("most", "has"), [(2, 1), (1, 0), (0, 0)])
def test_single_servers_have_series_up_to_so_many(most: int, has: int) -> None:
    assert len(WEB["peers"]) == 2
    with serving(metrics_servers=most) as api:
        text = api.get("/metrics").text
    assert (SERVER in text) == bool(has)
    assert f"steelyard_server_series {has}.0" in text
    assert 'steelyard_peers{state="up",upstream="web"} 2.0' in text


def test_a_failure_to_make_it_is_no_answer_for_the_next_one() -> None:
    async def run() -> None:
        it = Rendered()
        calls: list[int] = []

        def render(*_: Any, **__: Any) -> bytes:
            calls.append(1)
            if len(calls) == 1:
                raise LookupError("broken")
            return b"text"

        page = MetricsPage(service_of(), render=render, clock=lambda: it.now_s)
        with pytest.raises(LookupError):
            await page.text()
        assert await page.text() == b"text"

    asyncio.run(run())


def test_the_default_of_the_setting_is_that_of_the_page() -> None:
    from steelyard_controller.settings import Settings

    assert Settings.model_fields["metrics_servers"].default == metrics.MOST_SERVERS
