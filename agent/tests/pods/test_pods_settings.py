"""Flags for the pods of a node, and flags for one server only."""

from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_agent import settings
from steelyard_agent.pods.pods_flags import PodsSettings
from steelyard_agent.sample import Indicators
from steelyard_agent.settings import Settings
from steelyard_protocol.program_settings import SettingsError

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def file_of(text: str) -> Callable[[Path], bytes]:
    return lambda _path: text.encode()


def load(line: str, toml: str = "", **environment: str) -> Settings:
    return settings.load(line.split(), environment, hostname="agent-x7", read=file_of(toml))


def test_the_node_comes_from_the_environment_as_the_downward_api_sets_it() -> None:
    chosen = load("--scope pods", STEELYARD_AGENT_NODE="node-1.example", **IN_A_POD)
    assert (chosen.scope, chosen.pods) == (
        "pods",
        PodsSettings(
            node="node-1.example",
            api_server=("10.96.0.1", 443),
            service_account=Path("/var/run/secrets/kubernetes.io/serviceaccount"),
            metrics=None,
        ),
    )


def test_every_flag_is_read() -> None:
    line = "--scope pods --node n1 --service-account /sa --metrics 0.0.0.0:9811 --net-capacity 1e6"
    chosen = load(f"{line} --io-capacity 9", **IN_A_POD)
    assert chosen.pods == PodsSettings(
        node="n1",
        api_server=("10.96.0.1", 443),
        service_account=Path("/sa"),
        metrics=("0.0.0.0", 9811),  # noqa: S104 (what kubelets reach)
    )
    assert chosen.limits == Indicators(net=1e6, io=9.0)


def test_a_hosts_name_that_is_no_peers_name_does_not_matter() -> None:
    line = ["--scope", "pods", "--node", "n1"]
    assert settings.load(line, IN_A_POD, hostname="-bad-", read=file_of("")).pods is not None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--scope pods", "--scope pods needs --node NAME"),
        ("--scope pods --node Bad_Name", "--node is 'Bad_Name': give the node's name"),
        ("--scope pods --node n1 --upstream web", "--upstream is for one server, not for --scope pods"),
        ("--scope pods --node n1 --peer a", "--peer is for one server"),
        ("--scope pods --node n1 --orca :9811", "for Prometheus give --metrics"),
        ("--scope pods --node n1 --orca-grpc :9811", "--orca-grpc is for one server"),
        ("--scope pods --node n1 --register http://a --address b:1", "the controller discovers pods"),
        ("--scope pods --node n1 --cpu-limit 2", "a pod's CPU limit is in its control group"),
        ("--scope pods --node n1 --mem-limit 2", "a pod's memory limit is in its control group"),
        ("--scope pods --node n1 --pid 7", "--pid is for one process: add --scope process"),
        ("--scope pods --node n1 --metrics nowhere", "--metrics is 'nowhere': give an address"),
        ("--node n1", "--node is for the pods of a node: add --scope pods"),
        ("--metrics :9811", "--metrics is for the pods of a node: add --scope pods"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_remedy(line: str, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(line, **IN_A_POD)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_applications_own_indicators_are_refused() -> None:
    toml = '[[indicator]]\nname = "queue"\nfile = "/run/q"\nlimit = 10\n'
    with pytest.raises(SettingsError, match=r"\[\[indicator\]\] is an application's own"):
        load("--scope pods --node n1 --config a.toml", toml, **IN_A_POD)


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({}, "KUBERNETES_SERVICE_HOST is not set"),
        ({"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "x"}, "KUBERNETES_SERVICE_PORT is 'x'"),
    ],
)
def test_outside_of_a_cluster_the_missing_variable_is_named(
    environment: dict[str, str], problem: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        load("--scope pods --node n1", **environment)
    assert problem in str(raised.value)
