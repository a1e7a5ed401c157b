"""The cgroup scope on fixture trees: v1, v2, without a quota, with nested ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_agent.evidence import Evidence
from steelyard_agent.readers.cgroup import LIMITS_AGE_S, CgroupReader
from steelyard_agent.readers.scope import make_reader
from steelyard_agent.sample import NOTHING, Indicators, Sample
from steelyard_agent.scopes.cgroup import CgroupReading, Throttling
from steelyard_agent.scopes.reading import Absent, sample_between

Plant = Callable[..., Path]

GROUP = "sys/fs/cgroup"
MIB = 1024 * 1024


def changed(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def read(root: Path, *, count_io: bool = False, extras: bool = False) -> CgroupReading:
    reading = CgroupReader(root=root, count_io=count_io, extras=extras)()
    assert isinstance(reading, CgroupReading)
    return reading


def taken(root: Path, between: Callable[[], None], limits: Indicators = NOTHING) -> Sample:
    """Return the sample of 2 s with `between` in them."""
    times = iter([100.0, 102.0])
    reader = CgroupReader(root=root, count_io=True, extras=True, clock=lambda: next(times))
    before = reader()
    between()
    after = reader()
    assert isinstance(before, CgroupReading)
    assert isinstance(after, CgroupReading)
    sample = sample_between(before, after, limits)
    assert sample is not None
    return sample


def evidence(sample: Sample, indicator: str) -> Evidence:
    return next(one for one in sample.evidence if one.indicator == indicator)


def nothing_happens() -> None:
    return None


def test_v2_cpu_is_a_share_of_the_quota_and_memory_of_the_limit(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    sample = taken(
        root, lambda: changed(root / GROUP / "cpu.stat", "usage_usec 5000000", "usage_usec 6500000")
    )
    assert sample.utilization.cpu == pytest.approx(1.5 / 2 / 1.5)
    assert sample.utilization.mem == pytest.approx((1500e6 - 500e6) / 2000e6)
    assert sample.capacity == Indicators(cpu=1.5, mem=2e9)


def test_v1_cpu_is_a_share_of_the_quota_and_memory_of_the_limit_above_the_container(plant: Plant) -> None:
    root = plant("machine", "v1-container")
    usage = root / GROUP / "cpu,cpuacct/cpuacct.usage"
    sample = taken(root, lambda: changed(usage, "5000000000", "5250000000"))
    assert sample.utilization.cpu == pytest.approx(0.25 / 2 / 0.5)
    assert sample.utilization.mem == pytest.approx((1500e6 - 500e6) / 4000e6)
    assert sample.capacity.cpu == 0.5
    assert sample.capacity.mem == 4e9


def test_without_a_quota_the_cpuset_counts_and_without_it_the_machine(plant: Plant) -> None:
    root = plant("machine", "v1-container")
    changed(root / GROUP / "cpu,cpuacct/cpu.cfs_quota_us", "50000", "-1")
    usage = root / GROUP / "cpu,cpuacct/cpuacct.usage"
    sample = taken(root, lambda: changed(usage, "5000000000", "7000000000"))
    assert sample.utilization.cpu == pytest.approx(0.5)
    assert sample.capacity.cpu == 2
    (root / GROUP / "cpuset/cpuset.effective_cpus").unlink()
    sample = taken(root, lambda: changed(usage, "7000000000", "9000000000"))
    assert sample.utilization.cpu == pytest.approx(0.25)
    assert sample.capacity.cpu == 4


def test_a_quota_larger_than_the_machine_is_none(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    (root / GROUP / "cpu.max").write_text("6400000 100000\n")
    assert taken(root, nothing_happens).capacity.cpu == 4


@pytest.mark.parametrize("text", ["max\n", "9000000000000\n"], ids=["none", "larger than the machine"])
def test_without_a_memory_limit_the_machines_memory_counts(plant: Plant, text: str) -> None:
    root = plant("machine", "v2-container")
    (root / GROUP / "memory.max").write_text(text)
    sample = taken(root, nothing_happens)
    assert sample.capacity.mem == 8_000_000 * 1024
    assert sample.utilization.mem == pytest.approx(1000e6 / (8_000_000 * 1024))


def test_memory_high_is_a_limit_too(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    (root / GROUP / "memory.high").write_text("1250000000\n")
    assert taken(root, nothing_happens).utilization.mem == pytest.approx(0.8)


def test_of_nested_limits_the_tightest_counts_with_what_is_used_at_its_level(plant: Plant) -> None:
    root = plant("machine", "v2-nested")
    pod = root / GROUP / "kubepods.slice/pod1.slice"

    def work() -> None:
        changed(pod / "app.scope/cpu.stat", "10000000", "10600000")
        changed(pod / "cpu.stat", "20000000", "21600000")  # the app's, and a second container's

    sample = taken(root, work)
    assert sample.capacity == Indicators(cpu=1.0, net=125_000_000, mem=1e9)
    assert sample.utilization.cpu == pytest.approx(1.6 / 2 / 1.0)
    assert sample.utilization.mem == pytest.approx(0.8)
    assert evidence(sample, "cpu").sources == (
        "/sys/fs/cgroup/kubepods.slice/pod1.slice/cpu.stat",
        "/sys/fs/cgroup/kubepods.slice/pod1.slice/cpu.max",
    )


def test_a_given_limit_takes_the_place_of_every_limit(plant: Plant) -> None:
    root = plant("machine", "v2-nested")
    app = root / GROUP / "kubepods.slice/pod1.slice/app.scope"
    sample = taken(
        root, lambda: changed(app / "cpu.stat", "10000000", "10600000"), Indicators(cpu=0.5, mem=800e6)
    )
    assert sample.utilization.cpu == pytest.approx(0.6)
    assert sample.utilization.mem == pytest.approx(0.25)
    assert (sample.capacity.cpu, sample.capacity.mem) == (0.5, 800e6)


def test_the_machines_own_v2_group_has_the_machines_memory(plant: Plant) -> None:
    root = plant("machine", "v2-host")
    (root / "proc/self/cgroup").write_text("0::/\n")
    sample = taken(root, nothing_happens)
    assert sample.utilization == Indicators(cpu=0.0, net=0.0, mem=0.25)


def test_a_virtual_nic_counts_only_against_a_given_capacity(plant: Plant) -> None:
    root = plant("machine", "v2-container")

    def send() -> None:
        changed(root / "proc/net/dev", " 2000 1 ", " 102000 1 ")

    assert taken(root, send).utilization.net is None
    changed(root / "proc/net/dev", " 102000 1 ", " 2000 1 ")
    assert taken(root, send, Indicators(net=100_000.0)).utilization.net == pytest.approx(0.5)


def test_io_is_the_groups_own_pressure_where_no_capacity_is_given(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    sample = taken(root, lambda: changed(root / GROUP / "io.pressure", "total=3000000", "total=3500000"))
    assert sample.utilization.io == pytest.approx(0.25)


@pytest.mark.parametrize("tree", ["v1-container", "v2-container"])
def test_io_is_operations_on_whole_disks_where_a_capacity_is_given(plant: Plant, tree: str) -> None:
    root = plant("machine", tree)

    def work() -> None:
        if tree == "v1-container":
            changed(root / GROUP / "blkio/blkio.throttle.io_serviced", "8:0 Read 10\n", "8:0 Read 70\n")
        else:
            changed(root / GROUP / "io.stat", "rios=10", "rios=70")

    sample = taken(root, work, Indicators(io=100.0))
    assert sample.utilization.io == pytest.approx(0.3)  # dm on that disk did the same 60, and is not added


def test_v1_without_a_capacity_has_no_io(plant: Plant) -> None:
    assert taken(plant("machine", "v1-container"), nothing_happens).utilization.io is None


def test_v1_that_counts_no_disk_has_no_io_rather_than_none_at_all(plant: Plant) -> None:
    root = plant("machine", "v1-container")
    (root / GROUP / "blkio/blkio.throttle.io_serviced").write_text("Total 0\n")
    assert taken(root, nothing_happens, Indicators(io=100.0)).utilization.io is None


def test_a_first_operation_counts_though_its_device_was_not_listed(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    io_stat = root / GROUP / "io.stat"
    text = io_stat.read_text()
    io_stat.write_text("")

    def work() -> None:
        io_stat.write_text(text)

    sample = taken(root, work, Indicators(io=100.0))
    assert sample.utilization.io == pytest.approx(0.15)


@pytest.mark.parametrize("tree", ["v1-container", "v2-container"])
def test_throttling_and_pressure_are_shown_as_extras(plant: Plant, tree: str) -> None:
    root = plant("machine", tree)
    folder = root / GROUP / ("cpu,cpuacct" if tree == "v1-container" else "")
    assert read(root).throttling is None
    assert read(root, extras=True).throttling == Throttling(
        periods=100, throttled_periods=10, throttled_s=0.2
    )

    def work() -> None:
        changed(folder / "cpu.stat", "nr_periods 100", "nr_periods 120")
        changed(folder / "cpu.stat", "nr_throttled 10", "nr_throttled 15")

    sample = taken(root, work)
    assert evidence(sample, "throttled").value == pytest.approx(0.25)
    assert evidence(sample, "psi io").value == 0.0


def test_counters_that_begin_again_are_null_never_negative(plant: Plant) -> None:
    root = plant("machine", "v2-container")

    def reset() -> None:
        for file, before, after in (
            ("cpu.stat", "usage_usec 5000000", "usage_usec 1"),
            ("io.stat", "rios=10", "rios=0"),
            ("io.pressure", "total=3000000", "total=1"),
        ):
            changed(root / GROUP / file, before, after)

    sample = taken(root, reset, Indicators(io=100.0))
    assert (sample.utilization.cpu, sample.utilization.io) == (None, None)
    assert sample.utilization.mem == pytest.approx(0.5)


def test_a_group_that_was_made_again_is_no_sample(plant: Plant) -> None:
    root = plant("machine", "v2-nested")
    app = root / GROUP / "kubepods.slice/pod1.slice/app.scope"
    before = read(root)
    app.rename(app.with_name("old"))
    app.mkdir()
    for file in app.with_name("old").iterdir():
        (app / file.name).write_text(file.read_text())
    assert sample_between(before, read(root), NOTHING) is None


@pytest.mark.parametrize(
    ("file", "column"),
    [("cpu.stat", "cpu"), ("memory.current", "mem"), ("memory.stat", "mem"), ("io.pressure", "io")],
)
@pytest.mark.parametrize("text", [None, "", "garbage\n"])
def test_a_missing_or_garbled_file_costs_its_column_only(
    plant: Plant, file: str, column: str, text: str | None
) -> None:
    root = plant("machine", "v2-container")
    (root / GROUP / file).unlink()
    if text is not None:
        (root / GROUP / file).write_text(text)
    utilization = taken(root, nothing_happens).utilization
    measured = {"cpu": utilization.cpu, "mem": utilization.mem, "io": utilization.io}
    assert {name for name, value in measured.items() if value is None} == {column}


class Watched:
    """A reader with the test's clock."""

    def __init__(self, root: Path) -> None:
        self.now_s = 100.0
        self._read = CgroupReader(root=root, clock=lambda: self.now_s)

    def at(self, now_s: float) -> CgroupReading:
        self.now_s = now_s
        reading = self._read()
        assert isinstance(reading, CgroupReading)
        return reading


