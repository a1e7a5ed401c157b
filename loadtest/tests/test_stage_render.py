"""The files that the daemons read."""

import json
from pathlib import Path

from steelyard_loadtest.stage import install, render
from steelyard_loadtest.stage.plan import Place
from steelyard_loadtest.stage.settings import Settings

TEMPLATE = install.TEMPLATE.read_text(encoding="utf-8")


def nginx(settings: Settings, clocks: Path | None = None) -> str:
    place = Place(
        folder=Path("/stage"),
        checkout=Path("/checkout"),
        nginx="/usr/sbin/nginx",
        nginx_modules=("/modules/ndk.so", "/modules/lua.so"),
        memcached="/usr/bin/memcached",
        redis="/usr/bin/redis-server",
        clocks=clocks,
    )
    return render.nginx(settings, place, TEMPLATE, "    upstream web { }")


def test_nginx_knows_every_part() -> None:
    text = nginx(Settings(servers=2, nginx_workers=3))
    assert "load_module /modules/ndk.so;\nload_module /modules/lua.so;" in text
    assert "worker_processes 3;" in text
    assert 'memcached = { "10.213.0.31:11211" }' in text
    assert 'controller = { "http://10.213.0.21:8081", "http://10.213.0.22:8081" }' in text
    assert 'bootstrap = { "10.213.0.41:8100", "10.213.0.42:8100" }' in text
    assert 'allow = { "10.213.0.1" }' in text
    assert 'state_dir = "/stage/nginx-state"' in text
    assert "    upstream web { }" in text
    assert "%" not in text


def test_nginx_reads_its_secrets_from_files_where_there_are_any() -> None:
    assert 'key = secret("/stage/secrets/key"), controller_token = secret("/stage/secrets/read' in nginx(
        Settings()
    )
    assert 'secret("/' not in nginx(Settings(signed=False))


def test_times_are_the_settings() -> None:
    text = nginx(Settings(hold_s=5, drift_s=10, fetch_interval_s=0.25, read_timeout_s=1.5))
    assert "fetch_interval_s = 0.25, hold_s = 5, drift_s = 10," in text
    assert "proxy_read_timeout 1500ms;" in text


def test_workers_are_told_how_late_it_is() -> None:
    assert "\nenv " not in nginx(Settings())
    text = nginx(Settings(faketime=True), Path("/lib/faketime.so"))
    assert "\nenv FAKETIME_TIMESTAMP_FILE;\n" in text


def test_the_controllers_file_declares_every_server_alike() -> None:
    declared = json.loads(render.controller(Settings(servers=2, upstream="shop")))
    upstream = declared["upstreams"]["shop"]
    assert upstream["load_balancers"] == ["edge-1"]
    assert upstream["peers"] == [
        {"id": "server-1", "address": "10.213.0.41:8100", "baseline": 1},
        {"id": "server-2", "address": "10.213.0.42:8100", "baseline": 1},
    ]
