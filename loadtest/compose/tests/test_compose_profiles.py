"""The profiles of docker-compose.yml, and the remains and messages of its commands."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from .stack import CHECKOUT, CONTROLLERS, PROJECT, Stack, compose_command, run, until

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1200)]


def test_locust_loads_the_cluster(stack: Stack) -> None:
    done = stack.compose(
        "--profile", "loadtest", "run", "--rm", "-T",
        "locust", "--headless", "--users", "5", "--spawn-rate", "5", "--run-time", "5s", "--json",
    )  # fmt: skip
    report = json.loads(done.stdout[done.stdout.index("[") : done.stdout.rindex("]") + 1])
    assert sum(row["num_requests"] for row in report) > 20
    assert sum(row["num_failures"] for row in report) == 0


def test_locust_has_its_page(stack: Stack) -> None:
    stack.compose("--profile", "loadtest", "up", "--detach", "locust")
    until(lambda: stack.get(stack.locust_port, "/")[0] == 200, "locust's page answers")
    assert b"http://nginx:8080" in stack.get(stack.locust_port, "/")[1]
    stack.compose("--profile", "loadtest", "rm", "--stop", "--force", "locust")


@pytest.fixture(scope="module")
def prometheus(stack: Stack) -> Iterator[Stack]:
    """The cluster with the profile's Prometheus."""
    if run(["docker", "image", "inspect", "prom/prometheus:v3.5.0"], check=False).returncode != 0:
        pytest.skip("no image of Prometheus is here, and none can be pulled")
    stack.compose("--profile", "monitoring", "up", "--detach", "prometheus")
    yield stack
    stack.compose("--profile", "monitoring", "rm", "--stop", "--force", "prometheus")


def test_prometheus_gets_all_of_its_targets(prometheus: Stack) -> None:
    def targets() -> dict[str, str]:
        targets = prometheus.asks_prometheus("targets")
        active = targets["activeTargets"] if targets else []
        return {target["labels"]["instance"]: target["health"] for target in active}

    wanted = {**{f"{name}:8081": "up" for name in CONTROLLERS}, "nginx:9145": "up"}
    until(lambda: targets() == wanted, "every target answers")


def test_no_alert_fires_while_all_is_well(prometheus: Stack) -> None:
    def states() -> dict[str, str]:
        groups = (prometheus.asks_prometheus("rules") or {"groups": []})["groups"]
        rules = [rule for group in groups for rule in group["rules"] if rule["health"] == "ok"]
        return {rule["name"]: rule["state"] for rule in rules if rule["type"] == "alerting"}

    until(lambda: len(states()) == _rules(), "every rule was evaluated")
    assert {name for name, state in states().items() if state == "firing"} == set()


@pytest.mark.parametrize("file", ["monitoring/alerts.yml", "monitoring/grafana/dashboards/steelyard.json"])
def test_what_rules_and_dashboard_ask_for_is_measured(stack: Stack, file: str) -> None:
    pages = [(stack.status_port, "/steelyard/metrics"), (stack.api_ports[CONTROLLERS[0]], "/metrics")]
    told = b"".join(stack.get(port, path)[1] for port, path in pages).decode()
    measured = set(re.findall(r"^# TYPE (\S+)", told, re.MULTILINE))
    # Names between colons are recording rules.
    asked = set(re.findall(r"(?<![\w:])steelyard_[a-z_]+", (CHECKOUT / file).read_text()))
    assert len(asked) > 8
    assert {re.sub(r"_(sum|count|bucket)$", "", name) for name in asked} - measured == set()


def test_every_panel_of_the_dashboard_is_a_query_that_prometheus_takes(prometheus: Stack) -> None:
    dashboard = json.loads((CHECKOUT / "monitoring/grafana/dashboards/steelyard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 15
    for query in queries:
        chosen = query.replace("$upstream", "web").replace("$namespace", ".*").replace("$install", ".*")
        answer = prometheus.asks_prometheus(f"query?query={quote(chosen)}")
        assert answer is not None, query


def _rules() -> int:
    return len(re.findall(r"- alert:", (CHECKOUT / "monitoring/alerts.yml").read_text()))


@pytest.mark.parametrize(
    ("settings", "service", "says"),
    [
        ("", "memcached", "run deploy/compose/secrets"),
        ("STEELYARD_SECRETS_GID=10880\n", "redis", "redis_password"),
    ],
    ids=["nothing is set up", "the file is missing"],
)
def test_a_missing_secret_is_a_clear_error(tmp_path: Path, settings: str, service: str, says: str) -> None:
    env_file = tmp_path / "env"
    env_file.write_text(settings)
    project = f"{PROJECT}-missing"
    compose = [*compose_command(), "-p", project, "--env-file", str(env_file)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    environment["STEELYARD_SECRETS"] = str(tmp_path / "secrets")
    up = run([*compose, "up", "--no-build", "--detach", service], check=False, environment=environment)
    env_file.write_text("STEELYARD_SECRETS_GID=10880\n")
    run([*compose, "down", "--volumes"], environment=environment)
    assert up.returncode != 0
    assert says in up.stdout + up.stderr


def test_down_leaves_nothing(stack: Stack) -> None:
    assert all(stack.left().values())
    stack.down()
    assert stack.left() == {"containers": "", "volumes": "", "networks": ""}
