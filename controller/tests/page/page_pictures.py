"""The screenshots of docs/reference/page.md: `scripts/page --pictures`. I/O.

Fifteen simulated minutes are put into a Redis as a controller's history, then a real one goes on
from there. A neighbour takes half of server-2's CPU for five minutes, server-3 is drained for one, and then
server-4 has a neighbour too.
"""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import redis
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from steelyard_controller.declarations.declaration import Declaration, with_patch
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.store import saved_state
from steelyard_controller.tick import history_moment
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import shares
from steelyard_protocol import wire

from testing.daemons import Daemon, free_port

from ..examples import advance
from .page_rig import Feeder, wait_for
from .page_world import FIVE, World

SECONDS = 890
HISTORY = "steelyard:1:history:web"
DRAINED_S = (720, 780)
LBS = ("edge-1", "edge-2")
MACHINES = [
    replace(machine, burned_s=(860.0, 1e9)) if machine.id == "server-4" else machine for machine in FIVE
]
BASELINES = {"server-1": 2, "server-2": 2, "server-3": 1, "server-4": 1, "server-5": 4}
WEB = {
    "load_balancers": list(LBS),
    "shadows": {"paper": {"H": 0.5, "L": 0.6}},
    "peers": [
        {"id": machine.id, "address": f"10.0.0.1{machine.id[-1]}:80", "baseline": BASELINES[machine.id]}
        for machine in MACHINES
    ],
}


def main(folder: Path) -> None:
    """Write the pictures into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, _running(Path(name)) as url, sync_playwright() as driver:
        path = shutil.which("chromium") or sys.exit("chromium is not installed: run `make setup-tests`")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        _take(browser, url, folder)
        browser.close()


def _take(browser: Browser, url: str, folder: Path) -> None:
    page = _open(browser, f"{url}/#/web", width=1280, height=1190)
    _shoot(page, folder / "page-light.png")
    page = _open(browser, f"{url}/#/web/server-4", width=1280, height=900, dark=True)
    expect(page.locator("#panel .chain li").last).to_contain_text("Weight")
    _shoot(page, folder / "page-why.png")
    page = _open(browser, f"{url}/#/web", width=390, height=844, dark=True)
    _shoot(page, folder / "page-phone.png")
    page.evaluate("document.querySelector('[data-peer=server-4]').scrollIntoView({block: 'center'})")
    _shoot(page, folder / "page-phone-servers.png")


def _open(browser: Browser, url: str, *, width: int, height: int, dark: bool = False) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    with page.expect_response(lambda answer: "/history?" in answer.url):
        page.goto(url)
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("tbody[data-peer]")).to_have_count(5)
    page.wait_for_timeout(1500)  # one tick, and the bars have come to rest
    return page


def _shoot(page: Page, path: Path) -> None:
    page.screenshot(path=path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[str]:
    """Run a controller with a history, and yield its URL."""
    ports = [free_port() for _ in range(3)]
    memcached = Daemon(
        ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(ports[0]), "-U", "0"],
        ports[0],
        folder / "m",
    )
    store = Daemon(
        ["redis-server", "--bind", "127.0.0.1", "--port", str(ports[1]), "--save", "", "--dir", str(folder)],
        ports[1], folder / "r",
    )  # fmt: skip
    config = folder / "controller.yaml"
    config.write_text(json.dumps({"upstreams": {"web": WEB}}), encoding="utf-8")
    command = [sys.executable, "-m", "steelyard_controller", "--config", str(config), "--id", "controller-1"]
    command += ["--memcached", memcached.address, "--state-url", f"redis://{store.address}/0"]
    controller = Daemon([*command, "--api-port", str(ports[2])], ports[2], folder / "c")
    url = f"http://{controller.address}"
    world = World(MACHINES)
    began_s = time.monotonic() - SECONDS - 5
    with contextlib.ExitStack() as running:
        for daemon in (memcached, store):
            daemon.start()
            running.callback(daemon.kill)
        # The first start declares the upstream, so that the second one goes on without a wait.
        controller.start()
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "the first tick")
        assert controller.process is not None
        controller.process.terminate()
        controller.process.wait()
        _past(store.port, world)
        running.enter_context(
            Feeder(
                memcached.port, {"web": world}, every_s=1.0, clock=lambda: time.monotonic() - began_s, lbs=LBS
            )
        )
        controller.start()
        running.callback(controller.kill)
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "the first tick")
        time.sleep(4)
        yield url


def _past(port: int, world: World) -> None:
    """Write the history of the last minutes, as a controller would."""
    client = redis.Redis(port=port)
    client.delete(HISTORY)
    upstream = Upstream.model_validate(WEB)
    drained = with_patch(upstream, "server-3", {"state": "drain"})
    cycle = Cycle("web", Declaration(upstream=upstream), tick_s=1.0)
    term, now_ms = int(time.time()) - 10_000, time.time_ns() // 1_000_000
    share = {machine.id: 1 / len(MACHINES) for machine in MACHINES}
    for second in range(SECONDS):
        cycle.declaration = Declaration(
            upstream=drained if DRAINED_S[0] <= second < DRAINED_S[1] else upstream
        )
        samples, reports = world.step(second, share, order=(term, cycle.generation), lbs=LBS)
        values = {wire.sample_key("web", peer): text for peer, text in samples.items()}
        values |= {wire.traffic_key("web", lb): text for lb, text in reports.items()}
        at_ms = now_ms - 1000 * (SECONDS - second)
        outcome, _ = advance(cycle, values, now_s=float(second), term=term, issued_at_ms=at_ms, addresses={})
        cycle.outcome = outcome
        share = {peer.id: part for peer, part in zip(outcome.table.peers, shares(outcome.table), strict=True)}
        client.xadd(HISTORY, {"m": history_moment.encode(outcome)}, id=f"{at_ms}-0")
    client.set("steelyard:1:state:web", saved_state.encode(cycle.saved(term=term)))
    client.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
