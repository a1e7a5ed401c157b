"""Is this a container? On the trees of containers and hosts, and on invented signs."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from steelyard_agent.readers.scope import make_reader
from steelyard_agent.scopes import container_detection
from steelyard_agent.scopes.cgroup import CgroupReading
from steelyard_agent.scopes.container_detection import Signs
from steelyard_agent.scopes.reading import Absent

Plant = Callable[..., Path]


def verdict(
    *,
    part: str | None = None,
    paths: Sequence[str] = ("/",),
    unit: str | None = None,
    limited: str | None = None,
    markers: Sequence[str] = (),
) -> str:
    signs = Signs(part=part, paths=paths, unit=unit, limited=limited, markers=markers)
    return container_detection.judge(signs).note.partition(":")[0]


@pytest.mark.parametrize(
    ("tree", "scope", "certainty"),
    [
        ("v2-container", "cgroup", "sure"),
        ("v1-container", "cgroup", "sure"),
        ("v2-nested", "cgroup", "likely"),
        ("v2-host", "host", "likely"),
        ("v1-hybrid-host", "host", "sure"),
    ],
)
def test_auto_is_cgroup_in_a_container_and_host_elsewhere(
    plant: Plant, tree: str, scope: str, certainty: str
) -> None:
    made = make_reader("auto", root=plant("machine", tree))
    assert made.scope == scope
    assert made.detection.note.startswith(f"{scope} ({certainty}): ")


def test_a_container_that_sees_its_hosts_groups_is_a_container_without_figures(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    mounts = root / "proc/self/mountinfo"
    mounts.write_text(mounts.read_text().replace(" / /sys/fs", " /../.. /sys/fs"))
    made = make_reader("auto", root=root)
    assert made.scope == "cgroup"
    assert made.detection.note == "cgroup (sure): /sys/fs/cgroup shows groups above this process's namespace"
    reading = made.read()
    assert isinstance(reading, Absent)
    assert "--cgroupns host" in reading.why


def test_a_containers_own_groups_count_beside_a_mount_of_its_hosts(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    mounts = root / "proc/self/mountinfo"
    own = mounts.read_text().splitlines()[1]
    mounts.write_text(own.replace(" / /sys/fs/cgroup", " /../.. /host/sys/fs/cgroup") + "\n" + own + "\n")
    reading = make_reader("auto", root=root).read()
    assert isinstance(reading, CgroupReading)
    assert reading.name == "/sys/fs/cgroup"


def test_where_the_groups_cannot_be_read_it_is_a_host_and_says_so(plant: Plant) -> None:
    made = make_reader("auto", root=plant("machine"))
    assert made.scope == "host"
    assert made.detection.note.startswith("host (a guess): the groups cannot be read")


def test_an_agent_that_systemd_limits_is_still_on_a_host() -> None:
    unit = "/system.slice/steelyard-agent.service"
    assert verdict(paths=[unit], unit=unit, limited=unit) == "host (likely)"


def test_a_marker_alone_proves_nothing() -> None:
    assert verdict(markers=["/.dockerenv"]) == "host (likely)"
    assert verdict(markers=["/.dockerenv"], paths=["/x"], limited="/x") == "cgroup (likely)"


def test_a_limit_without_any_other_sign_is_a_guess() -> None:
    assert verdict(paths=["/jail"], limited="/jail") == "cgroup (a guess)"


def test_a_group_without_a_limit_and_a_containers_name_is_a_host() -> None:
    assert verdict(paths=["/jail"]) == "host (likely)"


@pytest.mark.parametrize(
    "path",
    [
        "/docker/0a1b", "/system.slice/docker-0a1b.scope", "/kubepods/besteffort/pod1/0a1b",
        "/machine.slice/libpod-0a1b.scope", "/lxc/web", "/system.slice/crio-0a1b.scope",
    ],
)  # fmt: skip
def test_a_runtimes_name_for_a_group_is_known(path: str) -> None:
    assert verdict(paths=[path], unit=path if path.endswith(".scope") else None) == "cgroup (likely)"


def test_systemd_inside_of_a_container_does_not_hide_the_container(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    (root / "proc/self/cgroup").write_text("0::/system.slice/steelyard-agent.service\n")
    (root / "sys/fs/cgroup/system.slice/steelyard-agent.service").mkdir(parents=True)
    made = make_reader("auto", root=root)
    assert made.scope == "cgroup"
    reading = made.read()
    assert getattr(reading, "name", None) == "/sys/fs/cgroup"
