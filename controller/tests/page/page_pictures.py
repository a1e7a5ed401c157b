"""The screenshots of docs/reference/page.md: `scripts/page --pictures`. I/O.

Six upstreams, of which three need a person. Fifteen simulated minutes of `web` are put into a Redis as a
controller's history, then a real one goes on from there. A neighbour takes half of server-2's CPU for five
minutes, server-3 is drained for one, and then server-4 has a neighbour too.
"""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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

from testing.daemons import Daemon, free_port, memcached_in, redis_in

from ..examples import advance
from .page_rig import BROWSER, Feeder, wait_for
from .page_world import FIVE, Machine, World

SECONDS = 890
READ_TOKEN = "a-token-of-those-who-look"  # noqa: S105 - for the pictures alone
TOKENS = {name: f"{name}-of-the-pictures" for name in ("anna", "bert")}
HISTORY = "steelyard:1:history:web"
GIVE_TOKEN = f"sessionStorage.setItem('steelyard-token', '{TOKENS['anna']}')"
DRAINED_S = (720, 780)
LBS = ("edge-1", "edge-2")
MACHINES = [
    replace(machine, burned_s=(860.0, 1e9)) if machine.id == "server-4" else machine for machine in FIVE
]
ZONES = {"edge-1": "eu-1a", "edge-2": "eu-1b"}
# More than the near servers can carry, so that some requests cross.
BRINGS = {"edge-1": 0.6, "edge-2": 0.4}
BASELINES = {"server-1": 2, "server-2": 2, "server-3": 1, "server-4": 1, "server-5": 4}
WEB = {
    "load_balancers": list(LBS),
    "shadows": {"paper": {"H": 0.5, "L": 0.6}},
    "peers": [
        {
            "id": machine.id,
            "address": f"10.0.0.1{machine.id[-1]}:80",
            "baseline": BASELINES[machine.id],
            "zone": "eu-1a" if machine.id in ("server-1", "server-3", "server-4") else "eu-1b",
        }
        for machine in MACHINES
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An upstream beside `web`: its machines, their demand, and changes of its servers by Anna."""

    machines: tuple[Machine, ...]
    demand: float
    changes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def _equals(count: int, **more: Any) -> tuple[Machine, ...]:
    return tuple(
        Machine(id=f"server-{n}", speed=300.0, **(more if n == 1 else {})) for n in range(1, count + 1)
    )


OTHERS = {
    "accounts": Shown(machines=_equals(3), demand=240.0),
    "checkout": Shown(machines=_equals(2), demand=535.0),
    "images": Shown(machines=_equals(4), demand=330.0, changes={"server-2": {"state": "drain"}}),
    "payments": Shown(machines=_equals(3, fails=0.12), demand=210.0),
    "search": Shown(machines=_equals(3, silent=True), demand=180.0),
}
FLEET = ("web", *OTHERS)
ONLY = ("web",)


def main(folder: Path) -> None:
    """Write the pictures into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        path = shutil.which(BROWSER) or sys.exit(f"{BROWSER} is not installed: run `make setup-tests`")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with tempfile.TemporaryDirectory() as name, running(Path(name), FLEET) as url:
            _take(browser, url, folder)
        with tempfile.TemporaryDirectory() as name, closed(Path(name)) as url:
            page = _context(browser, width=1280, height=640, token=False)
            page.goto(url)
            expect(page.locator("#gate")).to_be_visible()
            _shoot(page, folder / "page-token.png")
        browser.close()


def _take(browser: Browser, url: str, folder: Path) -> None:
    page = _context(browser, width=1280, height=620)
    page.goto(url)
    expect(page.locator("#all .card")).to_have_count(len(FLEET))
    page.wait_for_timeout(1500)
    _shoot(page, folder / "page-upstreams.png")
    page = _open(browser, f"{url}/#/web", width=1280, height=1220)
    _shoot(page, folder / "page-light.png")
    page = _open(browser, f"{url}/#/web/server-4", width=1280, height=900, dark=True)
    expect(page.locator("#panel .chain li").last).to_contain_text("Weight")
    _shoot(page, folder / "page-why.png")
    page = _open(browser, f"{url}/#/web", width=390, height=844, dark=True)
    _shoot(page, folder / "page-phone.png")
    page.evaluate("document.querySelector('[data-peer=server-4]').scrollIntoView({block: 'center'})")
    _shoot(page, folder / "page-phone-servers.png")


def _open(browser: Browser, url: str, *, width: int, height: int, dark: bool = False) -> Page:
    page = _context(browser, width=width, height=height, dark=dark)
    with page.expect_response(lambda answer: "/history?" in answer.url):
        page.goto(url)
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("tbody[data-peer]")).to_have_count(5)
    page.wait_for_timeout(1500)  # one tick, and the bars have come to rest
    return page


def _context(browser: Browser, *, width: int, height: int, dark: bool = False, token: bool = True) -> Page:
    page = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    ).new_page()
    if token:
        page.add_init_script(GIVE_TOKEN)
    return page


