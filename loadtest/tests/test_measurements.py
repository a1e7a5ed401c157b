"""Trials: their order and observations, and that nothing is lost."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from steelyard_loadtest.compare.schedule import visits
from steelyard_loadtest.compare.store import Store
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.measurements.trials import Measured, Outcome, Quantile, Reading, Trial, observed
from steelyard_loadtest.reporting.wording import duration
from steelyard_loadtest.scenario.definition import Drift, Server
from steelyard_loadtest.scenario.find import find

A, B = Server(name="a", cpu_cores=0.2), Server(name="b")


def reading(at_s: float, served: int, cpu_s: float, server: str = "a") -> Reading:
    return Reading(at_s=at_s, server=server, served=served, cpu_s=cpu_s)


def outcome() -> Outcome:
    return Outcome(
        seconds=2.0,
        requests=10,
        failures=1,
        kinds={"502": 1},
        mean_ms=3.5,
        min_ms=1.0,
        max_ms=9.0,
        quantiles=(Quantile(part=0.5, ms=3.0), Quantile(part=1.0, ms=9.0)),
        concurrency=1.5,
        generator_cpu_utilization=0.25,
    )


def measured(algorithm: str = "nginx-rr", repeat: int = 1) -> Measured:
    rounds = [(reading(0, 0, 0),), (reading(1, 5, 0.1),), (reading(2, 9, 0.15),)]
    return Measured(
        trial=Trial(scenario="report", algorithm=algorithm, level=10.0, repeat=repeat),
        generator="locust",
        outcome=outcome(),
        observed=observed(rounds, 0.0, [A]),
        balancer_cpu_s=0.5,
    )


def test_an_interval_has_the_pool_that_was_read_at_its_end() -> None:
    rounds = [(replace(reading(at_s, 0, 0), pool_utilization=at_s / 4),) for at_s in (0, 1, 2)]
    assert [seen.pool_utilization for seen in observed(rounds, 0.0, [A])] == [0.25, 0.5]


def test_intervals_count_what_was_served_and_divide_cpu_by_the_limit() -> None:
    rounds = [
        (reading(9.5, 100, 1.0, "a"), reading(9.5, 50, 1.0, "b")),
        (reading(10.0, 110, 1.1, "a"), reading(10.0, 60, 1.1, "b")),
        (reading(10.5, 120, 1.15, "a"), reading(10.5, 60, 1.2, "b")),
        (reading(11.0, 140, 1.2, "a"), reading(11.001, 70, 1.6, "b")),
    ]
    first, second = observed(rounds, 10.0, [A, B])
    assert (first.server, first.t_s, first.served, first.share) == ("a", 1.0, 30, 0.75)
    assert first.cpu_utilization == pytest.approx(0.5)  # 0.1 s in 1 s of 0.2 cores
    assert (second.server, second.served, second.share) == ("b", 10, 0.25)
    assert second.t_s == first.t_s  # one moment, in any order of reading
    assert second.cpu_utilization == pytest.approx(0.5, rel=0.01)  # of one core, without a limit


def test_a_neighbour_s_part_of_the_cpu_is_known() -> None:
    before, after = reading(0, 0, 0.1), reading(1, 9, 0.25)
    (entry,) = observed([(before,), (replace(after, children_cpu_s=0.1),)], 0.0, [A])
    assert (entry.cpu_utilization, entry.children_cpu_utilization) == pytest.approx((0.75, 0.5))


def test_cpu_is_divided_by_what_a_limit_that_drifts_was_then() -> None:
    drifting = Server(name="a", cpu_cores=0.2, drift=Drift(by=0.5, period_s=4))
    rounds = [(reading(10, 0, 0),), (reading(12, 9, 0.3),), (reading(14, 9, 0.4),)]
    high, low = observed(rounds, 10.0, [drifting])
    assert (high.cpu_utilization, low.cpu_utilization) == pytest.approx((0.5, 0.5))  # of 0.3 and of 0.1 cores


def test_an_interval_in_which_nothing_was_answered_has_no_shares() -> None:
    (entry,) = observed([(reading(0, 7, 0),), (reading(1, 7, 0),)], 0.0, [A])
    assert entry.share is None


def test_what_was_read_before_the_load_counted_is_no_interval() -> None:
    rounds = [(reading(1, 5, 0),), (reading(2, 9, 0),), (reading(3, 11, 0),)]
    (entry,) = observed(rounds, 2.0, [A])
    assert entry.served == 2


def test_a_repeat_begins_with_another_algorithm_every_other_goes_backwards_and_none_is_missed() -> None:
    scenario = replace(find("report", quick=False), algorithms=("a", "b", "c"))
    order = [(algorithm, trials[0].repeat) for algorithm, trials in visits(scenario, ("a", "b", "c"))]
    assert order == [(name, turn) for turn, names in ((1, "abc"), (2, "acb"), (3, "cab")) for name in names]
    _, trials = next(visits(scenario, ("a",)))
    assert [trial.level for trial in trials] == [10, 100, 250, 500]


def test_a_kept_trial_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(measured())
    assert store.load(measured().trial) == measured()
    assert store.load(replace(measured().trial, repeat=2)) is None
    assert store.all("report") == [measured()]


def test_a_damaged_trial_is_measured_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(measured())
    (file,) = tmp_path.rglob("10-1.json")
    file.write_text(file.read_text()[:-40])
    assert store.load(measured().trial) is None
    assert store.all("report") == []


def test_trials_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    scenario = find("report", quick=False)
    store = Store(tmp_path)
    store.begin(scenario)
    store.begin(replace(scenario, algorithms=("nginx-rr",), load=replace(scenario.load, repeats=9)))
    with pytest.raises(SetupError, match="Choose another --out"):
        store.begin(replace(scenario, load=replace(scenario.load, seconds=61.0)))


def test_trials_of_a_build_that_did_not_know_a_key_are_of_its_default(tmp_path: Path) -> None:
    scenario, store = find("report", quick=False), Store(tmp_path)
    store.begin(scenario)
    (file,) = tmp_path.rglob("settings.json")
    known = json.loads(file.read_text())
    del known["beside"], known["load"]["own_connections"], known["servers"][0]["paced"]
    file.write_text(json.dumps(known))
    store.begin(scenario)
    file.write_text(json.dumps(known))
    with pytest.raises(SetupError, match="of other settings"):
        store.begin(replace(scenario, beside="nginx-rr"))
    for damaged in (json.dumps(known | {"since": 1}), "[]", json.dumps(known | {"load": 1})):
        file.write_text(damaged)
        with pytest.raises(SetupError, match="of other settings"):
            store.begin(scenario)


def test_measuring_again_forgets_what_is_asked_for_and_what_was_measured_otherwise(tmp_path: Path) -> None:
    scenario, store = find("report", quick=False), Store(tmp_path)
    store.begin(scenario)
    for algorithm in ("nginx-rr", "nginx-wrr"):
        store.save(measured(algorithm))
    store.forget(replace(scenario, algorithms=("nginx-rr",)))
    assert [entry.trial.algorithm for entry in store.all("report")] == ["nginx-wrr"]
    other = replace(scenario, algorithms=("nginx-rr",), load=replace(scenario.load, seconds=61.0))
    store.forget(other)
    assert store.all("report") == []
    store.begin(other)


def test_durations_are_for_people() -> None:
    assert [duration(seconds) for seconds in (-1, 40, 300, 7500)] == ["0 s", "40 s", "5 min", "2 h 05 min"]
