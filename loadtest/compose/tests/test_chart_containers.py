"""The chart's pods as containers: they start with the chart's settings, and serve."""

import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from deploy.tests.pods_in_docker import PREFIX, Pods, remove_all
from deploy.tests.rendered_chart import ROOT, Document, render
from testing.daemons import free_port
from testing.visitors import Visitors

from .stack import run, until

pytestmark = [pytest.mark.compose, pytest.mark.timeout(900)]

TAG = "chart-test"
SERVERS = ("server-a", "server-b")

MEMCACHED = "steelyard-memcached.lb.svc.cluster.local:11211"

VALUES: dict[str, Any] = {
    "images": {"tag": TAG},
    # These containers have no API server, so its answers are here.
    "discovery": {"enabled": False},
    "upstreams": {"web": {"peers": [{"id": name, "address": f"{name}.shop:8080"} for name in SERVERS]}},
    "dataplane": {"hosts": {"default": "web"}},
}


def sidecar(name: str) -> Document:
    """Return the pod of docs/guides/kubernetes.md that runs an agent beside the demo server."""
    text = (ROOT / "docs/guides/kubernetes.md").read_text(encoding="utf-8")
    (snippet,) = [each for each in text.split("```yaml\n")[1:] if "shareProcessNamespace" in each]
    spec: Document = yaml.safe_load(snippet.split("```")[0])["spec"]["template"]["spec"]
    app, agent = spec["containers"]
    app |= {
        "image": "steelyard-server:chart-test",
        "command": ["/opt/server/bin/python", "-I", "-m", "steelyard_loadtest.server"],
        "args": ["--name", name, "--host", "0.0.0.0", "--port", "8080"],  # noqa: S104
    }
    agent["image"] = f"steelyard-agent:{TAG}"
    (volume,) = spec["volumes"]
    volume["secret"]["secretName"] = "steelyard"
    spec["containers"][1]["env"][0]["value"] = "web"
    for each in agent["env"]:
        if each["name"] == "STEELYARD_MEMCACHED":
            each["value"] = MEMCACHED
    return spec


@pytest.fixture(scope="module")
def images() -> None:
    """Build the images of this checkout."""
    listed = run(
        ["docker", "images", "-q", "--filter", "label=org.steelyard.standin=1", "openresty/openresty"]
    )
    balancer = ["--build-arg", "RESTY_BALANCER=off"] if listed.stdout.strip() else []
    for name, more in (("controller", []), ("openresty", balancer), ("agent", [])):
        run(
            ["docker", "build", "-f", f"{name}/Dockerfile", "-t", f"steelyard-{name}:{TAG}", *more, "."],
            timeout_s=900,
        )
    run(
        [
            "docker",
            "build",
            "-f",
            "loadtest/Dockerfile",
            "--target",
            "server",
            "-t",
            f"steelyard-server:{TAG}",
            ".",
        ],
        timeout_s=900,
    )


@pytest.fixture
def pods(images: None, tmp_path: Path) -> Iterator[Pods]:  # noqa: ARG001
    """Return the means to start the pods of the chart."""
    made = Pods(render(VALUES), tmp_path)
    try:
        yield made
        print(made.logs())  # shown where the test fails
    finally:
        remove_all()


def get(url: str) -> tuple[int, Any]:
    """GET JSON; (0, None) without an answer."""
    try:
        answer = httpx.get(url, timeout=60, trust_env=False)
    except httpx.HTTPError:
        return 0, None
    return answer.status_code, answer.json() if answer.is_success else None


def answers(url: str) -> bool:
    """Return whether a GET has a good answer, with JSON or not."""
    try:
        return httpx.get(url, timeout=60, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def test_the_pods_start_as_the_chart_says_and_every_request_is_answered(pods: Pods) -> None:
    redis, memcached = pods.start("redis"), pods.start("memcached")
    controllers = [pods.start("controller", ordinal=n) for n in range(2)]
    port = free_port()
    edges = [pods.start("dataplane", publish=f"127.0.0.1:{port}:8080"), pods.start("dataplane", ordinal=1)]
    for name in SERVERS:
        pods.start_pod(name, sidecar(name), names=[f"{name}.shop"], claims=[])
    started = {"redis": [redis], "memcached": [memcached], "controller": controllers, "dataplane": edges}
    for component, names in started.items():
        for name in names:
            until(partial(pods.is_well, name, component), f"{name} passes its probes")

    api = f"http://{pods.address(controllers[0], 'controller')}:8081"
    roles = {
        get(f"http://{pods.address(name, 'controller')}:8081/v1/service")[1]["role"] for name in controllers
    }
    assert roles == {"leader", "standby"}

    def measured() -> Any:
        web = get(f"{api}/v1/upstreams/web")[1]
        return web and all(peer["utilization"] is not None for peer in web["peers"]) and web

    for name in edges:
        # The servers' names are new, and are looked up again every few seconds.
        until(partial(answers, f"http://{pods.address(name, 'dataplane')}:8080/"), f"{name} has servers")
    with Visitors(port, requests_per_s=60, connections=8) as visitors:
        visitors.next(200)
        web = until(measured, "the sidecars' samples have come")
        # From the sidecar: the application's CPU, relative to the pod's limit.
        assert {peer["utilization"]["cpu"] is not None for peer in web["peers"]} == {True}
        until(
            lambda: all(get(f"{api}/v1/upstreams/web")[1]["load_balancers"].get(name) for name in edges),
            "each load balancer reports under its name",
        )
        status = f"http://{pods.address(edges[0], 'dataplane')}:9145/steelyard/status"
        assert get(status)[1]["zone"] == "eu-1a"
        visitors.next(300)
        assert set(visitors.served()) == set(SERVERS)
        assert visitors.failures == []
    told = pods.run(controllers[0], "controller", "steelyard", "status")
    assert all(name in told for name in (*SERVERS, *edges))

    # Requests under way at a removed pod are still answered.
    late: list[int] = []
    url = f"http://{pods.address(edges[1], 'dataplane')}:8080/sleep?ms=15000"
    asking = threading.Thread(target=lambda: late.append(get(url)[0]))
    asking.start()
    assert pods.end(edges[1], "dataplane") == 0
    asking.join()
    assert late == [200]
    for name in controllers:
        assert pods.end(name, "controller") == 0
    assert (
        PREFIX
        in subprocess.run(["docker", "network", "ls"], capture_output=True, text=True, check=True).stdout
    )
