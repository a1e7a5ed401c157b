"""The real API of the other tests here: it enforces rights and keeps objects."""

import http.client
import json
import re
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from .kube_api import KubeApi, wait_until

pytestmark = pytest.mark.kubernetes

SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"


@pytest.fixture
def namespace(kube_api: KubeApi) -> str:
    """A namespace with a ServiceAccount `reader` without rights."""
    name = kube_api.new_namespace()
    kube_api.kubectl("create", "serviceaccount", "reader", "--namespace", name)
    return name


def slice_of(namespace: str, address: str) -> str:
    """Return an EndpointSlice `web-1` of one ready endpoint, as JSON."""
    document = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "web-1",
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": 8080}],
    }
    return json.dumps(document)


def next_event(watch: http.client.HTTPResponse) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(watch.readline())
    return event


def test_the_server_is_the_version_that_go_mod_names(kube_api: KubeApi) -> None:
    wanted = re.search(r"k8s.io/kubernetes (v\S+)", Path("testing/kubernetes/apiserver/go.mod").read_text())
    assert wanted is not None
    said = json.loads(kube_api.kubectl("version", "--output=json"))
    assert said["serverVersion"]["gitVersion"] == wanted[1]


def test_a_service_account_without_rights_is_refused(kube_api: KubeApi, namespace: str) -> None:
    token = kube_api.service_account_token(namespace, "reader")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        kube_api.open(SLICES.format(namespace), token)
    with refusal.value as answer:
        assert answer.code == 403
        assert f"system:serviceaccount:{namespace}:reader" in json.load(answer)["message"]


def test_an_endpoint_slice_is_written_watched_and_still_there_after_the_server_was_away(
    kube_api: KubeApi, namespace: str
) -> None:
    reader = f"system:serviceaccount:{namespace}:reader"
    in_it = ("--namespace", namespace)
    rules = ("--verb=list,watch", "--resource=endpointslices.discovery.k8s.io")
    kube_api.kubectl("create", "role", "read", *rules, *in_it)
    kube_api.kubectl(
        "create", "rolebinding", "read", "--role=read", f"--serviceaccount={namespace}:reader", *in_it
    )
    wait_until(lambda: kube_api.may(reader, "watch", "endpointslices", namespace), "the role is known")
    path = SLICES.format(namespace)
    token = kube_api.service_account_token(namespace, "reader")
    with kube_api.open(f"{path}?watch=true&resourceVersion=0", token) as watch:
        kube_api.kubectl("apply", "--filename=-", given=slice_of(namespace, "192.0.2.1"))
        event = next_event(watch)
        assert (event["type"], event["object"]["endpoints"][0]["addresses"]) == ("ADDED", ["192.0.2.1"])
        kube_api.kubectl("apply", "--filename=-", given=slice_of(namespace, "192.0.2.2"))
        event = next_event(watch)
        assert (event["type"], event["object"]["endpoints"][0]["addresses"]) == ("MODIFIED", ["192.0.2.2"])
    with kube_api.away(), pytest.raises(urllib.error.URLError, match="refused"):
        kube_api.open(path, token)
    with kube_api.open(path, token) as listed:
        assert [one["endpoints"][0]["addresses"] for one in json.load(listed)["items"]] == [["192.0.2.2"]]


def test_a_frozen_server_answers_nothing_until_it_goes_on(kube_api: KubeApi, namespace: str) -> None:
    token = kube_api.service_account_token(namespace, "reader")
    with kube_api.frozen(), pytest.raises(OSError, match="timed out"):
        kube_api.open("/version", token, timeout_s=1)
    with kube_api.open("/version", token) as answer:
        assert json.load(answer)["major"] == "1"
