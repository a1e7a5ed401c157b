"""The page in a headless Chromium, on a real controller and a real Memcached.

Every test also asserts, at its end, that the page wrote no error to the console and sent requests only to
the controller. Tests wait for conditions, never for a time.
"""

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    ViewportSize,
    expect,
    sync_playwright,
)
from pymemcache.client.base import Client
from steelyard_controller import cli
from steelyard_controller.api.streams import OF_ONE_CLIENT
from steelyard_protocol import wire

from testing.daemons import Daemon, free_port, memcached_in

from ..processes import LOCAL, own_token
from .page_contrast import LEAST, contrasts
from .page_rig import BROWSER, Feeder, wait_for
from .page_world import DEMAND_PER_S, FIVE, World

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).parents[3]
PATIENCE_MS = 60_000
TICK_S = 0.2
ADMIN = "a-token-of-the-administrators"
READ = "a-token-of-those-who-look"

expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Site:
    """A controller with an open page."""

    controller: Daemon
    memcached: Daemon
    world: World
    url: str

    def api(self, path: str, **more: Any) -> Any:
        """Return the API's answer."""
        return LOCAL.get(self.url + path, **more).json()

    def declared(self, peer: str) -> Any:
        """Return a peer as declared."""
        return self.api(f"/v1/upstreams/web/peers/{peer}")


@pytest.fixture(scope="module")
def playwright_driver() -> Iterator[Playwright]:
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="module")
def browser(playwright_driver: Playwright) -> Iterator[Browser]:
    path = shutil.which(BROWSER) or pytest.fail(f"{BROWSER} is not installed: run `make setup-tests`")
    # Chromium's sandbox refuses root; it only shows our own page.
    flags = ["--no-sandbox"] if os.getuid() == 0 else []
    # Pages of the kept context share a process.
    flags += ["--disable-gpu", "--process-per-site"]
    browser = playwright_driver.chromium.launch(executable_path=path, args=flags)
    yield browser
    browser.close()


VIEWPORT: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def kept_context(browser: Browser) -> BrowserContext:
    """The context of pages without settings of their own: a further one would load all files again."""
    return browser.new_context(viewport=VIEWPORT)


@pytest.fixture(scope="module")
def built() -> None:
    if not (REPOSITORY / "controller/steelyard_controller/api/static/index.html").exists():
        pytest.fail("the page was not built: run `scripts/page`")


@contextlib.contextmanager
def running(
    folder: Path,
    memcached: Daemon,
    upstreams: dict[str, Any] | None = None,
    *,
    state_url: str = "memory://",
    feed: bool = True,
    tick_s: float = TICK_S,
    lbs: tuple[str, ...] = ("edge-1",),
    **environment: str,
) -> Iterator[Site]:
    """Run a controller, and servers that follow its weights."""
    config = folder / "controller.yaml"
    declared = {"web": {"shadows": {"paper": {}}, "peers": _peers()}} if upstreams is None else upstreams
    config.write_text(json.dumps({"upstreams": declared}), encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "steelyard_controller"]
    command += ["--config", str(config), "--api-port", str(port), "--tick-s", str(tick_s)]
    command += ["--memcached", memcached.address, "--state-url", state_url]
    controller = Daemon(command, port, folder / "controller.log", os.environ | environment)
    site = Site(controller, memcached, World(), f"http://127.0.0.1:{port}")
    with contextlib.ExitStack() as stack:
        stack.callback(controller.kill)
        controller.start()
        if feed:
            stack.enter_context(Feeder(memcached.port, {"web": site.world}, every_s=tick_s, lbs=lbs))
        wait_for(lambda: LOCAL.get(site.url + "/readyz").status_code == 200, "the first tick")
        yield site


Start = Callable[..., Site]