def _shoot(page: Page, path: Path) -> None:
    page.screenshot(path=path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


@contextlib.contextmanager
def running(folder: Path, names: Sequence[str] = ONLY) -> Iterator[str]:
    """Run a controller with these upstreams, of which `web` has a history, and yield its URL."""
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
    config.write_text(json.dumps({"upstreams": {name: _declared(name) for name in names}}), encoding="utf-8")
    command = [sys.executable, "-m", "steelyard_controller", "--config", str(config), "--id", "controller-1"]
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{name} {token} declare\n" for name, token in TOKENS.items()))
    tokens.chmod(0o600)
    command += ["--tokens-file", str(tokens)]
    command += ["--memcached", memcached.address, "--state-url", f"redis://{store.address}/0"]
    controller = Daemon([*command, "--api-port", str(ports[2])], ports[2], folder / "c")
    url = f"http://{controller.address}"
    worlds = {"web": World(MACHINES, zones=ZONES, brings=BRINGS)}
    worlds |= {
        name: World(other.machines, demand=other.demand) for name, other in OTHERS.items() if name in names
    }
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
        _past(store.port, worlds["web"])
        running.enter_context(
            Feeder(memcached.port, worlds, every_s=1.0, clock=lambda: time.monotonic() - began_s, lbs=LBS)
        )
        controller.start()
        running.callback(controller.kill)
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "the first tick")
        for name in names:
            for peer, change in OTHERS[name].changes.items() if name in OTHERS else ():
                path = f"{url}/v1/upstreams/{name}/peers/{peer}"
                httpx.patch(
                    path, json=change, headers={"Authorization": f"Bearer {TOKENS['anna']}"}
                ).raise_for_status()
        time.sleep(6)
        yield url


@contextlib.contextmanager
def closed(folder: Path) -> Iterator[str]:
    """Run a controller that needs a token for all; yield its URL."""
    config = folder / "controller.yaml"
    config.write_text(json.dumps({"upstreams": {"web": {"peers": WEB["peers"]}}}))
    token = folder / "read-token"
    token.write_text(READ_TOKEN)
    with memcached_in(folder) as memcached, redis_in(folder) as redis:
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "steelyard_controller",
            "--config",
            str(config),
            "--api-port",
            str(port),
        ]
        command += ["--memcached", memcached.address, "--state-url", f"redis://{redis.address}/0"]
        command += ["--read-token-file", str(token), "--id", "controller-1"]
        controller = Daemon(command, port, folder / "controller.log")
        controller.start()
        try:
            url = f"http://{controller.address}"
            wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "the first tick")
            yield url
        finally:
            controller.kill()


def _declared(name: str) -> dict[str, Any]:
    if name == "web":
        return WEB
    number, peers = [*OTHERS].index(name) + 1, OTHERS[name].machines
    addressed = [{"id": each.id, "address": f"10.0.{number}.{n}:80"} for n, each in enumerate(peers, 11)]
    return {"load_balancers": list(LBS), "peers": addressed}


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
        table = None if cycle.outcome is None else cycle.outcome.table
        samples, reports = world.step(second, share, order=(term, cycle.generation), lbs=LBS, table=table)
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
