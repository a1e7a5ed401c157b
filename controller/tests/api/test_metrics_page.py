"""/metrics: the thread that makes it, how often, and the number of servers in it."""

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from steelyard_controller import settings
from steelyard_controller.api import metrics
from steelyard_controller.api.metrics import MetricsPage
from steelyard_controller.instruments import Instruments
from steelyard_protocol.wire import REASONS

from testing.waiting import PATIENCE_S

from .serving import WEB, service_of, serving

TICK_S = 0.05
SERVER = 'steelyard_peer_weight{peer="server-1",upstream="web"}'


class Rendered:
    """Texts that count their predecessors, and a stopped clock."""

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
            # The event loop sets it: never, if this runs in it.
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
    assert settings.load([], {}).metrics_servers == metrics.MOST_SERVERS


def test_the_controller_tells_of_itself() -> None:
    with serving() as api:
        assert api.head("/v1/service").status_code == 200
        assert api.get("/v1/nothing").status_code == 404
        assert api.request("BREW", "/v1/service").status_code == 405
        text = api.get("/metrics").text
    for line in (
        'steelyard_build_info{version="',
        "process_resident_memory_bytes ",
        'steelyard_api_requests_total{method="HEAD",status="200"} 1.0',
        'steelyard_api_requests_total{method="GET",status="404"} 1.0',
        'steelyard_api_requests_total{method="other",status="405"} 1.0',
        "steelyard_event_readers 0.0",
        "steelyard_events_missed_total 0.0",
        'steelyard_clamped_peers{bound="floor",upstream="web"} 0.0',
        'steelyard_peer_prior_share{peer="server-1",upstream="web"} 1.0',
    ):
        assert line in text, line


def test_each_counter_of_an_alert_begins_at_0_before_anything_happens() -> None:
    rules = (Path(__file__).parents[3] / "monitoring/alerts.yml").read_text()
    counted = set(re.findall(r'(?:increase|rate)\((steelyard_\w+)\{job="steelyard-controller"', rules))
    assert "steelyard_refused_total" in counted
    with serving() as api:
        text = api.get("/metrics").text
    for name in counted:
        assert f"{name}{{" in text, name
    for reason in REASONS:
        assert f'steelyard_refused_total{{reason="{reason}",upstream="web"}} 0.0' in text


def test_what_is_measured_of_ticks_and_connections_is_a_histogram_each() -> None:
    it = Instruments("1.2.3")
    it.ticked(0.02, -1e-9)
    it.memcached_took("10.0.0.5:11211", 0.3)
    it.redis.observe(0.002)
    it.lease_left_s = 2.5
    registry = CollectorRegistry()
    registry.register(it)
    of = registry.get_sample_value
    assert of("steelyard_build_info", {"version": "1.2.3"}) == 1
    assert of("steelyard_tick_seconds_bucket", {"le": "0.025"}) == 1
    assert of("steelyard_tick_seconds_bucket", {"le": "0.01"}) == 0
    assert of("steelyard_tick_late_seconds_bucket", {"le": "0.001"}) == 1
    assert of("steelyard_memcached_seconds_sum", {"server": "10.0.0.5:11211"}) == 0.3
    assert of("steelyard_redis_seconds_count") == 1
    assert of("steelyard_lease_left_seconds") == 2.5
