"""The page's costs with thousands of upstreams and of servers, in Chromium: `scripts/page --scale`. I/O.

    scripts/page --scale [--upstreams 2000] [--servers 10000] [--minutes 5] [--pictures FOLDER] [--readers 10]

A real controller, Memcached and Redis. Samples and reports are put into Memcached as agents and load
balancers do, each server's once in ten seconds. A hundredth of the servers have a silent agent, some have
failing requests. The figures are:

- milliseconds from the navigation to the first row;
- bytes over the wire;
- the heap after a garbage collection;
- the tasks of the page's main thread in half a minute;
- milliseconds from a key of a search to its rows;
- the controller's CPU and ticks, without a page and with readers.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright
from pymemcache.client.base import Client
from steelyard_protocol import wire

from testing.daemons import Daemon, free_port

from ..examples import sample
from .page_rig import BROWSER, wait_for

INTERVAL_S = 10.0
PARTS = 10
SERVERS_OF_EACH = 10
TRACED_S = 30
LOCAL = httpx.Client(trust_env=False, timeout=60)

WATCH = """
window.firstRow = null;
const look = () => {
  const row = document.querySelector("#all:not([hidden]) .card, tbody[data-peer]");
  if (row) window.firstRow = performance.now();
  else requestAnimationFrame(look);
};
requestAnimationFrame(look);
// From the last key of a search to rows that all have it.
window.found = null;
window.search = (input, text, rows) => {
  const began = performance.now();
  input.value = text;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  const seen = () => {
    const shown = [...document.querySelectorAll(rows)].filter((each) => each.offsetParent !== null);
    const all = shown.length > 0 && shown.every((each) => each.textContent.includes(text));
    if (all) window.found = performance.now() - began;
    else requestAnimationFrame(seen);
  };
  seen();
};
"""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A view: its name, its address, its search box, a text to search for, and the rows."""

    name: str
    path: str
    box: str
    text: str
    rows: str


def main() -> None:
    """Print a row of figures for each scene."""
    parser = argparse.ArgumentParser(description="The page with thousands of upstreams and of servers.")
    parser.add_argument("--upstreams", type=int, default=2000, help="of ten servers each")
    parser.add_argument("--servers", type=int, default=10_000, help="servers of the large upstream")
    parser.add_argument("--minutes", type=float, default=5.0, help="minutes for each scene")
    parser.add_argument("--pictures", type=Path, default=None, help="a folder for screenshots")
    parser.add_argument("--readers", type=int, default=10, help="further open pages, for the ticks")
    parser.add_argument("--tick-s", type=float, default=3.0)
    options = parser.parse_args()
    if options.minutes <= 0:
        parser.error("--minutes must be above 0: rates are per second of it")
    small = {f"shop-{n:04}": SERVERS_OF_EACH for n in range(options.upstreams)}
    worlds = [
        (small, [_list_scene(), Scene(
            name="one of them", path="/#/shop-0007", box="#filter", text="server-7", rows="tbody[data-peer]"
        )]),
        ({"web": options.servers}, [Scene(
            name="one upstream", path="/#/web", box="#filter", text="server-9", rows="tbody[data-peer]"
        )]),
    ]  # fmt: skip
    for upstreams, scenes in worlds:
        if not upstreams or not all(upstreams.values()):
            continue
        count = f"{len(upstreams)} x {next(iter(upstreams.values()))}"
        with (
            tempfile.TemporaryDirectory() as folder,
            running(Path(folder), upstreams, options.tick_s) as site,
        ):
            print(f"# {count}: its first ticks, then half a minute without a page", flush=True)
            time.sleep(3 * INTERVAL_S)
            print(f"# {count}: without a page: {site.measure(20.0)}", flush=True)
            with sync_playwright() as driver:
                path = shutil.which(BROWSER) or sys.exit(
                    f"{BROWSER} is not installed: run `make setup-tests`"
                )
                browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
                for scene in scenes:
                    print(f"{count}: {scene.name}: {_look(browser, site, scene, options)}", flush=True)
                browser.close()
                with _readers(site, scenes[-1], options.readers):
                    time.sleep(5)
                    print(f"# {count}: {options.readers} readers: {site.measure(20.0)}", flush=True)


def _list_scene() -> Scene:
    return Scene(name="the list", path="/#/", box="#all-filter", text="shop-0042", rows="#all .card")


