"""docker-compose.yml's cluster, as the tests handle it: up, down, kill, start, look inside."""

import http.client
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]

# A project of its own, under a name that stays: what a killed run has left is removed by the next one.
PROJECT = "steelyard-compose-test"

# Images are built in it, on whatever machine there is.
UP_S = 900

# Expected events take seconds; a loaded machine may need several times that.
PATIENCE_S = 90.0

CONTROLLERS = ("controller-1", "controller-2")
SERVERS = ("server-1", "server-2", "server-3")


def run(
    command: Sequence[str],
    *,
    check: bool = True,
    timeout_s: float = 120,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout to its end; fail the test with its output if it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout_s, cwd=CHECKOUT, env=environment
    )
    if check and done.returncode != 0:
        said = done.stdout[-3000:] + done.stderr[-3000:]
        pytest.fail(f"{' '.join(command)}: status {done.returncode}\n{said}")
    return done


def compose_command() -> list[str]:
    """Return the installed compose: version 2, or docker-compose 1.29."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.fail("neither `docker compose` nor docker-compose is here: run deploy/compose/engine")


def until(holds: Callable[[], Any], what: str, *, patience_s: float = PATIENCE_S) -> Any:
    """Wait until something holds, and return it; fail the test if it never does."""
    deadline = time.monotonic() + patience_s
    while True:
        answer = holds()
        if answer:
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"not within {patience_s:.0f} s: {what}")
        time.sleep(0.2)


class Stack:
    """A cluster under the project's name, with ports and secrets of its own."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self.lb_port, self.status_port, api_1, api_2, locust, prometheus = ports
        self.api_ports = dict(zip(CONTROLLERS, (api_1, api_2), strict=True))
        self.prometheus_port, self.locust_port = prometheus, locust
        self._env_file = folder / "env"
        self.secrets = folder / "secrets"
        self._ours = [*compose_command(), "-p", PROJECT, "--env-file", str(self._env_file)]
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")},
            "STEELYARD_SECRETS": str(self.secrets),
            "STEELYARD_ENV_FILE": str(self._env_file),
            "STEELYARD_LB_PORT": str(self.lb_port),
            "STEELYARD_STATUS_PORT": str(self.status_port),
            "STEELYARD_API_PORT": str(api_1),
            "STEELYARD_API_PORT_2": str(api_2),
            "STEELYARD_LOCUST_PORT": str(locust),
            "STEELYARD_PROMETHEUS_PORT": str(prometheus),
            "STEELYARD_HEALTH_INTERVAL": "2s",
        }
        if _is_standin("openresty/openresty"):
            self._environment["STEELYARD_RESTY_BALANCER"] = "off"

    def compose(
        self, *arguments: str, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run compose on this project."""
        command = [*self._ours, *arguments]
        return run(command, check=check, timeout_s=timeout_s, environment=self._environment)

    def redis_script(self, verb: str, file: Path) -> None:
        """Run deploy/compose/redis on this project."""
        environment = {**self._environment, "STEELYARD_COMPOSE": " ".join(self._ours)}
        run(["deploy/compose/redis", verb, str(file)], timeout_s=300, environment=environment)

    def up(self) -> None:
        """Bring up the cluster from nothing."""
        run(["deploy/compose/secrets"], environment=self._environment)
        self.down()
        # One service of each image, side by side: most of a build is waiting for packages.
        each = ("nginx", "controller-1", "server-1", "locust")
        self.compose("--profile", "loadtest", "build", "--parallel", *each, timeout_s=UP_S)
        self.compose("up", "--detach", timeout_s=UP_S)
        until(self.is_ready, "the cluster works")

    def down(self) -> None:
        """Remove all of it, volumes and the profiles' containers too."""
        self.compose(
            "--profile", "loadtest", "--profile", "monitoring", "down", "--volumes", "--remove-orphans"
        )

    def is_ready(self) -> bool:
        """Return whether nginx has a fresh table and the controller a sample of every server."""
        web = self.status()
        return (
            web is not None
            and web["rung"] == "fresh"
            and len(web["peers"]) == len(SERVERS)
            and self.leader() is not None
            and all(peer["utilization"] is not None for peer in self.web()["peers"])
        )

    def asks_prometheus(self, question: str) -> Any:
        """Return the data of Prometheus's answer; None without any."""
        document = self.json(self.prometheus_port, f"/api/v1/{question}")
        return document["data"] if document else None

    # Its own description

    def get(self, port: int, path: str) -> tuple[int, bytes]:
        """GET a path on a published port; (0, reason) without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, repr(error).encode()
        finally:
            connection.close()

    def patch(
        self, controller: str, path: str, change: Mapping[str, object], authorization: str | None
    ) -> int:
        """PATCH a path of a controller's API; return the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.api_ports[controller], timeout=5)
        headers = {"Content-Type": "application/merge-patch+json"}
        if authorization is not None:
            headers["Authorization"] = authorization
        try:
            connection.request("PATCH", path, json.dumps(change), headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def json(self, port: int, path: str) -> Any:
        """Return the document at a path; None without one."""
        status, body = self.get(port, path)
        return json.loads(body) if status == 200 else None

    def status(self) -> Any:
        """Return nginx's own status of the upstream; None without one."""
        document = self.json(self.status_port, "/steelyard/status")
        return document["upstreams"]["web"] if document else None

    def service(self, controller: str) -> Any:
        """Return a controller's own status; None without an answer."""
        return self.json(self.api_ports[controller], "/v1/service")

    def leader(self) -> str | None:
        """Return the leading controller; None if none leads, or two report it."""
        leading = [name for name in CONTROLLERS if (self.service(name) or {}).get("role") == "leader"]
        return leading[0] if len(leading) == 1 else None

    def web(self) -> Any:
        """Return the upstream from a controller; one without peers if none answers."""
        for port in self.api_ports.values():
            document = self.json(port, "/v1/upstreams/web")
            if document:
                return document
        return {"peers": []}

    def shares(self) -> dict[str, float]:
        """Return each server's share of the published weights."""
        peers = self.web()["peers"]
        total = sum(peer["weight"] for peer in peers)
        return {peer["id"]: peer["weight"] / total for peer in peers}

    # The engine's side

    def container(self, service: str) -> str:
        """Return the id of a service's container."""
        label = f"label=com.docker.compose.service={service}"
        ours = f"label=com.docker.compose.project={PROJECT}"
        return run(["docker", "ps", "-a", "-q", "--filter", ours, "--filter", label]).stdout.strip()

    def inspect(self, service: str) -> Any:
        """Return the engine's account of a service's container."""
        return json.loads(run(["docker", "inspect", self.container(service)]).stdout)[0]

    def kill(self, service: str) -> None:
        """Kill a container with SIGKILL. The engine considers that intended, and does not restart it."""
        run(["docker", "kill", self.container(service)])

    def start(self, service: str) -> None:
        """Start a killed container, and wait until it is healthy."""
        run(["docker", "start", self.container(service)])
        self.until_healthy(service)

    def until_healthy(self, service: str) -> None:
        """Wait until the engine reports a container as healthy."""
        until(lambda: self.health(service) == "healthy", f"{service} is healthy")

    def health(self, service: str) -> str:
        """Return a container's health, or its state if it does not run."""
        state = self.inspect(service)["State"]
        return str(state["Health"]["Status"] if state["Running"] and "Health" in state else state["Status"])

    def inside(self, service: str, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a line of bash in a container."""
        return run(["docker", "exec", self.container(service), "bash", "-c", script], check=check)

    def burn(self, server: str, request: str) -> None:
        """Start or stop burners of CPU in a server's container from its own loopback."""
        sends = f"printf '{request} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' >&3"
        asks = f"exec 3<>/dev/tcp/127.0.0.1/8080; {sends}; read -r _ status _ <&3; echo $status"
        answer = self.inside(server, asks).stdout.strip()
        if answer not in {"200", "202"}:
            pytest.fail(f"{server}: {request}: {answer}")

    def left(self) -> dict[str, str]:
        """Return the engine's remains of the project: containers, volumes, networks."""
        ours = f"label=com.docker.compose.project={PROJECT}"
        return {
            "containers": run(["docker", "ps", "-a", "-q", "--filter", ours]).stdout,
            "volumes": run(["docker", "volume", "ls", "-q", "--filter", ours]).stdout,
            "networks": run(["docker", "network", "ls", "-q", "--filter", ours]).stdout,
        }


def _is_standin(image: str) -> bool:
    listed = run(["docker", "images", "-q", "--filter", "label=org.steelyard.standin=1", image])
    return bool(listed.stdout.strip())
