"""A reverse proxy on the controller's own machine, with a minimal configuration from nginx's manual."""

import os
import shutil
from pathlib import Path

import httpx
import pytest

from testing.daemons import Daemon, free_port

from ..processes import controller, own_token
from .serving import WEB

pytestmark = pytest.mark.integration

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {url}; }}
    }}
}}
"""


def test_a_proxy_on_this_machine_lends_nobody_the_right_to_write(tmp_path: Path, memcached: Daemon) -> None:
    program = shutil.which("nginx") or pytest.fail("nginx is not installed: run `make setup-tests`")
    flags = ("--memcached", memcached.address, "--state-url", "memory://")
    with controller(tmp_path, *flags) as behind:
        behind.wait("leader")
        port, config = free_port(), tmp_path / "nginx.conf"
        user = "user root;" if os.getuid() == 0 else ""
        config.write_text(NGINX.format(folder=tmp_path, port=port, url=behind.url, user=user))
        proxy = Daemon([program, "-p", str(tmp_path), "-c", str(config)], port, tmp_path / "proxy.log")
        proxy.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
                assert client.get("/v1/upstreams").json()["upstreams"] == []
                assert client.put("/v1/upstreams/web", json=WEB).status_code == 401
                assert client.get("/v1/upstreams").json()["upstreams"] == []
                # Nor directly, for another user of this machine.
                assert httpx.put(f"{behind.url}/v1/upstreams/web", json=WEB).status_code == 401
                allowed = client.put("/v1/upstreams/web", json=WEB, headers=own_token())
                assert allowed.status_code == 201
        finally:
            proxy.kill()
        logged = behind.log.read_text()
        assert "steelyard page" in logged
        assert own_token()["Authorization"].removeprefix("Bearer ") not in logged
