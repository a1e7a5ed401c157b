"""Pods on trees of both drivers and both versions of control groups: found, sampled, gone."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_agent.pods import node_wiring
from steelyard_agent.pods.pod_list import Pod
from steelyard_agent.readers.pod_groups import SEARCH_AGAIN_S, PodGroups
from steelyard_agent.readers.pod_network import PodNetwork
from steelyard_agent.sample import NOTHING, Indicators, Sample

Plant = Callable[..., Path]

BURSTABLE = "0a1b2c3d-1111-4222-8333-444455556666"
"""Half a core and 1 GB; uses 600 MB, 100 MB of them cache; processes 801 and 802."""

GUARANTEED = "9f8e7d6c-5555-4666-8777-888899990000"
"""No limits here; uses 300 MB; process 803."""

STATIC = "5d41402abc4b2a76b9719d911017c592"
"""Its processes are in another PID namespace."""

TREES = ["pods-v1-cgroupfs", "pods-v1-systemd", "pods-v2-cgroupfs-nested", "pods-v2-systemd"]

every_tree = pytest.mark.parametrize("tree", TREES)

NODES_LIMIT = {"pods-v1-cgroupfs", "pods-v1-systemd", "pods-v2-systemd"}
"""The group of all pods: 6 GB at most, 3 GB in use."""


def group(root: Path, uid: str, file: str) -> Path:
    """Return a file of a pod's own group."""
    names = {f"pod{uid}", f"kubepods-burstable-pod{uid}.slice", f"kubepods-pod{uid}.slice"}
    return next(path for path in root.rglob(file) if path.parent.name.replace("_", "-") in names)


def use_cpu(root: Path, uid: str, seconds: float) -> None:
    """Add to a pod's CPU time."""
    v2 = next(root.rglob("cpu.max"), None) is not None
    file = group(root, uid, "cpu.stat" if v2 else "cpuacct.usage")
    if v2:
        used = int(file.read_text().split()[1])
        file.write_text(f"usage_usec {used + int(seconds * 1e6)}\n")
    else:
        file.write_text(f"{int(file.read_text()) + int(seconds * 1e9)}\n")


def taken(
    root: Path, uid: str, between: Callable[[], None] = lambda: None, limits: Indicators = NOTHING
) -> Sample:
    """Return a pod's sample over 2 s with `between` in them."""
    times = iter([100.0, 102.0])
    watch = node_wiring.watcher(limits, None, root=root, clock=lambda: next(times))
    sampler, _ = watch(Pod(namespace="default", name="web-1", uid=uid, upstream="web"))
    assert sampler.step() is None
    between()
    sample = sampler.step()
    assert sample is not None
    return sample


@every_tree
def test_a_pod_is_a_share_of_its_own_quota_and_limit(plant: Plant, tree: str) -> None:
    root = plant("machine", tree)
    sample = taken(root, BURSTABLE, lambda: use_cpu(root, BURSTABLE, 0.5))
    assert sample.utilization.cpu == pytest.approx(0.5)
    assert sample.utilization.mem == pytest.approx(0.5)
    assert sample.capacity == Indicators(cpu=0.5, mem=1e9)


@every_tree
def test_a_pod_without_limits_is_a_share_of_the_nodes_cores_and_of_what_all_pods_may_have(
    plant: Plant, tree: str
) -> None:
    root = plant("machine", tree)
    sample = taken(root, GUARANTEED, lambda: use_cpu(root, GUARANTEED, 2.0))
    assert sample.utilization.cpu == pytest.approx(0.25)
    assert sample.capacity.cpu == 4
    if tree in NODES_LIMIT:
        assert sample.capacity.mem == 6e9
        assert sample.utilization.mem == pytest.approx(0.5)
    else:
        assert sample.capacity.mem == 8_000_000 * 1024
        assert sample.utilization.mem == pytest.approx(300e6 / (8_000_000 * 1024))


@every_tree
def test_the_network_is_that_of_a_process_of_the_pod(plant: Plant, tree: str) -> None:
    root = plant("machine", tree)
    dev = root / "proc/801/net/dev"

    def send() -> None:
        dev.write_text(dev.read_text().replace("2000 1 ", "102000 1 "))

    assert taken(root, BURSTABLE, send, Indicators(net=100_000.0)).utilization.net == pytest.approx(0.5)
    assert taken(root, BURSTABLE, send).utilization.net is None


