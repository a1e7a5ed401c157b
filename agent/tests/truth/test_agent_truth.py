"""The agent's figures are true: compared with real work of a known size, in real cgroups and networks.

A test is skipped if it lacks a privilege, which it names; everything
else missing is a failure. CI runs as root.
"""

from pathlib import Path

import pytest

from . import cgroups, networks, stress, truth_cases, truth_table
from .truth_table import Row

pytestmark = pytest.mark.integration

in_cgroup = pytest.mark.usefixtures("_cgroups")
on_cable = pytest.mark.usefixtures("_networks")
stressed = pytest.mark.usefixtures("_stress_ng")


@pytest.fixture(scope="module")
def _cgroups() -> None:
    why = cgroups.why_not()
    if why is not None:
        pytest.skip(why)


@pytest.fixture(scope="module")
def _networks() -> None:
    if networks.why_no_ip() is not None:
        pytest.fail(f"{networks.why_no_ip()}: run `make setup-tests`")
    why = networks.why_not()
    if why is not None:
        pytest.skip(why)


@pytest.fixture(scope="module")
def _stress_ng() -> None:
    why = stress.why_not()
    if why is not None:
        pytest.fail(f"{why}: run `make setup-tests`")


def assert_true(row: Row) -> None:
    assert row.true, f"{row.work}: {row.known:.3f} was done, {row.read} was read"


@in_cgroup
@stressed
@pytest.mark.parametrize("percent", [10, 80])  # `make truth` has more
def test_a_load_under_a_quota_reads_within_5_points(percent: int) -> None:
    row = truth_cases.cpu_in_cgroup(percent, cores=0.5)
    assert_true(row)
    # The load itself was as intended: otherwise this would compare little with little.
    assert row.known > percent / 100 / 2


@in_cgroup
@stressed
def test_work_beyond_a_quota_reads_as_all_of_it() -> None:
    row = truth_cases.cpu_in_cgroup(400, cores=0.5, workers=2)
    assert_true(row)
    assert row.read == pytest.approx(1.0, abs=truth_table.ALLOWED_POINTS / 100)


@in_cgroup
@stressed
def test_a_quota_of_the_group_outside_counts_inside() -> None:
    assert_true(truth_cases.cpu_in_cgroup(50, cores=0.5, nested=True))


@stressed
def test_a_process_reads_within_5_points_from_outside() -> None:
    assert_true(truth_cases.cpu_of_process(50, cores=1.0))


@in_cgroup
def test_memory_that_is_held_reads_as_used() -> None:
    assert_true(truth_cases.memory_in_cgroup())


@in_cgroup
def test_a_file_in_the_page_cache_is_not_used_memory(tmp_path: Path) -> None:
    assert_true(truth_cases.cache_in_cgroup(tmp_path))


@on_cable
@pytest.mark.parametrize("receiving", [False, True])
def test_traffic_at_a_known_rate_reads_at_both_ends(receiving: bool) -> None:
    assert_true(truth_cases.network("host", receiving=receiving))


@on_cable
@in_cgroup
def test_traffic_reads_in_a_container_with_a_network_of_its_own() -> None:
    assert_true(truth_cases.network("cgroup", receiving=True))


@on_cable
def test_a_virtual_nic_with_no_capacity_given_is_not_guessed() -> None:
    assert truth_cases.network_of_unknown_speed() is None


@in_cgroup
def test_writes_of_a_cgroup_read_against_a_given_capacity(tmp_path: Path) -> None:
    assert_true(truth_cases.writes("cgroup", tmp_path))


def test_writes_of_a_process_read_against_a_given_capacity(tmp_path: Path) -> None:
    assert_true(truth_cases.writes("process", tmp_path))
