"""The API server's list: the pods to sample, with their names, and the others."""

from urllib.parse import parse_qs, urlsplit

import pytest
from steelyard_agent.pods import pod_list
from steelyard_agent.pods.pod_list import MOST_PODS, Pod

from testing import pods_api_server
from testing.pods_api_server import pod

UID = "0a1b2c3d-1111-4222-8333-444455556666"
OTHER = "9f8e7d6c-5555-4666-8777-888899990000"


def listed(*pods: dict[str, object]) -> pod_list.PodList:
    return pod_list.parse(pods_api_server.pod_list(*pods))


def test_a_labelled_pod_is_the_peer_of_its_name_in_the_labels_upstream() -> None:
    told = listed(pod("web-1", UID))
    assert told.pods == (Pod(namespace="default", name="web-1", uid=UID, upstream="web"),)
    assert told.faults == {}


def test_a_pod_that_is_being_deleted_leaves() -> None:
    (leaving,) = listed(pod("web-1", UID, deletionTimestamp="2026-11-23T09:00:00Z")).pods
    assert leaving.leaving


def test_a_static_pods_group_is_named_after_its_hash() -> None:
    (static,) = listed(pod("web-node-1", UID, annotations={"kubernetes.io/config.hash": "5d41402a"})).pods
    assert static.uid == "5d41402a"


@pytest.mark.parametrize("value", ["", "-web", "a" * 65, None, 7])
def test_a_label_that_names_no_upstream_is_a_fault(value: object) -> None:
    told = listed(pod("web-1", UID, labels={"steelyard/upstream": value}), pod("web-2", OTHER))
    assert [one.name for one in told.pods] == ["web-2"]
    assert list(told.faults) == ["default/web-1"]
    assert "steelyard/upstream" in told.faults["default/web-1"]


def test_a_name_that_is_too_long_for_a_peer_is_a_fault() -> None:
    name = "w" * 65
    assert listed(pod(name, UID)).faults == {
        f"default/{name}": "a peer's name has at most 64 letters: give the pod a shorter name"
    }


@pytest.mark.parametrize("uid", ["", "../../system.slice", "a/b", None, 7])
def test_a_uid_that_is_none_reaches_no_file(uid: str) -> None:
    told = listed(pod("web-1", uid))
    assert (told.pods, list(told.faults)) == ((), ["default/web-1"])


def test_of_two_pods_of_one_name_and_upstream_the_older_is_sampled() -> None:
    young = pod("web-1", UID, namespace="a", creationTimestamp="2026-11-23T08:00:01Z")
    old = pod("web-1", OTHER, namespace="b", creationTimestamp="2026-11-23T08:00:00Z")
    told = listed(young, old)
    assert [one.full_name for one in told.pods] == ["b/web-1"]
    assert told.faults["a/web-1"].startswith("pod b/web-1 is web/web-1 already")
    elsewhere = listed(pod("web-1", UID, namespace="a", labels={"steelyard/upstream": "shop"}), old)
    assert len(elsewhere.pods) == 2


def test_more_pods_than_one_agent_samples_are_faults() -> None:
    told = listed(*(pod(f"web-{n}", f"{n:032x}") for n in range(MOST_PODS + 2)))
    assert (len(told.pods), len(told.faults)) == (MOST_PODS, 2)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"kind": "Status", "items": null}',
        b'{"kind": "PartialObjectMetadataList", "items": {"a": 1}}',
        b'{"kind": "PartialObjectMetadataList", "items": [7]}',
        b'{"kind": "PartialObjectMetadataList", "items": [{"metadata": 1}]}',
    ],
)
def test_what_is_no_list_of_pods_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        pod_list.parse(text)


def test_an_answer_without_pods_is_none() -> None:
    assert listed().pods == ()
    assert pod_list.parse(pods_api_server.pod_list().replace(b"null", b"[]")).pods == ()


def test_running_pods_of_the_node_are_asked_for_from_the_api_servers_memory() -> None:
    asked = urlsplit(pod_list.path("node-1.example"))
    assert asked.path == "/api/v1/pods"
    assert parse_qs(asked.query) == {
        "labelSelector": ["steelyard/upstream"],
        "fieldSelector": ["spec.nodeName=node-1.example,status.phase=Running"],
        "resourceVersion": ["0"],
    }
