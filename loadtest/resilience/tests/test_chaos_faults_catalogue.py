"""The catalogue is complete, each lenient bound has a reason, and every fault is undone."""

import itertools
from pathlib import Path

import pytest
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_resilience.chaos.command import RATE_PER_S
from steelyard_resilience.chaos.fault import RUNGS, Fault
from steelyard_resilience.chaos.faults import catalogue, network_faults
from steelyard_resilience.chaos.faults.catalogue import FAULTS

from .chaos_fake_stage import FakeStage

CALM_MS = 300.0
"""Latency of the slowest request with nothing in its way."""

BY_NAME = {fault.name: fault for fault in FAULTS}

PARTS = ("memcached", "redis", "leader", "standby", "agent-1", "server-1")
"""nginx has its own faults: a load balancer alone cannot survive its own death."""


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(FAULTS)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("what", ["killed", "paused", "restarted"])
def test_every_part_is_killed_paused_and_restarted(part: str, what: str) -> None:
    assert f"{part} {what}" in BY_NAME


@pytest.mark.parametrize(
    "name",
    [
        "nginx worker killed", "nginx worker paused", "nginx reload", "nginx reload, three in a row",
        "nginx reload, 500 requests open", "nginx reload, eight sizes of its shared dict",
        "a location with a log_by_lua of its own",
        "another load balancer killed, 500 open", "another load balancer cut off from memcached, 500 open",
        "a server that hangs, and passes its checks", "a URL at which every server hangs up",
        "memcached full, evicting", "memcached full, out of memory", "memcached slow by 2 s",
        "memcached hangs", "memcached drips a byte a second", "memcached flushed",
        "names that hang, twenty of them", "DNS away at a take-over",
        "redis read-only", "redis takes no writes", "redis full",
        "redis slow by 2 s", "redis hangs", "redis wiped", "every server unhealthy", "every server killed",
        "all servers but one killed", "one server slow", "table: garbage", "table: a megabyte of zeros",
        "table: an older generation", "table: a wrong signature", "table: no signature",
        "table: 10,000 peers, a wrong signature",
        "table: of a higher term, which the leader never sees", "sample: garbage",
        "sample: of an earlier run", "report: of an earlier run", "disk of the saved table full",
        "a stranger at a proxy on the leader's machine", "haproxy killed", "haproxy paused",
        "haproxy reload", "haproxy's reporter killed", "haproxy's socket hangs", "envoy killed",
        "envoy restarted", "envoy and every controller cut off", "envoy's streams slow by 0.2 s",
        "envoy's streams hang", "envoy refuses endpoints", "leader killed, behind envoy",
    ],
)  # fmt: skip
def test_every_promised_fault_exists(name: str) -> None:
    assert name in BY_NAME


def test_every_pair_of_hosts_is_cut_once() -> None:
    cut = [frozenset(name.split(" | ")) for name in BY_NAME if " | " in name]
    assert sorted(map(sorted, cut)) == sorted(map(sorted, itertools.combinations(network_faults.ENDS, 2)))


def test_every_clock_is_set_forward_and_back_on_a_stage_that_can() -> None:
    stepped = {fault.name for fault in FAULTS if fault.faketime}
    hosts = ("edge", "leader", "memcached", "redis", "server-1")
    assert stepped == {f"{host}: an hour {way}" for host in hosts for way in ("forward", "back")}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_lenient_bound_has_a_reason(fault: Fault) -> None:
    bound = fault.bound
    assert bound.rung in RUNGS
    is_strict = bound.failed == 0 and bound.worst_ms <= CALM_MS and bound.rung == "fresh"
    assert is_strict or bound.why


def test_a_request_fails_only_where_no_server_is_left_or_with_the_worker_that_had_it() -> None:
    assert {fault.name for fault in FAULTS if fault.bound.failed} == {
        "every server killed",
        "nginx worker killed",
        "haproxy killed",
        "haproxy restarted",
        "envoy killed",
        "envoy restarted",
    }


def test_the_short_form_has_a_fault_of_every_group_that_needs_no_stage_of_its_own_and_no_long_wait() -> None:
    left_out = {"restart in order", "servers", "clock of one host", "HAProxy", "Envoy"}
    assert {fault.group for fault in FAULTS if fault.quick} == {fault.group for fault in FAULTS} - left_out
    assert not [fault.name for fault in FAULTS if fault.quick and (fault.faketime or fault.front != "nginx")]


REAL = (
    "nginx worker killed", "nginx worker ended", "nginx worker paused", "disk of the saved table full",
    "nginx reload, 500 requests open", "nginx reload, eight sizes of its shared dict",
    "a location with a log_by_lua of its own",
    "another load balancer killed, 500 open", "another load balancer cut off from memcached, 500 open",
    "envoy refuses endpoints", "a URL at which every server hangs up",
)  # fmt: skip
"""They need a process to signal, a disk to fill, or an nginx or a controller to answer."""


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.name not in REAL], ids=lambda fault: fault.name
)
def test_a_fault_does_something_and_is_undone(fault: Fault, tmp_path: Path) -> None:
    stage = FakeStage(tmp_path)
    before = stage.state()
    with fault.act(stage=stage.as_stage()):
        during = stage.state()
    assert stage.done or during != before
    assert stage.state() == before


def test_no_disk_is_filled_up_but_a_small_one(tmp_path: Path) -> None:
    fill = BY_NAME["disk of the saved table full"].act
    with pytest.raises(ProgramError, match="not on a small disk"), fill(stage=FakeStage(tmp_path).as_stage()):
        pass
    assert not list(tmp_path.iterdir())


def test_a_server_has_time_enough_to_start_within_the_bound_of_none() -> None:
    fault = BY_NAME["every server killed"]
    assert fault.bound.failed / RATE_PER_S > fault.lasts_s > 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("lsats = [1.0]", "a fault: a fault has no lsats"),
        ('lasts = ["for ever"]', "for ever"),
        ('act = ["explode"]', "explode"),
    ],
)
def test_a_mistake_in_the_file_is_an_error(line: str, says: str) -> None:
    rows = ['name = "g"', line, '[group.on."a fault"]', 'well_after = ["calm"]']
    rows += [] if line.startswith("act") else ['act = ["wipe_redis"]']
    with pytest.raises((ValueError, KeyError), match=says):
        catalogue.load("\n".join(["[seconds]", "calm = 0.3", "[[group]]", *rows]))
