"""The Helm chart's nginx.conf: nginx accepts it, and hosts decide where requests go."""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.tests.rendered_chart import SETS, of_set, render
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_any_upstream import LIST, listing
from openresty.tests.test_examples import found_by_gixy
from testing.certificates import Authority
from testing.daemons import free_port
from testing.lua_bytecode import lua_path
from testing.nginx_under_test import OPENRESTY, load_modules
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

GENERATOR = OPENRESTY / "bin" / "steelyard-upstream"
CERTIFICATE = "/run/secrets/tls/tls"


def rendered(values: dict[str, Any] | str) -> str:
    """Return the nginx.conf for these values, or for a named set of them."""
    chart = of_set(values) if isinstance(values, str) else render(values)
    return str(chart.named("ConfigMap", "steelyard-dataplane")["data"]["nginx.conf"])


def at_home(config: str, status_port: int) -> str:
    """Return it for this machine, with only modules, folders and ports replaced."""
    command = [str(GENERATOR), "any", "--servers", "1000", "--variable", "steelyard_upstream"]
    generated = subprocess.run([*command, "--nginx", "nginx"], capture_output=True, text=True, check=True)
    places = {
        "include /tmp/resolver.conf;": "",
        "/tmp/": "@FOLDER@/",  # noqa: S108 (the pod's own)
        "include /usr/local/openresty/nginx/conf/any-upstream.conf;": generated.stdout,
        "/usr/local/openresty/site/lualib/?.lua;": f"{lua_path()};{OPENRESTY}/docker/lua/?.lua;",
        "/dev/stderr": "@FOLDER@/error.log",
        "worker_rlimit_nofile 65536;": "",
        "worker_connections 16384;": "worker_connections 512;",
        "listen 8080": "listen 127.0.0.1:@PORT@",
        "listen [::]:8080": "listen [::1]:@PORT@",
        "listen 8443": f"listen 127.0.0.1:{(https_port := free_port())}",
        "listen [::]:8443": f"listen [::1]:{https_port}",
        "listen 9145": f"listen 127.0.0.1:{status_port}",
        "listen [::]:9145": f"listen [::1]:{status_port}",
        CERTIFICATE: "@FOLDER@/tls",
    }
    for ours, here in places.items():
        config = config.replace(ours, here)
    # The image's start script adds this.
    names = re.findall(r"env (STEELYARD_\w+);", (OPENRESTY / "docker/start").read_text())
    main = [load_modules(), "user root;" if os.geteuid() == 0 else "", "daemon off;"]
    return "\n".join([*main, *(f"env {name};" for name in names), config])


@pytest.fixture
def pod(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """The rig, with the environment of the chart's pods."""
    monkeypatch.setenv("STEELYARD_MEMCACHED", f"127.0.0.1:{rig.memcached.port}")
    monkeypatch.setenv("STEELYARD_LB", "steelyard-dataplane-0")
    monkeypatch.setenv("STEELYARD_STATUS_ALLOW", "10.0.0.0/8,100.64.0.0/10,fc00::/7")
    return rig


@pytest.mark.parametrize("name", sorted(set(SETS) - {"least"}))
def test_nginx_takes_what_a_set_of_values_makes(name: str, tmp_path: Path) -> None:
    made = Authority(tmp_path).path
    for file in ("tls.crt", "tls.key"):
        shutil.copy(made, tmp_path / file)
    path = tmp_path / "nginx.conf"
    text = at_home(rendered(name), free_port()).replace("@FOLDER@", str(tmp_path))
    path.write_text(text.replace("@PORT@", str(free_port())))
    command = ["nginx", "-t", "-q", "-p", str(tmp_path), "-c", str(path), "-e", "stderr"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_gixy_finds_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.conf" for name in sorted(set(SETS) - {"least"})]
    for path in paths:
        path.write_text(rendered(path.stem))
    # HSTS binds a site to TLS for good, so its owner decides.
    assert found_by_gixy([str(path) for path in paths], "hsts_header") == []


def test_requests_go_to_the_upstream_that_their_host_says(pod: Rig, tmp_path: Path) -> None:
    rig, status_port = pod, free_port()
    for name in ("shop", "web"):
        rig.publish([(name, rig.backend(name).address, 1, "up")], generation=1, upstream=name)
    hosts = {"www.example.org": "web", "*.example.com": "web"}
    config = at_home(rendered({"dataplane": {"hosts": hosts}}), status_port)
    edge = Edge(tmp_path / "chart", config, workers=2)
    status = StatusPort(edge, status_port)
    try:
        assert status.get("/steelyard/ready").status == 503
        assert status.get("/steelyard/alive").status == 200
        rig.memcached.set(LIST, listing("shop", "web", generation=1))
        rig.wait_until(lambda: status.served() == [{"shop", "web"}] * 2, "both workers serve both")
        assert status.get("/steelyard/ready").status == 200
        for host, server in (
            ("www.example.org", "web"),
            ("shop.example.org", "shop"),  # by the host's first label
            ("a.example.com", "web"),
            ("SHOP:8080", "shop"),
        ):
            assert edge.get(headers={"Host": host}).server == server, host
        unknown = edge.get(headers={"Host": "other.example.org"})
        assert (unknown.status, "other" in unknown.json()["detail"]) == (404, True)
        assert "steelyard_" in status.get("/steelyard/metrics").body
        # A dual-stack cluster's probes and clients may come over IPv6.
        for port in (edge.port, status_port):
            socket.create_connection(("::1", port), PATIENCE_S).close()
        # The port of requests has no pages of the control plane.
        assert edge.get("/steelyard/status", {"Host": "other.example.org"}).status == 404
    finally:
        edge.stop()


class StatusPort:
    """The port of pages and probes."""

    def __init__(self, edge: Edge, port: int) -> None:
        self._edge, self._port = edge, port

    def get(self, path: str) -> Any:
        """Ask there."""
        requests, self._edge.port = self._edge.port, self._port
        try:
            return self._edge.get(path)
        finally:
            self._edge.port = requests

    def served(self) -> list[set[str]]:
        """Return the upstreams that each worker serves."""
        return [set(each["serving"]) for each in self.get("/steelyard/status").json()["workers"]]
