"""The files that a stage's daemons read. Pure: settings and a place in, texts out."""

import json
from string import Template

from steelyard_loadtest.stage import hosts
from steelyard_loadtest.stage.plan import Place, environment
from steelyard_loadtest.stage.settings import Settings

CONCURRENCY = 1000
"""Requests in flight that nginx's pools have room for: 200 a second, which take 5 s while a server hangs."""


class _Percent(Template):
    # nginx's own variables begin with a dollar sign.
    delimiter = "%"


def nginx(settings: Settings, place: Place, template: str, upstream_block: str) -> str:
    """Return nginx.conf; `upstream_block` is what steelyard-upstream prints."""
    address = hosts.addresses(settings)
    names = [f"http://{address[name]}:{hosts.API_PORT}" for name in hosts.controllers(settings)]
    secrets = {"key": place.key_file, "controller_token": place.read_token_file} if settings.signed else {}
    return _Percent(template).substitute(
        load_modules="\n".join(f"load_module {path};" for path in place.nginx_modules),
        # nginx hides its environment from its workers unless told.
        environment="\n".join(f"env {name};" for name in environment(place, hosts.EDGE)),
        workers=settings.nginx_workers,
        jit="" if settings.jit else "jit.off() ",
        folder=place.folder,
        lua_dir=place.checkout / "openresty" / "lua",
        memcached=f"{address[hosts.MEMCACHED]}:{hosts.STORE_PORTS[hosts.MEMCACHED]}",
        controllers=_quoted(names),
        secrets=" ".join(f'{option} = secret("{path}"),' for option, path in secrets.items()),
        state_dir=place.state_dir,
        outside=hosts.OUTSIDE,
        connect_timeout_ms=round(settings.connect_timeout_s * 1000),
        read_timeout_ms=round(settings.read_timeout_s * 1000),
        check_interval_s=settings.check_interval_s,
        check_timeout_s=settings.check_timeout_s,
        fetch_interval_s=settings.fetch_interval_s,
        hold_s=settings.hold_s,
        drift_s=settings.drift_s,
        upstream=settings.upstream,
        upstream_block=upstream_block,
        bootstrap=_quoted([f"{address[name]}:{hosts.SERVER_PORT}" for name in hosts.servers(settings)]),
        port=hosts.WEB_PORT,
    )


def controller(settings: Settings) -> str:
    """Return the controllers' file, which is YAML by being JSON."""
    address = hosts.addresses(settings)
    peers = [
        {"id": name, "address": f"{address[name]}:{hosts.SERVER_PORT}", "baseline": 1}
        for name in hosts.servers(settings)
    ]
    upstream = {"law": "steelyard", "picker": "vnswrr2", "load_balancers": ["edge-1"], "peers": peers}
    return json.dumps({"upstreams": {settings.upstream: upstream}}, indent=2) + "\n"


def _quoted(texts: list[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)
