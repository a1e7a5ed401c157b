"""The names that kubelets give to control groups."""

import pytest
from steelyard_agent import kubelet_groups

UID = "0a1b2c3d-1111-4222-8333-444455556666"
SLICE = UID.replace("-", "_")


@pytest.mark.parametrize(
    "folder",
    [
        f"pod{UID}",
        f"kubepods-pod{SLICE}.slice",
        f"kubepods-burstable-pod{SLICE}.slice",
        f"kubepods-besteffort-pod{SLICE}.slice",
        f"kubelet-kubepods-burstable-pod{SLICE}.slice",
    ],
)
def test_a_pods_group_has_its_uid_in_its_name(folder: str) -> None:
    assert kubelet_groups.pod_uid(folder) == UID


@pytest.mark.parametrize(
    "folder",
    [
        "burstable",
        "kubepods",
        "kubepods-burstable.slice",
        "user-pod1.slice",
        "crio-4e5f.scope",
        "cpu.stat",
        "",
    ],
)
def test_other_groups_are_no_pods(folder: str) -> None:
    assert kubelet_groups.pod_uid(folder) is None


@pytest.mark.parametrize("folder", ["kubepods", "kubepods.slice", "kubelet-kubepods.slice"])
def test_the_group_of_all_pods_is_known(folder: str) -> None:
    assert kubelet_groups.is_kubepods(folder)
    assert not kubelet_groups.is_quality(folder)


@pytest.mark.parametrize(
    "folder", ["burstable", "besteffort", "kubepods-burstable.slice", "kubelet-kubepods-besteffort.slice"]
)
def test_the_groups_of_the_qualities_of_service_are_known(folder: str) -> None:
    assert kubelet_groups.is_quality(folder)
    assert not kubelet_groups.is_kubepods(folder)


@pytest.mark.parametrize("folder", ["system.slice", "my-kubepods", "kubepods.service", "podman.slice"])
def test_no_other_group_holds_pods(folder: str) -> None:
    assert not kubelet_groups.is_kubepods(folder)
    assert not kubelet_groups.is_quality(folder)