@pytest.fixture
def start(memcached: Daemon, tmp_path: Path, built: None) -> Iterator[Start]:  # noqa: ARG001
    """Return a function that starts a site of the test's own."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **more: stack.enter_context(running(tmp_path, memcached, *args, **more))


@pytest.fixture(scope="module")
def kept_site(tmp_path_factory: pytest.TempPathFactory, built: None) -> Iterator[Site]:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("site")
    with memcached_in(folder) as memcached, running(folder, memcached) as site:
        yield site


@pytest.fixture
def site(kept_site: Site) -> Iterator[Site]:
    """The site of all tests that restore all of their changes: a start takes 2 s of CPU."""
    url = f"{kept_site.url}/v1/upstreams/web"
    declared = LOCAL.get(f"{url}/declaration").json()
    yield kept_site
    kept_site.world.machines, kept_site.world.demand = FIVE, DEMAND_PER_S
    LOCAL.put(url, json=declared, headers=own_token()).raise_for_status()


def _peers() -> list[dict[str, Any]]:
    baseline = {"server-3": 1, "server-4": 1, "server-5": 4}
    return [
        {"id": machine.id, "address": f"10.0.0.1{machine.id[-1]}:80", "baseline": baseline.get(machine.id, 2)}
        for machine in FIVE
    ]


Look = Callable[..., Page]


@pytest.fixture
def look(browser: Browser, kept_context: BrowserContext) -> Iterator[Look]:
    """Return a function that opens the page of a site; an error in it fails the test."""
    contexts: list[BrowserContext] = []
    pages: list[Page] = []
    problems: list[str] = []

    def looking(
        site: Site,
        path: str = "/",
        *,
        forgive: str = "$^",
        before: Callable[[Page], None] = lambda _: None,
        **context: Any,
    ) -> Page:
        if context:
            contexts.append(browser.new_context(**{"viewport": VIEWPORT, **context}))
            page = contexts[-1].new_page()
        else:
            page = kept_context.new_page()
            pages.append(page)

        def note(kind: str, message: str) -> None:
            # A virtual interface was added or removed on this machine; the page tries again.
            if not re.search(f"ERR_NETWORK_CHANGED|{forgive}", message):
                problems.append(f"{kind}: {message}")

        page.on("console", lambda line: note(line.type, line.text) if line.type != "log" else None)
        page.on("pageerror", lambda error: note("exception", str(error)))
        page.on(
            "request", lambda asked: None if asked.url.startswith(site.url) else note("foreign", asked.url)
        )
        before(page)
        page.goto(site.url + path)
        return page

    yield looking
    for page in pages:
        page.evaluate("localStorage.clear()")
        page.close()
    for context in contexts:
        context.close()
    assert problems == []


def give_token(page: Page) -> None:
    """Give a page the token from its start, like a tab opened by the link."""
    token = own_token()["Authorization"].removeprefix("Bearer ")
    page.add_init_script(f"sessionStorage.setItem('steelyard-token', '{token}')")


def _row(page: Page, peer: str) -> Any:
    return page.locator(f'tbody[data-peer="{peer}"]')


def _tile(page: Page, label: str, *, of: str = "#tiles") -> Any:
    # The tiles of the other view stay in the document.
    return page.locator(f"{of} .tile", has_text=label).locator("b")


def test_it_shows_every_server_with_its_share_and_the_reason(site: Site, look: Look) -> None:
    page = look(site)
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#role")).to_contain_text("leads")
    expect(page.locator("tbody[data-peer]")).to_have_count(5)
    expect(_tile(page, "Servers up")).to_have_text("5 of 5")
    expect(_row(page, "server-5").locator(".c-share .figure")).to_have_text(re.compile(r"^\d+(\.\d)? %$"))
    expect(_row(page, "server-5").locator(".why")).to_contain_text("requests per busy second")
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.locator("#balancers")).to_contain_text("edge-1 Fresh")
    expect(page.locator("#refused")).to_contain_text("None")


def test_six_indicators_and_one_that_is_not_declared(start: Start, look: Look) -> None:
    six = {"cpu": {}, "net": {}, "io": {}, "mem": {}, "workers": {}, "kv_cache_usage": {"knee": 0.5}}
    site = start({"web": {"indicators": six, "peers": _peers()}})
    site.world.application = True
    page = look(site)
    busy = _row(page, "server-1").locator("td.c-busy")
    expect(busy.locator(".meter small")).to_have_text([*(each.replace("_", " ") for each in six), "queue"])
    expect(busy).to_have_attribute(
        "title", re.compile(r"workers [\d.]+ %, .* above 50 %\), queue .* \(not declared: moves nothing\)$")
    )
    workers = page.get_by_role("button", name="Workers")
    workers.click()
    expect(workers).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#law")).to_contain_text("Reported and not declared, so without effect: queue")
    page.get_by_role("link", name="server-5").click()
    expect(page.locator("#panel .line", has_text="kv cache usage")).to_contain_text("not measured")
    expect(page.locator("#panel .line", has_text="workers")).to_contain_text(re.compile(r"\d %$"))


def test_a_value_changes_without_a_reload(site: Site, look: Look) -> None:
    page = look(site)
    requests = _tile(page, "Requests/s")
    expect(requests).to_have_text(re.compile(r"^[89]\d\d$|^10\d\d$"))
    page.evaluate("window.sameAsBefore = true")
    site.world.demand = 300.0
    expect(requests).to_have_text(re.compile(r"^[23]\d\d$"))
    assert page.evaluate("window.sameAsBefore") is True


def test_a_server_is_drained_and_restored_by_who_has_the_link(
    site: Site, look: Look, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["page", "--url", site.url]) == 0
    link = capsys.readouterr().out.strip()
    page = look(site, link.removeprefix(site.url))
    expect(page).to_have_url(f"{site.url}/#/")
    _row(page, "server-1").get_by_role("button", name="Drain").click()
    expect(page.locator("#ask")).to_contain_text("4 other servers")
    page.locator("#ask").get_by_role("button", name="Drain").click()
    expect(_row(page, "server-1").locator(".badge")).to_have_text("draining")
    expect(_row(page, "server-1").locator(".c-share .figure")).to_have_text("0 %")
    assert site.declared("server-1")["state"] == "drain"
    _row(page, "server-1").get_by_role("button", name="Restore").click()
    expect(_row(page, "server-1").locator(".badge")).to_have_text("up")
    assert site.declared("server-1")["state"] == "up"


def test_a_drain_that_is_not_confirmed_does_nothing(site: Site, look: Look) -> None:
    page = look(site)
    _row(page, "server-1").get_by_role("button", name="Drain").click()
    page.locator("#ask").get_by_role("button", name="Cancel").click()
    expect(page.locator("#ask")).to_be_hidden()
    assert site.declared("server-1")["state"] == "up"


@pytest.mark.parametrize("place", ['tbody[data-peer="server-2"]', "#panel"])
def test_what_was_done_can_be_undone(site: Site, look: Look, place: str) -> None:
    page = look(site, "/#/web/server-2" if place == "#panel" else "/", before=give_token)
    page.locator(place).get_by_role("button", name="Drain").click()
    page.locator("#ask").get_by_role("button", name="Drain").click()
    expect(page.locator("#toast")).to_contain_text("server-2 is draining")
    assert site.declared("server-2")["state"] == "drain"
    page.locator("#toast").get_by_role("button", name="Undo").click()
    wait_for(lambda: site.declared("server-2")["state"] == "up", "the undoing")


def test_what_somebody_else_does_is_told(site: Site, look: Look) -> None:
    page = look(site)
    expect(page.locator("#connection")).to_have_text("Live")
    drain = f"{site.url}/v1/upstreams/web/peers/server-5"
    LOCAL.patch(drain, json={"state": "drain"}, headers=own_token()).raise_for_status()
    expect(page.locator("#toast")).to_have_text("web: server-5: state up -> drain")
    expect(_row(page, "server-5").locator(".badge")).to_have_text("draining")


def test_a_weight_is_pinned_and_unpinned(site: Site, look: Look) -> None:
    page = look(site, before=give_token)
    _row(page, "server-3").get_by_role("button", name="Pin").click()
    page.get_by_label("Percent of the upstream's weight").fill("100")
    page.locator("#ask").get_by_role("button", name="Pin").click()
    assert site.declared("server-3")["pin"] is None
    page.get_by_label("Percent of the upstream's weight").fill("25")
    page.locator("#ask").get_by_role("button", name="Pin").click()
    expect(_row(page, "server-3").locator(".c-share .figure")).to_have_text("25 %")
    assert site.declared("server-3")["pin"] == 25
    _row(page, "server-3").get_by_role("button", name="Unpin").click()
    expect(_row(page, "server-3").get_by_role("button", name="Pin…")).to_be_visible()
    assert site.declared("server-3")["pin"] is None


def test_a_link_leads_to_the_reason_of_a_weight(site: Site, look: Look) -> None:
    page = look(site, "/#/web/server-1")
    panel = page.locator("#panel")
    expect(panel.locator(".sentence")).to_have_text(re.compile(r"^\d+: does \d+ requests per busy second"))
    expect(panel.locator(".chain li").last).to_contain_text("Weight")
    expect(panel).to_contain_text("paper:")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page).to_have_url(f"{site.url}/#/web")


def test_the_reason_is_reached_by_the_keyboard_and_the_focus_returns(site: Site, look: Look) -> None:
    page = look(site)
    link = _row(page, "server-4").get_by_role("link", name="server-4")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#panel").get_by_role("heading", name="server-4")).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_focused()


def test_it_survives_a_restart_of_the_controller_and_fills_the_gap(
    start: Start, look: Look, redis_server: Daemon
) -> None:
    site = start(state_url=f"redis://{redis_server.address}/0")
    page = look(site, forgive="Failed to load resource")
    expect(page.locator("#connection")).to_have_text("Live")
    page.evaluate("window.sameAsBefore = true")
    before = site.api("/v1/upstreams/web")["term"]
    site.controller.kill()
    expect(page.locator("#connection")).to_contain_text("Lost")
    expect(page.locator("#notices")).to_contain_text("The data is from")
    with page.expect_request(lambda asked: "/history?" in asked.url, timeout=PATIENCE_MS):
        site.controller.start()
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#one-law")).not_to_contain_text(f"term {before}")
    expect(page.locator("#notices")).not_to_contain_text("The data is from")
    assert page.evaluate("window.sameAsBefore") is True


def test_without_a_place_for_its_stream_it_asks_and_says_so_until_there_is_one(
    site: Site, look: Look
) -> None:
    with contextlib.ExitStack() as streams:
        client = streams.enter_context(httpx.Client(limits=httpx.Limits(max_connections=None)))
        for _ in range(OF_ONE_CLIENT):
            streams.enter_context(client.stream("GET", f"{site.url}/v1/events"))
        page = look(site, forgive="429")
        expect(page.locator("#connection")).to_have_text("Every 3 s")
        expect(page.locator("#notices")).to_contain_text("127.0.0.1 has 40 event streams open")
        site.world.demand = 300.0
        expect(_tile(page, "Requests/s")).to_have_text(re.compile(r"^[23]\d\d$"))
    # A page that comes to the front tries at once.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#notices")).not_to_contain_text("event stream")


def test_a_standbys_page_shows_the_same_and_goes_on_when_it_takes_over(
    start: Start, look: Look, redis_server: Daemon
) -> None:
    leader = start(state_url=f"redis://{redis_server.address}/0")
    standby = start(state_url=f"redis://{redis_server.address}/0", feed=False)
    page = look(standby, forgive="Failed to load resource")
    expect(page.locator("#role")).to_contain_text("stands by")
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("tbody[data-peer]")).to_have_count(5)
    leader.controller.kill()
    expect(page.locator("#role")).to_contain_text("leads")
    expect(page.locator("#connection")).to_have_text("Live")
    term = standby.api("/v1/upstreams/web")["term"]
    expect(page.locator("#one-law")).to_contain_text(f"term {term}")


def test_a_file_that_did_not_arrive_is_loaded_again(site: Site, look: Look) -> None:
    def lose_one(page: Page) -> None:
        page.route("**/history.js", lambda route: route.abort(), times=1)

    page = look(site, forgive="Failed to load resource", before=lose_one)
    expect(page.locator("#connection")).to_have_text("Live")


def test_a_write_without_a_token_asks_for_one_until_it_is_right(start: Start, look: Look) -> None:
    site = start(STEELYARD_ADMIN_TOKEN=ADMIN)
    page = look(site, forgive="status of 40[13]")
    _row(page, "server-1").get_by_role("button", name="Drain").click()
    page.locator("#ask").get_by_role("button", name="Drain").click()
    for given in ("one-that-is-quite-wrong", ADMIN):
        expect(page.locator("#ask")).to_contain_text("A token is needed")
        page.get_by_label("Token", exact=True).fill(given)
        with page.expect_response(lambda answer: answer.request.method == "PATCH"):
            page.locator("#ask").get_by_role("button", name="Use it").click()
    expect(_row(page, "server-1").locator(".badge")).to_have_text("draining")
    _row(page, "server-1").get_by_role("button", name="Restore").click()
    expect(_row(page, "server-1").locator(".badge")).to_have_text("up")
    assert page.evaluate("Object.values(localStorage)") == []
    page.get_by_role("button", name="Forget token").click()
    assert page.evaluate("Object.values(sessionStorage)") == []


def test_where_reading_needs_a_token_it_is_asked_for_and_used_for_the_events(
    start: Start, look: Look
) -> None:
    site = start(STEELYARD_ADMIN_TOKEN=ADMIN, STEELYARD_READ_TOKEN=READ)
    page = look(site, forgive="status of 40[13]")
    gate = page.locator("#gate")
    expect(gate).to_contain_text("steelyard page")
    expect(gate).to_contain_text("never into an address")
    expect(page.locator("#connection")).to_have_text("A token is needed")
    expect(page.locator("#audit")).to_be_hidden()
    expect(gate.get_by_label("Token", exact=True)).to_be_focused()
    for given in ("one-that-is-quite-wrong", READ):
        gate.get_by_label("Token", exact=True).fill(given)
        page.keyboard.press("Enter")
        if given != READ:
            expect(gate.get_by_role("alert")).to_contain_text("does not know that token")
            expect(gate.get_by_label("Token", exact=True)).to_have_value("")
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("tbody[data-peer]")).to_have_count(5)
    expect(gate).to_be_hidden()
    assert READ not in page.url
    page.get_by_role("button", name="Forget token").click()
    expect(gate).to_be_visible()
    expect(page.locator("#one")).to_be_hidden()


def test_what_is_refused_is_shown_as_text(site: Site, look: Look) -> None:
    page = look(site)
    client = Client(("127.0.0.1", site.memcached.port))
    # A machine that no world moves: its figures stay.
    site.world.machines = site.world.machines[1:]
    client.set(
        wire.sample_key("web", "server-1"), b'{"v":"<img src=/nothing onerror=alert(1)>"}', noreply=False
    )
    client.close()
    expect(page.locator("#refused")).to_contain_text("sample of server-1")
    assert page.locator("#refused img").count() == 0


def test_a_part_that_is_away_is_named(start: Start, look: Look) -> None:
    site = start()
    page = look(site)
    expect(page.locator("#connection")).to_have_text("Live")
    site.memcached.kill()
    expect(page.locator("#notices")).to_contain_text(f"Memcached {site.memcached.address} is away.")
    # It is told once: the upstream has no fault of its own.
    expect(page.locator("#one-troubles")).not_to_contain_text(site.memcached.address)
    site.memcached.start()
    expect(page.locator("#notices")).not_to_contain_text("Memcached")


@pytest.mark.parametrize("path", ["/", "/#/web/server-1"])
def test_a_phone_needs_no_sideways_scrolling(site: Site, look: Look, path: str) -> None:
    page = look(site, path, viewport={"width": 320, "height": 720}, has_touch=True, is_mobile=True)
    expect(page.locator("tbody[data-peer]")).to_have_count(5)
    expect(page.locator(".chart canvas")).to_have_count(4)
    if "server-1" in path:
        expect(page.locator("#panel .chain li").last).to_contain_text("Weight")
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    assert page.evaluate("document.querySelector('#panel').scrollWidth") <= 320


def test_dark_is_as_the_system_has_it_until_the_button_is_pressed(site: Site, look: Look) -> None:
    page = look(site, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Show it light").click()
    light = page.evaluate(background)
    assert sum(map(int, re.findall(r"\d+", dark))) < 150 < 600 < sum(map(int, re.findall(r"\d+", light)))
    page.reload()
    expect(page.get_by_role("button", name="Show it dark")).to_be_visible()
    assert page.evaluate(background) == light


ZONES = {"edge-1": "eu-1a", "edge-2": "eu-1b"}


def test_several_upstreams_are_listed_with_their_need_and_one_is_chosen(start: Start, look: Look) -> None:
    other = {"peers": [{"id": "a", "address": "10.0.9.1:80"}]}
    zoned = [{**peer, "zone": "eu-1a" if peer["id"] == "server-5" else "eu-1b"} for peer in _peers()]
    site = start({"web": {"peers": zoned, "load_balancers": [*ZONES]}, "api": other}, lbs=(*ZONES,))
    site.world.zones = ZONES
    page = look(site)
    expect(page.locator("#all .card")).to_have_count(2)
    # The one that needs a person comes first, and the sums name it.
    expect(_tile(page, "Upstreams", of="#all-tiles")).to_have_text("1 needs you")
    expect(page.locator("#all .card").first).to_contain_text("1 of 1 servers: no sample yet")
    web = page.locator("#all .card", has_text="web")
    expect(web.locator("dd")).to_have_text([re.compile(r"^\d+$"), re.compile(r"^[\d.]+ %$"), "5 of 5"])
    for theme in ("light", "dark"):
        _assert_legible(page, theme)
    page.locator("#all .card", has_text="api").click()
    expect(page.locator("#one-title")).to_have_text("api")
    expect(page.locator("tbody[data-peer]")).to_have_count(1)
    page.locator("#upstreams").get_by_role("link", name="web").click()
    expect(page.locator("tbody[data-peer]")).to_have_count(5)
    zones = page.locator("#zones li")
    expect(zones.first).to_contain_text("eu-1a")
    expect(zones.first).to_contain_text("Servers: server-5")
    expect(zones.first).to_contain_text("Load balancers: edge-1")
    expect(zones.last).to_contain_text(re.compile(r"requests/s: (all stay|\d+ stay, [\d.]+ to eu-1a)"))
    expect(_row(page, "server-1").locator(".c-name")).to_contain_text("10.0.0.11:80, eu-1b")
    expect(_tile(page, "Cross zones")).to_have_text(re.compile(" %$"))
    page.get_by_role("link", name="server-5").click()
    expect(page.locator("#panel .chain li").last).to_contain_text("Weight")
    for theme in ("light", "dark"):
        _assert_legible(page, theme)


def _assert_legible(page: Page, theme: str) -> None:
    """Assert that each text has its contrast, and that none is cut."""
    page.evaluate("theme => (document.documentElement.dataset.theme = theme)", theme)
    too_low = [each for each in contrasts(page) if each["ratio"] < LEAST]
    assert too_low == []
    assert page.evaluate(CUT) == []


# Elements whose text is longer than their box.
CUT = """
() => [...document.querySelectorAll("main *")]
  .filter((each) => each.checkVisibility() && each.childElementCount === 0 && !each.matches(".hidden"))
  .filter((each) => getComputedStyle(each).overflowX === "hidden" && each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.textContent)
