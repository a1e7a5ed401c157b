"""The agent's examples for Kubernetes are valid and hardened, with flags and a file for the agent."""

import re
from pathlib import Path

import pytest
import yaml
from steelyard_agent import settings
from steelyard_agent.settings import Settings

from deploy.tests import chart_invariants, kubernetes_schemas
from deploy.tests.rendered_chart import ROOT, Document

EXAMPLES = {"orca-sidecar": "Deployment", "orca-daemonset": "DaemonSet"}


def objects(name: str) -> dict[str, Document]:
    text = (ROOT / f"agent/examples/{name}.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def pod(name: str) -> Document:
    spec: Document = objects(name)[EXAMPLES[name]]["spec"]["template"]["spec"]
    return spec


def of_agent(name: str) -> Settings:
    """Return the settings of the example's agent."""
    container, file = pod(name)["containers"][-1], objects(name)["ConfigMap"]["data"]["agent.toml"]

    def read(path: Path) -> bytes:
        (mount,) = container["volumeMounts"]
        assert str(path) == f"{mount['mountPath']}/agent.toml"
        return str(file).encode()

    given = {each["name"]: each["value"] for each in container["env"] if "$" not in each.get("value", "$")}
    return settings.load(container["args"], given, hostname="a", read=read)


@pytest.mark.parametrize("version", [kubernetes_schemas.OLDEST, kubernetes_schemas.NEWEST])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_object_is_one_that_kubernetes_knows(name: str, version: str) -> None:
    for document in objects(name).values():
        kubernetes_schemas.validate(document, version)


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_containers_are_hardened_as_our_pods_are(name: str) -> None:
    for container in pod(name)["containers"]:
        chart_invariants.container_is_hardened(container)
    agent = pod(name)["containers"][-1]
    chart_invariants.environment_is_read("agent", agent, but={"APP_CPU", "STEELYARD_AGENT_CONFIG"})


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_agent_streams_a_rate_and_sends_nothing(name: str) -> None:
    chosen = of_agent(name)
    assert chosen.memcached == ()
    assert chosen.rates[0].name == "rps_fractional"
    assert chosen.orca_grpc is not None
    ports = [port["containerPort"] for port in pod(name)["containers"][-1]["ports"]]
    assert ports == [chosen.orca_grpc[1]]


def test_the_sidecar_finds_the_application_and_envoy_gateway_the_sidecar() -> None:
    chosen, (app, agent) = of_agent("orca-sidecar"), pod("orca-sidecar")["containers"]
    port = app["ports"][0]["containerPort"]
    assert chosen.listen_port == port
    assert {f":{port}/" in str(rate.source) for rate in chosen.rates} == {True}
    balancer = objects("orca-sidecar")["BackendTrafficPolicy"]["spec"]["loadBalancer"]
    assert balancer["backendUtilization"]["outOfBand"]["port"] == agent["ports"][0]["containerPort"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_image_is_built_with_what_the_stream_needs(name: str) -> None:
    text = (ROOT / f"agent/examples/{name}.yaml").read_text(encoding="utf-8")
    (argument, file) = re.findall(r"--build-arg (\w+)=(\S+)", text)[0]
    assert "\ngrpcio==" in (ROOT / file).read_text(encoding="utf-8")
    assert f"ARG {argument}=requirements/agent.txt\n" in (ROOT / "agent/Dockerfile").read_text(
        encoding="utf-8"
    )


def test_the_daemonset_answers_on_the_nodes_own_address() -> None:
    spec = pod("orca-daemonset")
    assert spec["hostNetwork"] is True
    assert of_agent("orca-daemonset").scope == "host"
