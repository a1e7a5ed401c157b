"""Utilizations between two host readings."""

from dataclasses import replace

import pytest
from steelyard_agent import evidence
from steelyard_agent.sample import NOTHING, Indicators, Sample
from steelyard_agent.scopes.host import HostReading
from steelyard_agent.scopes.machine_utilization import DiskCounters, MemoryGauge, NicCounters, NicKind
from steelyard_agent.scopes.reading import sample_between
from steelyard_protocol import sample_record

GIGABIT = 125_000_000.0


def nic(rx: int, tx: int = 0, speed: float | None = GIGABIT, kind: NicKind = "hardware") -> NicCounters:
    return NicCounters(kind=kind, rx_bytes=rx, tx_bytes=tx, bytes_per_s=speed)


BEFORE = HostReading(
    at_s=100.0,
    cores=4,
    cpu_busy_s=1000.0,
    memory=MemoryGauge(total_bytes=8000, available_bytes=6000),
    nics={"eth0": nic(10**9, 10**9)},
    disks={"sda": DiskCounters(busy_s=50.0)},
)
AFTER = HostReading(
    at_s=102.0,
    cores=4,
    cpu_busy_s=1002.0,
    memory=MemoryGauge(total_bytes=8000, available_bytes=5000),
    nics={"eth0": nic(10**9 + 25_000_000, 10**9 + 50_000_000)},
    disks={"sda": DiskCounters(busy_s=50.5)},
)


def taken(before: HostReading = BEFORE, after: HostReading = AFTER, limits: Indicators = NOTHING) -> Sample:
    sample = sample_between(before, after, limits)
    assert sample is not None
    return sample


def net(
    before: dict[str, NicCounters], after: dict[str, NicCounters], limits: Indicators = NOTHING
) -> float | None:
    return taken(replace(BEFORE, nics=before), replace(AFTER, nics=after), limits).utilization.net


def io(before: dict[str, float], after: dict[str, float]) -> float | None:
    earlier = {name: DiskCounters(busy_s=busy_s) for name, busy_s in before.items()}
    later = {name: DiskCounters(busy_s=busy_s) for name, busy_s in after.items()}
    return taken(replace(BEFORE, disks=earlier), replace(AFTER, disks=later)).utilization.io


def test_each_indicator_is_averaged_over_the_interval() -> None:
    assert taken() == Sample(
        interval_s=2.0,
        utilization=Indicators(cpu=0.25, net=0.2, io=0.25, mem=0.375),
        capacity=Indicators(cpu=4, net=GIGABIT, io=None, mem=8000),
    )


def test_a_given_limit_takes_the_place_of_the_measured_capacity() -> None:
    limits = Indicators(cpu=0.5, net=250_000_000.0, io=900.0, mem=4000.0)
    sample = taken(limits=limits)
    assert sample.capacity == limits
    assert sample.utilization == Indicators(cpu=2.0, net=0.1, io=0.25, mem=0.75)


@pytest.mark.parametrize("later_s", [100.0, 99.0, 100.0001, 100.0 + 3601])
def test_no_interval_no_sample(later_s: float) -> None:
    assert sample_between(BEFORE, replace(AFTER, at_s=later_s), NOTHING) is None


def test_a_column_that_could_not_be_read_is_none_and_stops_no_other() -> None:
    blind = HostReading(at_s=102.0, cores=None, cpu_busy_s=None, memory=None, nics=None, disks=None)
    assert taken(after=blind).utilization == NOTHING
    assert taken(before=replace(BEFORE, cpu_busy_s=None)).utilization == Indicators(
        net=0.2, io=0.25, mem=0.375
    )


def test_a_counter_that_went_backwards_is_none_for_that_interval() -> None:
    assert taken(after=replace(AFTER, cpu_busy_s=999.0)).utilization.cpu is None
    assert net({"eth0": nic(500)}, {"eth0": nic(499, 10)}) is None
    assert io({"sda": 50.0}, {"sda": 49.0}) is None


def test_cpu_may_exceed_1_up_to_what_the_wire_accepts() -> None:
    assert taken(after=replace(AFTER, cpu_busy_s=1012.0)).utilization.cpu == 1.5
    assert taken(limits=Indicators(cpu=0.01)).utilization.cpu == sample_record.MAX_CPU_UTILIZATION


def test_a_counter_that_jumps_beyond_the_machine_is_none_for_that_interval() -> None:
    assert taken(after=replace(AFTER, cpu_busy_s=1e9)).utilization.cpu is None
    assert net({"eth0": nic(0)}, {"eth0": nic(10**12)}) is None
    assert io({"sda": 0.0}, {"sda": 2**32 / 1000}) is None