class Site:
    """A controller and its senders."""

    def __init__(self, controller: Daemon, redis: Daemon, url: str) -> None:
        self.url = url
        self.redis = redis
        self._controller = controller

    def measure(self, seconds: float) -> str:
        """Return the controller's CPU, and the mean and largest of its ticks, over some seconds."""
        before, cpu_s, began_s = self._ticks(), self._cpu_s(), time.monotonic()
        time.sleep(seconds)
        after, took_s = self._ticks(), time.monotonic() - began_s
        ticks = after[1] - before[1]
        mean_ms = 1000 * (after[0] - before[0]) / ticks if ticks else float("nan")
        cpu = (self._cpu_s() - cpu_s) / took_s
        return f"controller {100 * cpu:.0f} % of a CPU, {ticks:.0f} ticks, {mean_ms:.0f} ms each"

    def _ticks(self) -> tuple[float, float]:
        text = LOCAL.get(f"{self.url}/metrics").text
        return tuple(
            float(re.findall(rf"^steelyard_tick_seconds_{what} (\S+)$", text, re.MULTILINE)[0])
            for what in ("sum", "count")
        )  # type: ignore[return-value]

    def _cpu_s(self) -> float:
        assert self._controller.process is not None
        fields = Path(f"/proc/{self._controller.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _look(browser: Browser, site: Site, scene: Scene, options: argparse.Namespace) -> str:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    page.add_init_script(WATCH)
    session = context.new_cdp_session(page)
    for domain in ("Network", "Performance", "HeapProfiler"):
        session.send(f"{domain}.enable")
    got = [0]
    session.on("Network.dataReceived", lambda event: got.__setitem__(0, got[0] + _wire_bytes(event)))
    page.goto(site.url + scene.path)
    wait_for(lambda: page.evaluate("window.firstRow") is not None, "the first row", 120)
    page.wait_for_timeout(5000)
    first_ms, loaded, seconds = page.evaluate("window.firstRow"), got[0], options.minutes * 60
    print(f"# {scene.name}: first row {first_ms:.0f} ms; looked at for {options.minutes:g} min", flush=True)
    page.wait_for_timeout(1000 * seconds)
    bytes_s = (got[0] - loaded) / seconds
    session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    figures = [
        f"first row {first_ms:.0f} ms, {loaded / 1e3:.0f} kB in the first 5 s",
        f"then {bytes_s / 1e3:.1f} kB/s",
        f"heap {metrics['JSHeapUsedSize'] / 1e6:.1f} MB after {options.minutes:g} min",
        _tasks(browser, page),
    ]
    _picture(page, options.pictures, scene.name)
    figures.append(f"search {_search(page, scene)}")
    _picture(page, options.pictures, f"{scene.name} searched")
    context.close()
    return "; ".join(figures)


def _tasks(browser: Browser, page: Page) -> str:
    """Return the main thread's task times: CPU, because others use this machine too, and wall time."""
    browser.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    page.wait_for_timeout(1000 * TRACED_S)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    main = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks = [each for each in events if each["name"] == "RunTask" and (each["pid"], each["tid"]) in main]
    cpu_ms, wall_ms = ([each.get(of, 0) / 1000 for each in tasks] for of in ("tdur", "dur"))
    return (
        f"main thread {sum(cpu_ms) / TRACED_S:.0f} ms of CPU a second, its longest task {max(cpu_ms):.0f} ms"
        f" ({max(wall_ms):.0f} ms by the clock)"
    )


def _search(page: Page, scene: Scene) -> str:
    if page.locator(scene.box).count() == 0:
        return "none"
    took = []
    for length in (len(scene.text) - 1, len(scene.text)):
        page.evaluate("window.found = null")
        page.evaluate(
            "([box, text, rows]) => window.search(document.querySelector(box), text, rows)",
            [scene.box, scene.text[:length], scene.rows],
        )
        wait_for(lambda: page.evaluate("window.found") is not None, "what was searched", 60)
        took.append(f"{page.evaluate('window.found'):.0f} ms")
        page.wait_for_timeout(1500)
    return ", ".join(took)


def _wire_bytes(event: dict[str, Any]) -> int:
    # For a stream, Chromium reports only the decoded length, which is the same here.
    return int(event["encodedDataLength"] or event["dataLength"])


def _picture(page: Page, folder: Path | None, name: str) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name.replace(' ', '-')}.png", full_page=True)


@contextlib.contextmanager
def _readers(site: Site, scene: Scene, count: int) -> Iterator[None]:
    """Read events as `count` pages do, each with another page of servers."""
    ended = threading.Event()
    upstream = scene.path.removeprefix("/#/")

    def read(number: int) -> None:
        query = f"upstream={upstream}&order=auto&offset={50 * number}&limit=50"
        with (
            contextlib.suppress(httpx.HTTPError),
            LOCAL.stream("GET", f"{site.url}/v1/events?{query}") as answer,
        ):
            for _ in answer.iter_raw():
                if ended.is_set():
                    return

    threads = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    yield
    ended.set()


