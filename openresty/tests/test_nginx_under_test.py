"""STEELYARD_NGINX: an unusable name is refused before any test, with the remedy."""

import shutil
from pathlib import Path

import pytest

from testing.nginx_under_test import put_on_path

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    nginx = shutil.which("nginx")
    assert nginx is not None, "nginx is not installed: run `make setup-tests`"
    monkeypatch.setenv("PATH", f"{Path(nginx).parent}:/usr/bin:/bin")


def program(path: Path, text: str) -> Path:
    """Write a shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_name_where_nothing_is_tells_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=f"{tmp_path}/nginx/sbin/nginx or {tmp_path}/sbin/nginx; name an nginx"
    ):
        put_on_path(str(tmp_path))
    with pytest.raises(ValueError, match="there is no program at /nowhere; name an nginx"):
        put_on_path("/nowhere")


def test_a_program_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="other is not called nginx"):
        put_on_path(str(program(tmp_path / "other", "")))


def test_an_nginx_without_lua_is_refused(tmp_path: Path) -> None:
    program(tmp_path / "sbin" / "nginx", f"echo --modules-path={tmp_path} >&2")
    with pytest.raises(ValueError, match=f"{tmp_path}/sbin/nginx has no Lua"):
        put_on_path(str(tmp_path))


def test_what_nginx_says_of_a_missing_library_is_told(tmp_path: Path) -> None:
    lua = "ndk_http_module ngx_http_lua_module"
    program(tmp_path / "sbin" / "nginx", f"# {lua}\necho 'module resty.core not found' >&2; exit 1")
    with pytest.raises(ValueError, match=r"(?s)does not run on .*module resty.core not found"):
        put_on_path(str(tmp_path))


def test_the_nginx_that_is_named_is_found_first() -> None:
    nginx = shutil.which("nginx")
    assert nginx is not None
    put_on_path(nginx)
    assert shutil.which("nginx") == str(Path(nginx).resolve())
