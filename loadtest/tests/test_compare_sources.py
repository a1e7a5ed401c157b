"""`compare sources`: what it measures, how long, and the page of a folder that is not complete."""

from pathlib import Path

import pytest
from steelyard_loadtest.__main__ import main
from steelyard_loadtest.compare.findings.verdicts import SOURCES
from steelyard_loadtest.compare.schedule import scenario_s
from steelyard_loadtest.compare.store import Store
from steelyard_loadtest.measurements.trials import Measured, Outcome, Trial, quantiles
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.scenario.find import EXPERIMENTS, find, find_all

PAGE = "# Sources\n\n<!-- measured: begin -->\n<!-- measured: end -->\n\nThe end.\n"


def trial(scenario: Scenario, algorithm: str, level: float, *, rate: int = 50) -> Measured:
    latencies = [1.0 + level * number / 10_000 for number in range(rate * 10)]
    return Measured(
        trial=Trial(scenario=scenario.name, algorithm=algorithm, level=level, repeat=1),
        generator=scenario.load.generator,
        outcome=Outcome(
            seconds=10, requests=len(latencies), failures=0, kinds={}, mean_ms=latencies[rate * 5],
            min_ms=1.0, max_ms=latencies[-1], quantiles=quantiles(latencies), concurrency=level,
        ),
    )  # fmt: skip


def test_it_is_the_full_form_with_the_sources_own_algorithms() -> None:
    scenarios = {scenario.name: scenario for scenario in find_all(["sources"], quick=False)}
    assert tuple(scenarios) == EXPERIMENTS
    for name, scenario in scenarios.items():
        full = find(name, quick=False)
        assert scenario.load == full.load
        assert set(scenario.algorithms) < set(full.algorithms)
        assert DEFAULT in scenario.algorithms
    for source in SOURCES:
        if source.terms.scenario in scenarios:
            words = {word for text in source.terms.algorithms.values() for word in text.split()}
            assert words & set(BY_NAME) <= set(scenarios[source.terms.scenario].algorithms), source.title


def test_it_takes_four_and_a_half_hours() -> None:
    assert 4 < sum(map(scenario_s, find_all(["sources"], quick=False))) / 3600 < 4.6


def test_its_trials_go_into_the_folder_of_the_full_form(tmp_path: Path) -> None:
    Store(tmp_path).begin(find("paper", quick=False))
    Store(tmp_path).begin(find_all(["sources"], quick=False)[0])


def test_a_scenario_that_is_named_too_and_a_quick_one_are_as_without_the_set() -> None:
    named = {scenario.name: scenario for scenario in find_all(["sources", "paper"], quick=False)}
    assert named["paper"] == find("paper", quick=False)
    assert named["report"] != find("report", quick=False)
    assert find_all(["sources"], quick=True) == tuple(find(name, quick=True) for name in EXPERIMENTS)


def test_the_page_of_an_unfinished_folder_judges_what_is_there_and_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out, page, (paper, *_) = tmp_path / "full", tmp_path / "sources.md", find_all(["sources"], quick=False)
    Store(out).begin(paper)
    for name in ("nginx-wrr", "nginx-fair", "steelyard-paper-vnswrr"):
        for level in (200, 400):
            Store(out).save(trial(paper, name, level))
    page.write_text(PAGE)
    asked = ["compare", "sources", "--report-only", "--out", str(out), "--page", str(page)]
    assert main(asked) == 0
    text = page.read_text()
    assert "| The entropy paper | 10 | " in text
    assert "| The locust study | 23 | 0 | 0 | 0 | 20 | 3 |" in text
    assert "not measured yet: needs `nginx-rr`, `nginx-least_conn` at 100 users in `report`" in text
    assert "> Unfinished: 6 of 150 trials are measured." in text
    assert "> Nothing was measured." in text
    assert "not recorded, because the run has not ended" in text
    assert text.endswith("The end.\n")
    assert (tmp_path / "plots/sources/paper-load.png").exists()
    assert sorted(path.name for path in (out / "trials").iterdir()) == ["paper"]
    assert not (out / "conditions.json").exists()
    assert main([*asked, "--again"]) == 2
    assert "leave one out" in capsys.readouterr().err


def test_the_list_names_each_set_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--list"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("sources ")]
    assert len(lines) == 1
    assert "paper, report, slow-one, proxy-cost (quick 14 min, full 4 h 30 min)" in lines[0]
