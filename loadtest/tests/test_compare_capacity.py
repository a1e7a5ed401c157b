"""The capacity of the servers: several measurements, one for all runs into a folder, and on the page."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from steelyard_loadtest.compare.page.document import page_text, remarks
from steelyard_loadtest.compare.page.view import views
from steelyard_loadtest.compare.session import capacity_of
from steelyard_loadtest.compare.store import Store
from steelyard_loadtest.measurements.capacity import Capacity, of_trials
from steelyard_loadtest.measurements.trials import Measured, Outcome, Results, Trial
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.scenario.find import find

SCENARIO = find("slow-then-well", quick=True)


class Servers:
    """Their capacity is another one each time."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def capacity(self, path: str) -> Capacity:
        self.asked.append(path)
        base = 300.0 + 50 * len(self.asked)
        return Capacity(measured_per_s=(base - 6, base, base + 900, base + 2, base - 4))


def trial(algorithm: str = "nginx-rr", capacity_per_s: float = 321.0) -> Measured:
    """Measure at half of the capacity for 20 s."""
    outcome = Outcome(
        seconds=20, requests=int(capacity_per_s * 10), failures=0, kinds={}, mean_ms=1, min_ms=1, max_ms=1,
        quantiles=(), concurrency=1,
    )  # fmt: skip
    return Measured(
        trial=Trial(scenario=SCENARIO.name, algorithm=algorithm, level=0.5, repeat=1),
        generator="open",
        outcome=outcome,
    )


def run(out: Path, servers: Servers, *, again: tuple[str, ...] = ()) -> tuple[Capacity, str]:
    """Begin as a run into this folder does; return the capacity, and the output."""
    store, output = Store(out), StringIO()
    if again:
        store.forget(replace(SCENARIO, algorithms=again))
    store.begin(SCENARIO)
    with Progress(output) as progress:
        return capacity_of(SCENARIO, store, servers, progress), output.getvalue()


def test_one_bad_measurement_of_several_does_not_count() -> None:
    capacity = Servers().capacity("/")
    assert capacity.per_s == 350
    assert capacity.rates([0.001, 0.5, 0.6]) == {0.001: 1.0, 0.5: 175.0, 0.6: 210.0}
    assert str(capacity) == "350 requests/s, the median of 5 measurements (344 to 1250)"
    assert capacity.spread == pytest.approx(906 / 350)


def test_a_run_that_goes_on_has_the_capacity_of_the_first_one(tmp_path: Path) -> None:
    servers = Servers()
    first, said = run(tmp_path, servers)
    assert said == f"slow-then-well: capacity {first}\n"
    Store(tmp_path).save(trial(capacity_per_s=350))
    second, said = run(tmp_path, servers)
    assert said == f"slow-then-well: capacity {first}, as before\n"
    assert second == first
    assert servers.asked == ["/"]


def test_measuring_again_measures_the_capacity_anew_if_no_trial_stays(tmp_path: Path) -> None:
    servers = Servers()
    first, _ = run(tmp_path, servers)
    for algorithm in ("nginx-rr", "nginx-wrr"):
        Store(tmp_path).save(trial(algorithm))
    kept, _ = run(tmp_path, servers, again=("nginx-rr",))
    assert kept == first  # nginx-wrr's trial is compared with the new ones
    anew, _ = run(tmp_path, servers, again=("nginx-rr", "nginx-wrr"))
    assert (first.per_s, anew.per_s) == (350, 400)


def test_a_folder_without_a_kept_capacity_has_that_of_its_trials(tmp_path: Path) -> None:
    Store(tmp_path).save(trial(capacity_per_s=321))
    servers = Servers()
    capacity, said = run(tmp_path, servers)
    assert said == "slow-then-well: capacity 321 requests/s, by the rates of the trials, as before\n"
    assert capacity.rates([0.5]) == {0.5: 160.5}
    assert (servers.asked, capacity.differs) == ([], False)


def test_trials_of_several_capacities_are_named_as_such(tmp_path: Path) -> None:
    for algorithm, per_s in (("nginx-rr", 321), ("nginx-wrr", 321), ("steelyard-steelyard-vnswrr2", 374)):
        Store(tmp_path).save(trial(algorithm, per_s))
    capacity = Store(tmp_path).capacity(SCENARIO)
    assert capacity is not None
    assert capacity.differs
    assert str(capacity) == (
        "321 requests/s, by the rates of the trials, which had different ones (321 to 374)"
        " and cannot be compared"
    )


def test_no_trial_has_no_capacity_and_a_damaged_file_is_like_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert of_trials([]) is None
    store.keep_capacity(SCENARIO, Capacity(measured_per_s=(5.0,)))
    (file,) = tmp_path.rglob("capacity.json")
    for damaged in ("{", '{"measured_per_s": []}', '{"measured_per_s": [0]}'):
        file.write_text(damaged)
        assert store.capacity(SCENARIO) is None


def test_the_page_names_the_capacity_and_warns_of_an_uncertain_one() -> None:
    results = Results(scenarios=(SCENARIO,), measured=[trial()])
    assert "Capacity:" not in page_text(results, views(results), {})
    for goes, warned in (((300.0, 310.0, 305.0), False), ((300.0, 310.0, 360.0), True)):
        results.capacities[SCENARIO.name] = Capacity(measured_per_s=goes)
        text = page_text(results, views(results), {})
        assert f"- Capacity: {Capacity(measured_per_s=goes)}\n" in text
        assert ("The measurements of the capacity are 19 % apart." in text) is warned
    (view,) = views(results)
    assert any("as uncertain" in remark for remark in remarks(view))