"""


def test_without_an_upstream_it_says_how_to_get_one_and_shows_what_is_declared_then(
    start: Start, look: Look
) -> None:
    site = start({})
    page = look(site)
    expect(page.locator("#empty")).to_contain_text("No upstream is declared yet")
    shop = {"peers": [{"id": "a", "address": "10.0.9.1:80"}]}
    LOCAL.put(f"{site.url}/v1/upstreams/shop", json=shop, headers=own_token()).raise_for_status()
    expect(page.locator("#one-title")).to_have_text("shop")


# A machine too busy for 10,000 servers has no leader for a moment; the page asks again.
BUSY = "status of 503"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, built: None) -> Iterator[Site]:  # noqa: ARG001
    """A site with an upstream of 10,000 servers, and 300 of one; no server sends samples."""
    big = [{"id": f"s{n}", "address": f"10.{n // 250}.{n % 250}.1:80"} for n in range(10_000)]
    small = {
        f"u{n}": {"peers": [{"id": "only", "address": f"10.200.{n // 250}.{n % 250}:80"}]} for n in range(300)
    }
    folder = tmp_path_factory.mktemp("many")
    # Five times a second they are more work than two busy cores do for a controller and a browser.
    with (
        memcached_in(folder) as memcached,
        running(folder, memcached, {"web": {"peers": big}, **small}, feed=False, tick_s=2.0) as site,
    ):
        yield site


def test_ten_thousand_servers_are_found_by_name_and_shown_in_parts(many: Site, look: Look) -> None:
    page = look(many, "/#/web?order=name", forgive=BUSY)
    expect(page.locator("#servers-matching")).to_have_text("10k")
    expect(page.locator("tbody[data-peer]")).to_have_count(50)
    expect(page.locator("#legend")).to_contain_text("all others")
    page.locator("#pages").get_by_role("link", name="Next").press("Enter")
    expect(_row(page, "s50")).to_be_visible()
    expect(page.locator("#pages")).to_contain_text("51–100 of 10,000")
    expect(page.locator("#pages").get_by_role("link", name="Next")).to_be_focused()
    page.get_by_label("Filter the servers").fill("s9876")
    expect(page.locator("tbody[data-peer]")).to_have_count(1)
    expect(page.locator("#servers-matching")).to_have_text("1 of 10k")
    _row(page, "s9876").get_by_role("link", name="s9876").click()
    expect(page.locator("#panel .sentence")).to_contain_text("baseline")
    page.keyboard.press("Escape")
    expect(page).to_have_url(f"{many.url}/#/web?search=s9876&order=name")


def test_a_link_has_the_page_the_order_and_a_server_of_another_page(many: Site, look: Look) -> None:
    page = look(many, "/#/web/s77?order=-name&page=3", forgive=BUSY)
    expect(page.locator("#panel .sentence")).to_contain_text("baseline")
    expect(page.locator("#panel").get_by_role("button", name="Drain")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("tbody[data-peer]").first).to_have_attribute("data-peer", "s9899")
    expect(page.locator("th.c-name")).to_have_attribute("aria-sort", "descending")


def test_an_upstream_is_found_by_a_servers_address_and_back_leads_back(many: Site, look: Look) -> None:
    page = look(many, forgive=BUSY)
    expect(page.locator("#all .card")).to_have_count(24)
    expect(page.locator("#upstreams")).to_have_text("All 301 upstreams")
    # No server sends samples.
    expect(_tile(page, "Upstreams", of="#all-tiles")).to_have_text("301 need you")
    page.get_by_label("Search the upstreams").press_sequentially("10.200.1.7:")
    expect(page.locator("#all .card")).to_have_count(1)
    page.locator("#all .card", has_text="Has only").click()
    expect(page.locator("#one-title")).to_have_text("u257")
    expect(_row(page, "only")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Search the upstreams")).to_have_value("10.200.1.7:")
    expect(page.locator("#all .card")).to_have_count(1)
    page.go_back()
    expect(page.locator("#all .card")).to_have_count(24)
    page.locator("#all-pages").get_by_role("link", name="Last").click()
    expect(page.locator("#all-pages")).to_contain_text("289–301 of 301")


def test_a_page_of_rows_is_all_that_is_sent_of_ten_thousand_servers(many: Site, look: Look) -> None:
    page = look(many, forgive=BUSY, before=lambda page: page.add_init_script(COUNT_BYTES))
    page.goto(f"{many.url}/#/web")
    expect(page.locator("tbody[data-peer]")).to_have_count(50)
    wait_for(lambda: page.evaluate("window.pieces.length") >= 3, "three ticks")
    assert max(page.evaluate("window.pieces")) < 100_000


# The bytes of each event, before it is read; whole overviews of 10,000 servers have 4 MB.
COUNT_BYTES = """
window.pieces = [];
const parse = JSON.parse;
JSON.parse = (text, ...more) => {
  if (text.startsWith('{"v":1,"upstream"')) window.pieces.push(text.length);
  return parse(text, ...more);
};
"""


def test_the_api_is_shown_with_what_the_controller_has(site: Site, look: Look) -> None:
    page = look(site, "/docs")
    expect(page.get_by_text("/v1/upstreams/{upstream}/weights")).to_be_visible()


def test_who_changed_what_is_shown_to_who_has_a_token(start: Start, look: Look) -> None:
    with_token = {"Authorization": f"Bearer {ADMIN}"}
    site = start(STEELYARD_ADMIN_TOKEN=ADMIN)
    for pin in range(1, 25):
        path = f"{site.url}/v1/upstreams/web/peers/server-1"
        LOCAL.patch(path, json={"pin": pin}, headers=with_token).raise_for_status()
    page = look(site, "/#/web", forgive="status of 401")
    page.get_by_role("button", name="Show it with a token").click()
    page.locator("#ask").get_by_text("how do I get one?").click()
    expect(page.locator("#ask")).to_contain_text("never into an address")
    page.get_by_label("Token", exact=True).fill(ADMIN)
    page.locator("#ask").get_by_role("button", name="Use it").click()
    entries = page.locator("#audit-body li")
    expect(entries).to_have_count(6)
    expect(entries.first).to_have_text(re.compile(r"^server-1: pin 23 → 24admin, just now$"))
    page.get_by_role("button", name="Earlier ones").click()
    expect(entries).to_have_count(24)
    expect(page.get_by_role("button", name="Earlier ones")).to_be_hidden()
    page.locator("#audit").get_by_role("button", name="All").click()
    page.get_by_role("button", name="Earlier ones").click()
    expect(entries).to_have_count(25)
    expect(entries.last).to_have_text(re.compile("^declaredthe configuration file, "))