@pytest.mark.parametrize("tree", [tree for tree in TREES if "v2" in tree])
def test_v2_io_is_the_pods_own_pressure(plant: Plant, tree: str) -> None:
    root = plant("machine", tree)
    pressure = group(root, BURSTABLE, "io.pressure")
    text = pressure.read_text()
    sample = taken(root, BURSTABLE, lambda: change(pressure, text.replace("total=2000000", "total=2500000")))
    assert sample.utilization.io == pytest.approx(0.25)


def change(file: Path, text: str) -> None:
    file.write_text(text)


@every_tree
def test_a_static_pod_is_found_by_its_hash(plant: Plant, tree: str) -> None:
    root = plant("machine", tree)
    assert "cpuacct" in PodGroups(root=root).find(STATIC)


@every_tree
def test_a_pod_that_is_gone_is_said_once_and_found_again(
    plant: Plant, tree: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    root = plant("machine", tree)
    times = iter(range(100, 200))
    watch = node_wiring.watcher(NOTHING, None, root=root, clock=lambda: float(next(times)))
    sampler, _ = watch(Pod(namespace="shop", name="web-1", uid=BURSTABLE, upstream="web"))
    sampler.step()
    assert sampler.step() is not None
    moved = []
    for folder in [path for path in root.rglob("*") if BURSTABLE in path.name.replace("_", "-")]:
        moved.append((folder, folder.with_name("away")))
        folder.rename(moved[-1][1])
    assert [sampler.step() for _ in range(3)] == [None] * 3
    for folder, away in moved:
        away.rename(folder)
    assert [sampler.step() is not None for _ in range(2)] == [False, True]
    first, second = (entry.getMessage() for entry in caplog.records)
    assert first.startswith("pod shop/web-1: its control group cannot be found (")
    assert BURSTABLE in first
    assert second == "watching pod shop/web-1"


def test_without_the_nodes_tree_the_remedy_is_said(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    with pytest.raises(OSError, match="mount the node's /sys/fs/cgroup at /host/sys/fs/cgroup"):
        PodGroups(root=root).find(BURSTABLE)
    with pytest.raises(OSError, match=r"."):
        PodGroups(root=plant("machine")).find(BURSTABLE)


def test_a_kubelet_that_starts_later_is_found_later(plant: Plant) -> None:
    root = plant("machine", "pods-v2-cgroupfs-nested")
    away = root / "sys/fs/cgroup/kubelet"
    away.rename(root / "kubelet")
    now_s = 100.0
    groups = PodGroups(root=root, clock=lambda: now_s)
    with pytest.raises(OSError, match="no pods' groups"):
        groups.find(BURSTABLE)
    (root / "kubelet").rename(away)
    now_s += SEARCH_AGAIN_S
    assert groups.find(BURSTABLE)


def network(root: Path, uid: str) -> PodNetwork:
    groups = PodGroups(root=root)
    return PodNetwork(lambda: groups.find(uid), root=root)


@every_tree
def test_a_process_that_ends_is_replaced_by_another_one_of_the_pod(plant: Plant, tree: str) -> None:
    root = plant("machine", tree)
    read = network(root, BURSTABLE)
    assert read()["eth0"].tx_bytes == 2000
    text = (root / "proc/801/net/dev").read_text()
    shutil.rmtree(root / "proc/801")
    with pytest.raises(OSError, match="no process of it runs"):
        read()
    other = root / "proc/802/net/dev"
    other.parent.mkdir(parents=True)
    other.write_text(text.replace("2000 1 ", "3000 1 "))
    assert read()["eth0"].tx_bytes == 3000


def test_a_process_of_another_network_that_has_the_number_of_one_that_ended_is_not_read(plant: Plant) -> None:
    root = plant("machine", "pods-v2-systemd")
    read = network(root, BURSTABLE)
    read()
    (root / "proc/801").rename(root / "proc/ended")
    (root / "proc/803").rename(root / "proc/801")  # now 801 is a process of the other pod
    procs = next(path for path in root.rglob("cgroup.procs") if "801" in path.read_text())
    procs.write_text("802\n")
    (root / "proc/ended").rename(root / "proc/802")
    assert read()["eth0"].tx_bytes == 2000


@every_tree
def test_a_pod_on_the_nodes_network_has_none_of_its_own(plant: Plant, tree: str) -> None:
    root = plant("machine", tree)
    (root / "proc/801/net/dev").unlink()
    (root / "proc/801/net/dev").hardlink_to(root / "proc/1/net/dev")
    with pytest.raises(OSError, match="it uses the node's network"):
        network(root, BURSTABLE)()


def test_without_host_pid_the_remedy_is_said(plant: Plant) -> None:
    with pytest.raises(OSError, match="the agent needs hostPID: true"):
        network(plant("machine", "pods-v1-cgroupfs"), STATIC)()
