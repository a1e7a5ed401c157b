"""The agent of a node's pods, against the real API: with the DaemonSet's rights, and with none."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from steelyard_agent.pods import pod_list
from steelyard_agent.pods.api_client import ApiClient, ApiFault
from steelyard_agent.pods.pod_list import PodList

from .kube_api import KubeApi, wait_until

pytestmark = pytest.mark.kubernetes

# Long enough for a loaded machine.
PATIENT_S = 30.0


@pytest.fixture
def namespace(kube_api: KubeApi) -> str:
    """A namespace with a ServiceAccount `agent` without rights."""
    name = kube_api.new_namespace()
    kube_api.kubectl("create", "serviceaccount", "agent", "--namespace", name)
    return name


@pytest.fixture
def account(kube_api: KubeApi, namespace: str, tmp_path: Path) -> Path:
    """The folder that a kubelet would mount."""
    (tmp_path / "token").write_text(kube_api.service_account_token(namespace, "agent"))
    (tmp_path / "ca.crt").write_bytes(kube_api.ca.read_bytes())
    return tmp_path


def client_of(kube_api: KubeApi, account: Path, node: str) -> ApiClient:
    url = urlsplit(kube_api.url)
    assert url.hostname
    assert url.port
    return ApiClient((url.hostname, url.port), account, node, timeout_s=PATIENT_S)


def may_list(kube_api: KubeApi, namespace: str) -> None:
    """Give the agent its rights from the chart."""
    user = f"system:serviceaccount:{namespace}:agent"
    kube_api.kubectl("create", "clusterrole", namespace, "--verb=list", "--resource=pods")
    to = (f"--clusterrole={namespace}", f"--serviceaccount={namespace}:agent")
    kube_api.kubectl("create", "clusterrolebinding", namespace, *to)
    wait_until(lambda: kube_api.may(user, "list", "pods", namespace), "the role is known")


def run_pod(kube_api: KubeApi, namespace: str, name: str, node: str, *, upstream: str | None = "web") -> None:
    """Make a pod and report it as running, as a kubelet does."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {} if upstream is None else {pod_list.UPSTREAM_LABEL: upstream},
        },
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app:1"}]},
    }
    kube_api.kubectl("apply", "--filename=-", given=json.dumps(document))
    say_phase(kube_api, namespace, name, "Running")


def say_phase(kube_api: KubeApi, namespace: str, name: str, phase: str) -> None:
    patch = ("--subresource=status", "--type=merge", "--patch", json.dumps({"status": {"phase": phase}}))
    kube_api.kubectl("patch", "pod", name, "--namespace", namespace, *patch)


def names(answer: PodList | ApiFault) -> list[tuple[str, str, bool]]:
    assert isinstance(answer, PodList), answer
    return [(pod.upstream, pod.name, pod.leaving) for pod in answer.pods]


def test_the_running_labelled_pods_of_the_node_are_listed_with_the_right_to_list_alone(
    kube_api: KubeApi, namespace: str, account: Path
) -> None:
    node = f"node-{namespace}"
    ask = client_of(kube_api, account, node)
    may_list(kube_api, namespace)
    assert names(ask()) == []
    run_pod(kube_api, namespace, "web-1", node)
    run_pod(kube_api, namespace, "shop-1", node, upstream="shop")
    run_pod(kube_api, namespace, "other-node", "another-node")
    run_pod(kube_api, namespace, "no-label", node, upstream=None)
    run_pod(kube_api, namespace, "ended", node)
    say_phase(kube_api, namespace, "ended", "Succeeded")
    # The server answers from its memory, and that may be a moment old.
    both = [("shop", "shop-1", False), ("web", "web-1", False)]
    wait_until(lambda: names(ask()) == both, "both pods are listed")
    answer = ask()
    assert isinstance(answer, PodList)
    (uid,) = (pod.uid for pod in answer.pods if pod.name == "web-1")
    told = kube_api.kubectl(
        "get", "pod", "web-1", "--namespace", namespace, "--output=jsonpath={.metadata.uid}"
    )
    assert uid == told
    kube_api.kubectl("delete", "pod", "web-1", "--namespace", namespace, "--wait=false")
    leaving = [("shop", "shop-1", False), ("web", "web-1", True)]
    wait_until(lambda: names(ask()) == leaving, "the pod that is being deleted leaves")
    kube_api.kubectl("label", "pod", "shop-1", "--namespace", namespace, f"{pod_list.UPSTREAM_LABEL}-")
    wait_until(lambda: names(ask()) == leaving[1:], "the pod without the label is listed no more")


def test_without_the_right_the_server_says_so_and_while_it_is_away_nothing_else_fails(
    kube_api: KubeApi, namespace: str, account: Path
) -> None:
    ask = client_of(kube_api, account, "node-1")
    refused = ask()
    assert isinstance(refused, ApiFault)
    assert refused.kind == "403"
    assert f"system:serviceaccount:{namespace}:agent" in refused.why
    (account / "token").write_text("not.a.token")
    refused = ask()
    assert isinstance(refused, ApiFault)
    assert refused.kind == "401"
    with kube_api.away():
        gone = ask()
    assert isinstance(gone, ApiFault)
    assert gone.kind == "no answer"
