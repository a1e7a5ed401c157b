"""The page at three widths, light and dark, in its states: `scripts/page --gallery FOLDER [SCENE ...]`. I/O.

    fleet      six upstreams with zones, of which some need a person; and one of them
    thousands  2,000 upstreams while Redis is away
    token      a controller that tells nothing without a token

The pictures are for a person who changes the page: nothing compares them.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, expect, sync_playwright

from . import page_at_scale, page_pictures
from .page_rig import BROWSER, wait_for

WIDTHS = {320: 720, 1366: 768, 1920: 1080}


def main() -> None:
    """Write the pictures of the chosen scenes."""
    parser = argparse.ArgumentParser(description="Pictures of the page at three widths, light and dark.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("scenes", nargs="*", default=list(SCENES), choices=[*SCENES, []])
    parser.add_argument("--upstreams", type=int, default=2000, help="of the scene thousands (default 2000)")
    parser.add_argument("--widths", type=int, nargs="*", default=list(WIDTHS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    # Thousands of upstreams take a busy machine some seconds.
    expect.set_options(timeout=60_000)
    with sync_playwright() as driver:
        path = shutil.which(BROWSER) or sys.exit(f"{BROWSER} is not installed: run `make setup-tests`")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for scene in options.scenes:
            with tempfile.TemporaryDirectory() as folder:
                SCENES[scene](browser, Path(folder), options)
        browser.close()


def _fleet(browser: Browser, folder: Path, options: argparse.Namespace) -> None:
    with page_pictures.running(folder, page_pictures.FLEET) as url:
        for name, page in _views(browser, options):
            page.add_init_script(
                f"sessionStorage.setItem('steelyard-token', '{page_pictures.TOKENS['anna']}')"
            )
            page.goto(f"{url}/")
            expect(page.locator("#all .card")).to_have_count(len(page_pictures.FLEET))
            _shoot(page, options.folder / f"fleet-{name}.png")
            page.goto(f"{url}/#/web")
            expect(page.locator("tbody[data-peer]")).to_have_count(5)
            _shoot(page, options.folder / f"web-{name}.png")
            page.goto(f"{url}/#/web/server-4")
            expect(page.locator("#panel .chain li").last).to_contain_text("Weight")
            _shoot(page, options.folder / f"why-{name}.png", full=False)


def _thousands(browser: Browser, folder: Path, options: argparse.Namespace) -> None:
    upstreams = {f"shop-{n:04}": 3 for n in range(options.upstreams)}
    with page_at_scale.running(folder, upstreams, 3.0) as site:
        time.sleep(25)
        for what in ("well", "away"):
            if what == "away":
                site.redis.kill()
                wait_for(lambda: "redis" in httpx.get(f"{site.url}/v1/service").text.lower(), "the fault", 60)
                time.sleep(8)
            for name, page in _views(browser, options):
                page.goto(f"{site.url}/")
                expect(page.locator("#all .card")).to_have_count(24)
                _shoot(page, options.folder / f"thousands-{what}-{name}.png")


def _token(browser: Browser, folder: Path, options: argparse.Namespace) -> None:
    with page_pictures.closed(folder) as url:
        for name, page in _views(browser, options):
            page.goto(f"{url}/")
            expect(page.locator("#gate")).to_be_visible()
            _shoot(page, options.folder / f"token-{name}.png")


SCENES = {"fleet": _fleet, "thousands": _thousands, "token": _token}


def _views(browser: Browser, options: argparse.Namespace) -> Iterator[tuple[str, Page]]:
    for width in options.widths:
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": width, "height": WIDTHS[width]}, color_scheme=theme
            )
            page = context.new_page()
            yield f"{width}-{theme}", page
            context.close()


def _shoot(page: Page, path: Path, *, full: bool = True) -> None:
    page.wait_for_timeout(1800)  # one tick, and the bars have come to rest
    page.screenshot(path=path, full_page=full)
    print(path, flush=True)


if __name__ == "__main__":
    main()
