"""The page's files over HTTP; and the page's own tests of its pure parts."""

import gzip
import re
import subprocess
from pathlib import Path

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient
from steelyard_controller.api import page_files, problems
from steelyard_controller.api.auth import Rule
from steelyard_controller.api.guarded_route import Handler
from steelyard_controller.api.problems import ProblemError

REPOSITORY = Path(__file__).parents[3]
HTML = '<script type="module" src="/page/@/main.js"></script>'


@pytest.fixture
def static(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(HTML, encoding="utf-8")
    (tmp_path / "docs.html").write_text(HTML, encoding="utf-8")
    (tmp_path / "main.js").write_text("export {};\n", encoding="utf-8")
    (tmp_path / "LICENSE.txt").write_text("not for browsers", encoding="utf-8")
    return tmp_path


class Open:
    """Lets every request in."""

    async def answer(self, request: Request, _: Rule, handler: Handler) -> Response:
        """Return the route's own answer."""
        return await handler(request)


def _client(static: Path) -> TestClient:
    app = FastAPI(docs_url=None)
    app.include_router(page_files.routes(static))
    app.state.guard = Open()
    app.add_exception_handler(ProblemError, lambda _, error: problems.answer(error))
    return TestClient(app)


def _main_js(client: TestClient) -> str:
    script = re.search(r'src="(/page/[0-9a-f]{16}/main\.js)"', client.get("/").text)
    assert script is not None
    return script.group(1)


def test_the_page_is_asked_for_each_time_and_its_files_are_kept_for_ever(static: Path) -> None:
    client = _client(static)
    html, script = client.get("/"), client.get(_main_js(client))
    assert (html.headers["cache-control"], html.headers["content-type"]) == (
        "no-cache",
        "text/html; charset=utf-8",
    )
    assert (script.text, script.headers["content-type"]) == ("export {};\n", "text/javascript; charset=utf-8")
    assert "immutable" in script.headers["cache-control"]


def test_another_build_has_other_addresses(static: Path) -> None:
    before = _main_js(_client(static))
    (static / "main.js").write_text("export const changed = 1;\n", encoding="utf-8")
    assert _main_js(_client(static)) != before


def test_a_file_of_another_build_is_not_kept_in_its_name(static: Path) -> None:
    answer = _client(static).get("/page/0000000000000000/main.js")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")


def test_what_has_not_changed_is_304(static: Path) -> None:
    client = _client(static)
    for path in ("/", "/docs", _main_js(client)):
        tag = client.get(path).headers["etag"]
        assert client.get(path, headers={"If-None-Match": tag}).status_code == 304


def test_files_are_packed_for_who_takes_it(static: Path) -> None:
    client = _client(static)
    path = _main_js(client)
    with client.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(answer.iter_raw())) == b"export {};\n"
    assert "content-encoding" not in client.get(path, headers={"Accept-Encoding": "br"}).headers


@pytest.mark.parametrize("name", ["nothing.js", "LICENSE.txt", "index.html", "..%2Fpage.py", "%2e%2e"])
def test_only_the_pages_files_are_there(static: Path, name: str) -> None:
    assert _client(static).get(f"/page/x/{name}").status_code == 404


def test_where_the_page_was_not_built_it_says_how(tmp_path: Path) -> None:
    client = _client(tmp_path / "static")
    for path in ("/", "/docs"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert "run `scripts/page`" in answer.text


def test_the_html_has_no_style_or_script_of_its_own() -> None:
    # The Content-Security-Policy takes neither.
    for path in sorted((REPOSITORY / "controller/dashboard/src").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", text), path.name


def test_nothing_of_the_page_names_another_host() -> None:
    for path in sorted((REPOSITORY / "controller/dashboard/src").iterdir()):
        text = path.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?://", text), path.name


@pytest.mark.integration
def test_the_pure_parts_of_the_page() -> None:
    done = subprocess.run(
        [REPOSITORY / "scripts/page", "--test"], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