def test_a_v2_quota_that_changes_is_in_the_next_samples_capacity_and_utilization(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    reader = Watched(root)
    before = reader.at(100.0)
    changed(root / GROUP / "cpu.stat", "usage_usec 5000000", "usage_usec 5300000")
    (root / GROUP / "cpu.max").write_text("50000 100000\n")
    sample = sample_between(before, reader.at(101.0), NOTHING)
    assert sample is not None
    assert sample.capacity.cpu == 0.5
    assert sample.utilization.cpu == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("file", "text", "cores"),
    [("quota", "25000", 0.25), ("quota", "-1", 2), ("period", "200000", 0.25)],
    ids=["cut", "taken away", "over another period"],
)
def test_a_v1_quota_that_changes_is_in_the_next_samples_capacity_and_utilization(
    plant: Plant, file: str, text: str, cores: float
) -> None:
    root = plant("machine", "v1-container")
    reader = Watched(root)
    before = reader.at(100.0)
    changed(root / GROUP / "cpu,cpuacct/cpuacct.usage", "5000000000", "5100000000")
    (root / GROUP / f"cpu,cpuacct/cpu.cfs_{file}_us").write_text(f"{text}\n")
    sample = sample_between(before, reader.at(101.0), NOTHING)
    assert sample is not None
    assert sample.capacity.cpu == cores
    assert sample.utilization.cpu == pytest.approx(0.1 / cores)


