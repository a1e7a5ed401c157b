"""The page is written from whatever was measured, also from next to nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from steelyard_loadtest.compare.page.plots.servers_needed import draw_servers_needed
from steelyard_loadtest.compare.page.view import views
from steelyard_loadtest.compare.page.write import write as write_page
from steelyard_loadtest.measurements.trials import Measured, Observed, Outcome, Results, Trial, quantiles
from steelyard_loadtest.scenario.algorithms import DEFAULT
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.scenario.find import find


def trial(
    scenario: Scenario, algorithm: str, level: float, succeeded: int = 400, failures: int = 0
) -> Measured:
    latencies = [1.0 + number for number in range(succeeded)]
    return Measured(
        trial=Trial(scenario=scenario.name, algorithm=algorithm, level=level, repeat=1),
        generator=scenario.load.generator,
        outcome=Outcome(
            seconds=scenario.load.seconds,
            requests=succeeded + failures,
            failures=failures,
            kinds={"refused": failures} if failures else {},
            mean_ms=sum(latencies) / succeeded if succeeded else None,
            min_ms=1.0 if succeeded else None,
            max_ms=latencies[-1] if succeeded else None,
            quantiles=quantiles(latencies),
            concurrency=1.0,
        ),
        observed=tuple(
            Observed(
                t_s=second + 1.0,
                interval_s=1.0,
                server=server.name,
                served=succeeded,
                share=1 / len(scenario.servers) if succeeded else None,
                cpu_utilization=0.3,
            )
            for second in range(int(scenario.load.seconds))
            for server in scenario.servers
        ),
        balancer_cpu_s=0.1,
    )


def write(out: Path, scenario: Scenario, *measured: Measured, interrupted: bool = False) -> list[str]:
    """Write a page, check its files by their names, and return these."""
    results = Results(
        scenarios=(scenario,),
        measured=list(measured),
        conditions={"Date": "today"},
        interrupted=interrupted,
    )
    files = write_page(out, results)
    for file in files:
        if file.suffix == ".png":
            with Image.open(file) as picture:
                assert min(picture.size) > 100
        else:
            assert f"{scenario.name}: " in file.read_text(encoding="utf-8")
    return [str(file.relative_to(out)) for file in files]


TEXTS = ["report.md"]


@pytest.mark.parametrize(
    ("name", "level", "plots"),
    [
        ("paper", 800, ["plots/paper-p99.png"]),
        ("churn", 0.5, ["plots/churn-p99.png", "plots/churn-time.png"]),
    ],
)
def test_two_trials_are_enough_for_a_page(tmp_path: Path, name: str, level: float, plots: list[str]) -> None:
    scenario = find(name, quick=True)
    trials = [trial(scenario, algorithm, level) for algorithm in (DEFAULT, "nginx-rr")]
    assert write(tmp_path, scenario, *trials) == [*TEXTS, *plots]


def test_a_scenario_of_several_levels_has_its_figures_over_the_level(tmp_path: Path) -> None:
    scenario = find("proxy-cost", quick=True)
    trials = [
        trial(scenario, name, level) for name in (DEFAULT, "direct") for level in scenario.load.levels[:2]
    ]
    assert "plots/proxy-cost-load.png" in write(tmp_path, scenario, *trials)


def test_a_fleet_has_a_plot_of_the_servers_that_each_algorithm_needs(tmp_path: Path) -> None:
    scenario = find("mixed-fleet", quick=True)
    trials = [
        trial(scenario, name, level, succeeded=succeeded)
        for name, most in (("nginx-rr", 4000), (DEFAULT, 900))
        for level, succeeded in ((0.15, 400), (0.4, most))
    ]
    file = tmp_path / "servers.png"
    (view,) = views(Results(scenarios=(scenario,), measured=trials))
    assert draw_servers_needed(file, view)
    with Image.open(file) as picture:
        assert min(picture.size) > 100
    (without,) = views(Results(scenarios=(scenario,), measured=trials[2:]))
    assert not draw_servers_needed(file, without)  # the reference was not measured


def test_an_algorithm_that_was_ended_between_its_levels_leaves_a_gap(tmp_path: Path) -> None:
    scenario = find("paper", quick=True)
    trials = [trial(scenario, DEFAULT, 200), trial(scenario, DEFAULT, 800), trial(scenario, "nginx-wrr", 200)]
    assert "plots/paper-load.png" in write(tmp_path, scenario, *trials, interrupted=True)
    assert "**Interrupted**" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("name", "succeeded", "failures"),
    [("report", 1, 0), ("paper", 0, 30), ("churn", 0, 0), ("churn", 1, 0), ("churn", 40, 2)],
)
def test_next_to_nothing_is_a_page_without_plots_of_it(
    tmp_path: Path, name: str, succeeded: int, failures: int
) -> None:
    scenario = find(name, quick=True)
    only = trial(scenario, DEFAULT, scenario.load.levels[0], succeeded, failures)
    written = write(tmp_path, scenario, only)
    assert written[:1] == TEXTS
    assert f"plots/{name}-p99.png" not in written  # too few for a p99


def test_nothing_at_all_is_a_page_that_says_so(tmp_path: Path) -> None:
    assert write(tmp_path, find("slow-one", quick=True)) == TEXTS
    assert "Nothing was measured." in (tmp_path / "report.md").read_text()


def test_trials_without_observations_have_no_plot_over_time(tmp_path: Path) -> None:
    scenario = find("churn", quick=True)
    written = write(tmp_path, scenario, replace(trial(scenario, DEFAULT, 0.5), observed=()))
    assert "plots/churn-time.png" not in written
    assert "plots/churn-p99.png" in written


def test_servers_with_a_pool_of_workers_have_a_third_row_over_time(tmp_path: Path) -> None:
    heights = []
    for name, level in (("churn", 0.5), ("worker-pool", 120)):
        scenario = find(name, quick=True)
        assert f"plots/{name}-time.png" in write(tmp_path, scenario, trial(scenario, DEFAULT, level))
        with Image.open(tmp_path / f"plots/{name}-time.png") as picture:
            heights.append(picture.size[1])
    assert heights[1] > heights[0]


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    scenario = find("churn", quick=True)
    trials = [trial(scenario, algorithm, 0.5) for algorithm in (DEFAULT, "nginx-rr")]
    first = {name: (tmp_path / name).read_bytes() for name in write(tmp_path, scenario, *trials)}
    assert {name: (tmp_path / name).read_bytes() for name in write(tmp_path, scenario, *trials)} == first