def test_stolen_time_is_busy_time_and_hides_nothing_when_it_falls_or_jumps() -> None:
    stolen = replace(BEFORE, cpu_stolen_s=500.0)
    for later_s, cpu in ((501.0, 0.375), (499.0, 0.25), (2**40, 0.25)):
        assert taken(stolen, replace(AFTER, cpu_stolen_s=later_s)).utilization.cpu == cpu


def test_everything_but_cpu_is_clipped_to_1() -> None:
    assert net({"eth0": nic(0)}, {"eth0": nic(3 * 10**8)}) == 1.0
    assert io({"sda": 0.0}, {"sda": 2.1}) == 1.0
    assert taken(limits=Indicators(mem=10.0)).utilization.mem == 1.0


def test_net_is_the_larger_direction_of_the_most_loaded_nic() -> None:
    before = {"eth0": nic(0), "eth1": nic(0, speed=GIGABIT / 10)}
    after = {"eth0": nic(25_000_000), "eth1": nic(0, 12_500_000, speed=GIGABIT / 10)}
    assert net(before, after) == 0.5


def test_loopback_does_not_count() -> None:
    lo = nic(0, speed=None, kind="loopback")
    assert net({"lo": lo}, {"lo": replace(lo, rx_bytes=10**9)}, Indicators(net=GIGABIT)) is None


def test_virtual_nics_do_not_count_beside_hardware() -> None:
    before = {"eth0": nic(0), "docker0": nic(0, speed=None, kind="virtual")}
    after = {"eth0": nic(25_000_000), "docker0": nic(10**12, speed=None, kind="virtual")}
    assert net(before, after) == 0.1


def test_virtual_nics_count_where_there_is_no_hardware_and_a_capacity_is_given() -> None:
    before, after = (
        {"eth0": nic(0, speed=None, kind="virtual")},
        {"eth0": nic(500, speed=None, kind="virtual")},
    )
    assert net(before, after) is None
    assert net(before, after, Indicators(net=1000.0)) == 0.25


def test_an_unknown_speed_is_never_guessed() -> None:
    assert net({"eth0": nic(0, speed=None)}, {"eth0": nic(500, speed=None)}) is None
    assert taken(after=replace(AFTER, nics={"eth0": nic(0, speed=None)})).capacity.net is None


def test_a_busy_nic_of_unknown_speed_is_not_hidden_by_an_idle_one() -> None:
    before = {"eth0": nic(0, speed=None), "eth1": nic(0)}
    assert net(before, {"eth0": nic(10**9, speed=None), "eth1": nic(0)}) is None
    assert net(before, {"eth0": nic(100, speed=None), "eth1": nic(25_000_000)}) == 0.1
    assert net(before, before) == 0.0


def test_io_is_the_busiest_whole_disk() -> None:
    assert io({"sda": 0.0, "nvme0n1": 0.0}, {"sda": 0.2, "nvme0n1": 1.0}) == 0.5


@pytest.mark.parametrize(
    ("busy_s", "requests_s", "in_flight", "utilization"),
    [
        (2.0, 0.002, 0, 0.001),  # an idle NVMe with one request of 1 ms a second, Linux 4.15 to 5.x
        (2.0, 64.0, 0, 1.0),  # many requests at the same time
        (2.0, 0.0, 1, 1.0),  # one request that takes longer than the interval
        (0.5, 0.8, 0, 0.25),
    ],
)
def test_a_disk_is_busy_no_longer_than_its_requests_took(
    busy_s: float, requests_s: float, in_flight: int, utilization: float
) -> None:
    before = {"sda": DiskCounters(busy_s=10.0, requests_s=20.0, in_flight=0)}
    after = {"sda": DiskCounters(busy_s=10.0 + busy_s, requests_s=20.0 + requests_s, in_flight=in_flight)}
    assert taken(replace(BEFORE, disks=before), replace(AFTER, disks=after)).utilization.io == pytest.approx(
        utilization
    )


def test_a_machine_without_a_whole_disk_has_no_io() -> None:
    assert io({}, {}) is None


def test_a_device_that_appears_or_disappears_counts_once_it_is_in_both_readings() -> None:
    assert io({"sda": 0.0, "sdb": 9.0}, {"sda": 0.5, "sdc": 7.0}) == 0.25
    assert net({"eth0": nic(0), "eth1": nic(9)}, {"eth0": nic(25_000_000), "eth2": nic(10**9)}) == 0.1


def test_what_sample_clips_to_is_what_the_wire_accepts() -> None:
    assert evidence.MAX_CPU_UTILIZATION == sample_record.MAX_CPU_UTILIZATION