def test_a_first_quota_is_seen_at_the_next_sample(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    (root / GROUP / "cpu.max").write_text("max 100000\n")
    reader = Watched(root)
    assert reader.at(100.0).cpu[0].limit is None
    (root / GROUP / "cpu.max").write_text("50000 100000\n")
    assert reader.at(101.0).cpu[0].limit == 0.5


def test_the_tightest_quota_is_read_with_each_sample_also_where_it_is_set_above(plant: Plant) -> None:
    root = plant("machine", "v2-nested")
    pod = root / GROUP / "kubepods.slice/pod1.slice"
    reader = Watched(root)
    assert [level.limit for level in reader.at(100.0).cpu] == [3.0, 1.0]
    (pod / "cpu.max").write_text("50000 100000\n")
    assert [level.limit for level in reader.at(101.0).cpu] == [3.0, 0.5]


def test_a_limit_that_did_not_hold_the_group_is_looked_for_now_and_then(plant: Plant) -> None:
    root = plant("machine", "v2-nested")
    app = root / GROUP / "kubepods.slice/pod1.slice/app.scope"
    reader = Watched(root)
    reader.at(100.0)
    (app / "cpu.max").write_text("50000 100000\n")
    assert reader.at(101.0).cpu[0].limit == 3.0
    assert reader.at(100.0 + LIMITS_AGE_S).cpu[0].limit == 0.5


def test_where_v1_counts_time_in_another_group_than_it_limits_cpu_is_null(plant: Plant) -> None:
    root = plant("machine", "v1-hybrid-host")
    changed(root / "proc/self/cgroup", "1:cpu:/\n", "1:cpu:/limited\n")
    limited = root / GROUP / "cpu/limited"
    limited.mkdir()
    (limited / "cpu.cfs_quota_us").write_text("50000\n")
    (limited / "cpu.cfs_period_us").write_text("100000\n")
    sample = taken(root, nothing_happens)
    assert (sample.utilization.cpu, sample.capacity.cpu) == (None, 0.5)
    assert "not counted" in evidence(sample, "cpu").note


def test_without_groups_there_is_nothing_to_read(plant: Plant) -> None:
    reading = make_reader("cgroup", root=plant("machine")).read()
    assert isinstance(reading, Absent)
    assert "cannot be found" in reading.why