@contextlib.contextmanager
def running(folder: Path, upstreams: dict[str, int], tick_s: float) -> Iterator[Site]:
    """Run a controller with upstreams by name, each with its number of servers, and their senders."""
    ports = [free_port() for _ in range(3)]
    user = ["-u", "nobody"] if os.getuid() == 0 else []
    memcached = Daemon(
        ["memcached", *user, "-l", "127.0.0.1", "-p", str(ports[0]), "-U", "0", "-m", "256"],
        ports[0], folder / "memcached.log",
    )  # fmt: skip
    redis = Daemon(
        ["redis-server", "--bind", "127.0.0.1", "--port", str(ports[1]), "--save", "", "--dir", str(folder)],
        ports[1], folder / "redis.log",
    )  # fmt: skip
    config = folder / "controller.yaml"
    declared = {
        name: {"peers": _peers(number, count)} for number, (name, count) in enumerate(upstreams.items())
    }
    config.write_text(json.dumps({"upstreams": declared}), encoding="utf-8")
    command = [sys.executable, "-m", "steelyard_controller", "--config", str(config)]
    command += ["--api-port", str(ports[2]), "--tick-s", str(tick_s), "--memcached", memcached.address]
    controller = Daemon(
        [*command, "--state-url", f"redis://{redis.address}/0"], ports[2], folder / "controller.log"
    )
    with contextlib.ExitStack() as daemons:
        for daemon in (memcached, redis, controller):
            daemons.callback(daemon.kill)
            daemon.start()
        site = Site(controller, redis, f"http://{controller.address}")
        ended = threading.Event()
        feeder = threading.Thread(target=_feed, args=(ports[0], upstreams, ended))
        feeder.start()
        daemons.callback(feeder.join)
        daemons.callback(ended.set)
        wait_for(lambda: LOCAL.get(f"{site.url}/readyz").status_code == 200, "the first tick", 120)
        yield site


def _peers(number: int, count: int) -> list[dict[str, str]]:
    return [
        {
            "id": f"server-{n}",
            "address": f"10.{(number * 16 + n) >> 16}.{(number * 16 + n) >> 8 & 255}.{n & 255}:80",
        }
        for n in range(1, count + 1)
    ]


def _feed(port: int, upstreams: dict[str, int], ended: threading.Event) -> None:
    """Write a tenth of the samples and reports each second; reports of large upstreams every second."""
    client = Client(("127.0.0.1", port), no_delay=True, timeout=5)
    second = 0
    while not ended.wait(max(0.0, 1.0 - time.time() % 1.0)):
        second += 1
        for number, (name, count) in enumerate(upstreams.items()):
            ids = [f"server-{n}" for n in range(1, count + 1)]
            if count <= SERVERS_OF_EACH:
                if number % PARTS == second % PARTS:
                    _write(client, name, ids, second, {id: number + row for row, id in enumerate(ids)})
            else:
                _write(
                    client, name, ids[second % PARTS :: PARTS], second, {id: n for n, id in enumerate(ids)}
                )
    client.close()


def _write(client: Client, name: str, ids: list[str], second: int, numbers: dict[str, int]) -> None:
    # One in a hundred is silent, and one in 997 has failing requests.
    samples = {
        wire.sample_key(name, id): sample(
            id, seq=second, upstream=name, interval_s=INTERVAL_S, cpu=_cpu(numbers[id], second),
            taken_at_ms=time.time_ns() // 1_000_000,
        )
        for id in ids
        if numbers[id] % 100 != 99
    }  # fmt: skip
    told = [*numbers]
    report = {
        "v": 1, "upstream": name, "lb": "edge-1", "boot": "n1", "seq": second, "sent_at_ms": 1000 * second,
        "ids": told,
        "interval_s": INTERVAL_S if len(told) <= SERVERS_OF_EACH else 1.0, "rung": "fresh",
        "completed": [100 + (row + second) % 37 for row in range(len(told))],
        "failed": [int(numbers[id] % 997 == 42) for id in told],
        "in_flight": [2] * len(told), "latency_ms": [4.0 + (numbers[id] + second) % 5 for id in told],
    }  # fmt: skip
    samples[wire.traffic_key(name, "edge-1")] = json.dumps(report).encode()
    client.set_many(samples, expire=60, noreply=True)


def _cpu(number: int, second: int) -> float:
    return 0.2 + (number * 37 % 40) / 100 + (number + second) % 7 / 100


if __name__ == "__main__":
    main()
