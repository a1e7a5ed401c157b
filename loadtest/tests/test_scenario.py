"""Scenarios: ours are valid, and mistakes in a user's own are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.compare.schedule import START_S, scenario_s, trial_s
from steelyard_loadtest.scenario.algorithms import (
    ALGORITHMS,
    BY_NAME,
    DEFAULT,
    PROGRAMS,
    named,
)
from steelyard_loadtest.scenario.definition import Drift, Server, Takeover
from steelyard_loadtest.scenario.file import ScenarioError, parse
from steelyard_loadtest.scenario.find import BREAKERS, FILES, NAMES, expanded, find, find_all

MINE = """
title = "T"
what = "W"
source = "S"
algorithms = ["nginx-rr", "steelyard"]
[[servers]]
name = "a"
cpu_cores = 0.2
[[servers]]
name = "b"
weight = 3
[load]
generator = "open"
levels = [50]
seconds = 30
[[events]]
at_s = 20
do = "leave"
server = "a"
[[events]]
at_s = 10
do = "burn"
server = "b"
for_s = 5
[quick]
algorithms = ["steelyard"]
events = []
[quick.load]
seconds = 5
"""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_scenario_of_ours_compares_the_default_with_peers_that_adapt_and_that_do_not(
    name: str, quick: bool
) -> None:
    scenario = find(name, quick=quick)
    algorithms = [BY_NAME[algorithm] for algorithm in scenario.algorithms]
    assert DEFAULT in scenario.algorithms
    assert any(not algorithm.ours and not algorithm.informed for algorithm in algorithms)
    assert scenario.what
    assert scenario.source
    if not scenario.static:
        assert any(algorithm.adapts and not algorithm.ours for algorithm in algorithms)


def test_every_file_has_its_place_in_the_order() -> None:
    assert {path.stem for path in FILES.glob("*.toml")} == set(NAMES)


def test_scenarios_with_pass_marks_have_a_word_that_stands_for_them() -> None:
    assert {name for name in NAMES if find(name, quick=True).marks} == set(BREAKERS)
    assert expanded(["churn", "breakers", "fails-fast"]) == ("churn", *BREAKERS)
    assert expanded([]) == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_scenario_is_planned_for_three_minutes_and_one_of_a_fleet_for_twelve(name: str) -> None:
    scenario = find(name, quick=True)
    trials = len(scenario.algorithms) * len(scenario.load.levels) * scenario.load.repeats
    planned_s = START_S * len(scenario.algorithms) + trials * trial_s(scenario.load)
    assert planned_s < (720 if scenario.fleet else 215)  # START_S is on the safe side


def test_make_report_is_planned_for_25_minutes_and_has_a_method_of_each_program() -> None:
    scenarios = find_all(["all"], quick=True)
    assert sum(map(scenario_s, scenarios)) < 24 * 60  # the start of seven sets of servers is the rest
    programs = {BY_NAME[name].program for scenario in scenarios for name in scenario.algorithms}
    assert programs == set(PROGRAMS) - {"sglang", "vllm"}


def test_the_default_has_a_short_name() -> None:
    assert parse("mine", MINE, quick=False).algorithms == ("nginx-rr", DEFAULT)


def test_the_quick_form_replaces_what_it_names() -> None:
    full, quick = (parse("mine", MINE, quick=short) for short in (False, True))
    assert (full.load.seconds, quick.load.seconds) == (30, 5)
    assert full.load.levels == quick.load.levels
    assert quick.algorithms == (DEFAULT,)
    assert quick.events == ()
    assert quick.servers == full.servers


def test_events_stand_in_the_order_of_time() -> None:
    assert [event.do for event in parse("mine", MINE, quick=False).events] == ["burn", "leave"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("algorithms = [", "algorithm = [", "algorithms"),
        ('"nginx-rr"', '"nginx-best"', "no algorithm 'nginx-best'"),
        ('["nginx-rr", "steelyard"]', '["steelyard", "steelyard-steelyard-vnswrr2"]', "is listed twice"),
        ('name = "b"', 'name = "a"', "servers: a is listed twice"),
        ('name = "b"', 'name = "b"\nzone = "far"', "servers: give all of them a zone, or none"),
        ('server = "b"', 'server = "c"', "no server 'c'"),
        ("for_s = 5", "for_s = 25", "ends after the load"),
        ("for_s = 5", "", "burn needs for_s"),
        ('do = "leave"', 'do = "leave"\npart = 0.5', "part is for burn, not leave"),
        ('do = "leave"', 'do = "spin"\nfor_s = 2', "a needs paced = true to spin"),
        ("weight = 3", "paced = true", "b is paced, so it needs cpu_cores, and no drift"),
        (
            'source = "S"',
            'source = "S"\nfleet = {utilization_ratio = 1, level = 60, reference = "direct", p99_times = 3}',
            "fleet.level: 60 is none of the levels",
        ),
        ('do = "leave"', 'do = "slow"', "slow needs for_s"),
        ('source = "S"', 'source = "S"\nmarks = {p99 = 1}', "marks.p99"),
        ('source = "S"', 'source = "S"\nsources = {repeats = 5}', "sources: give algorithms alone"),
        ('source = "S"', 'source = "S"\nbeside = "steelyard"', "beside: 'steelyard' is no single balancer"),
        ('source = "S"', 'source = "S"\nbeside = "haproxy-steelyard"', "is no single balancer that needs no"),
        ('do = "leave"', 'do = "hold"', "hold needs for_s, up to 60"),
        ('do = "burn"', 'do = "hold"', "hold takes 2 workers, and b has fewer"),
        ("cpu_cores = 0.2", "cpu_cores = 0", "servers.0.cpu_cores"),
        (
            "cpu_cores = 0.2",
            "cpu_cores = 0.2\ndrift = {by = 0.8, period_s = 40}",
            "a drifts to under 0.05 cores",
        ),
        ("weight = 3", "drift = {by = 0.3, period_s = 40}", "b drifts to under 0.05 cores, or has no"),
        ("weight = 3", "takeover = {at_s = 1, cpu_cores = 0.1}", "b is taken over, so it needs cpu_cores"),
        ("cpu_cores = 0.2", "cpu_cores = 0.2\ndrift = {by = 0.3}", "servers.0.drift.period_s"),
        ("levels = [50]", "levels = []", "load.levels"),
        ("levels = [50]", "levels = [50]\nof_capacity = true", "levels are parts from 0 to 1"),
        ('generator = "open"', 'generator = "wrk"\nof_capacity = true', "for the generator `open`"),
        ("levels = [50]", "levels = [50]\nown_connections = true", "for the generator `wrk`"),
        ('generator = "open"', 'generator = "ab"', "load.generator"),
        ("weight = 3", 'times = "3"', "servers.1.times"),
        ('source = "S"', 'source = "S"\nstatic = true', "no events"),
        ("[load]", "[load", "not TOML"),
        ("[load]", "[load]\n[load]", r"it is not TOML: .* a key or table occurs twice, leave one out"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, why: str) -> None:
    assert old in MINE
    with pytest.raises(ScenarioError, match=why.replace("(", "\\(")):
        parse("mine", MINE.replace(old, new, 1), quick=False)


def test_a_kind_of_servers_is_given_once_and_named_by_numbers() -> None:
    text = MINE.replace('name = "b"', "times = 3").replace('server = "b"', 'server = "server-2"')
    names = [server.name for server in parse("mine", text, quick=False).servers]
    assert names == ["a", "server-2", "server-3", "server-4"]


def test_several_balancers_need_the_generator_that_spreads_requests_over_them() -> None:
    text = MINE.replace('["nginx-rr", "steelyard"]', '["nginx-least_conn-8"]')
    assert parse("mine", text, quick=False).algorithms == ("nginx-least_conn-8",)
    with pytest.raises(ScenarioError, match="several balancers are for the generator `open`"):
        parse("mine", text.replace('generator = "open"', 'generator = "wrk"'), quick=False)


def test_what_servers_with_workers_can_do_together_is_not_measured() -> None:
    text = MINE.replace("weight = 3", "workers = 3").replace(
        "levels = [50]", "levels = [0.5]\nof_capacity = true"
    )
    with pytest.raises(ScenarioError, match="give levels, not parts"):
        parse("mine", text, quick=False)


def test_a_limit_that_drifts_stands_before_the_counted_part_and_swings_in_it() -> None:
    server = Server(name="a", cpu_cores=0.2, drift=Drift(by=0.5, period_s=40, phase=0.25))
    limits = [server.cores_at(t_s) for t_s in (-9, 0, 10, 20, 40)]
    assert limits == pytest.approx([0.3, 0.3, 0.2, 0.1, 0.3])
    assert Server(name="a", cpu_cores=0.2).cores_at(7) == 0.2
    assert Server(name="a").cores_at(7) is None


def test_from_its_takeover_on_a_server_has_the_other_one_s_limit() -> None:
    server = Server(name="a", cpu_cores=0.5, takeover=Takeover(at_s=6, cpu_cores=0.05))
    assert [server.cores_at(t_s) for t_s in (-9, 0, 5.9, 6, 20)] == [0.5, 0.5, 0.5, 0.05, 0.05]


@given(st.floats(0, 80))
def test_what_one_server_of_drift_loses_the_others_gain(t_s: float) -> None:
    servers = find("drift", quick=False).servers
    assert sum(server.cores_at(t_s) or 0 for server in servers) == pytest.approx(0.6, abs=0.001)


def test_an_unknown_scenario_names_those_that_there_are() -> None:
    with pytest.raises(ScenarioError, match="there are report, paper"):
        find("reports", quick=True)
    with pytest.raises(ScenarioError, match="cannot be read"):
        find("/nowhere/mine.toml", quick=True)


def test_names_and_titles_are_unique() -> None:
    assert len({algorithm.name for algorithm in ALGORITHMS}) == len(ALGORITHMS)
    assert len({algorithm.title for algorithm in ALGORITHMS}) == len(ALGORITHMS)
    assert named("steelyard") is BY_NAME[DEFAULT]
