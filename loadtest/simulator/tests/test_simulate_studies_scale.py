"""The scale study: its grid, the figures of a run, and a run of it from end to end."""

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from steelyard_simulator.command import add_parser
from steelyard_simulator.model import RunResult, Ticks
from steelyard_simulator.run import run
from steelyard_simulator.studies.measures import capacities
from steelyard_simulator.studies.scale_study import (
    LOAD,
    LOAD_BALANCERS,
    REQUESTS_PER_SERVER_S,
    SIZES,
    ScaleTrial,
    figures_of,
    seeds_of,
    trials,
)


def trial(servers: int = 8, load_balancers: int = 2, picker: str = "vnswrr2") -> ScaleTrial:
    return ScaleTrial(servers=servers, load_balancers=load_balancers, picker=picker)


def test_load_is_three_quarters_of_what_the_servers_can_do_at_first_and_nearly_at_last() -> None:
    case = trial(servers=1000).case()
    first, last = capacities(case, np.array([0.0, case.duration_s])).sum(axis=1)
    assert pytest.approx(LOAD * first) == 1000 * REQUESTS_PER_SERVER_S
    assert last == pytest.approx(first, rel=0.01)


def test_every_tick_a_hundredth_of_the_servers_changes() -> None:
    case = trial(servers=1000).case()
    speeds = capacities(case, np.arange(1.0, case.duration_s))
    changed = (np.diff(speeds, axis=0) != 0).sum(axis=1)
    assert changed.tolist() == [10] * len(changed)


def test_grid_has_every_size_and_number_and_the_largest_first() -> None:
    grid = trials(SIZES, LOAD_BALANCERS)
    assert {each.servers for each in grid} == set(SIZES)
    assert {each.load_balancers for each in grid} == set(LOAD_BALANCERS)
    assert grid[0].servers == max(SIZES)
    assert len(set(grid)) == len(grid)


def test_subsets_are_tried_where_servers_are_many_and_a_queue_is_seen_whole_by_fewer() -> None:
    sizes = {each.servers for each in trials(SIZES, LOAD_BALANCERS) if each.subset_size}
    assert sizes == {3000, 10_000}
    p99_ms = [
        figures_of(case, run(case, 1))["p99_ms"]
        for case in (
            ScaleTrial(servers=200, load_balancers=20, picker="vnswrr2", subset_size=size).case()
            for size in (0, 20)
        )
    ]
    assert p99_ms[1] < 0.75 * p99_ms[0]


def test_large_points_get_fewer_seeds_and_never_one_where_more_are_asked() -> None:
    assert [seeds_of(trial(servers=k), 3) for k in (100, 1000, 3000, 10_000)] == [3, 3, 2, 2]
    assert seeds_of(trial(servers=10_000), 1) == 1


def result_of(weights: list[list[float]], picks: list[list[int]], latency_ms: list[float]) -> RunResult:
    case = trial(servers=2).case()
    ticks = len(weights)
    return RunResult(
        sent_s=np.zeros(len(latency_ms)), latency_ms=np.array(latency_ms),
        arrived=0, served=0, failed=0, in_flight=0,
        requests_per_server=np.zeros(2, dtype=np.int64), events=0, cpu_s=0.0,
        ticks=Ticks(
            t_s=case.warmup_s + np.arange(ticks, dtype=np.float64),
            weights=np.array(weights), picks=np.array(picks),
            utilization=np.full((ticks, 2), np.nan),
        ),
    )  # fmt: skip


def test_figures_are_of_what_came_after_the_warm_up() -> None:
    case = trial(servers=2).case()
    at_s = case.warmup_s + np.arange(3, dtype=np.float64)
    right = capacities(case, at_s)
    right /= right.sum(axis=1, keepdims=True)
    measured = figures_of(
        case, result_of(right.tolist(), [[900, 0], [30, 70], [30, 70]], [10.0] * 99 + [1000.0])
    )
    assert measured["published_error"] == pytest.approx(0.0, abs=1e-12)
    assert measured["p99_ms"] == pytest.approx(19.9)
    # The tables of the first two ticks ruled the requests of the last two, 30 : 70.
    ruled = right[:2].mean(axis=0)
    assert measured["achieved_error"] == pytest.approx(abs(0.3 - ruled[0]))


def test_rows_that_change_are_counted_by_share() -> None:
    table = [[0.25, 0.75], [0.25, 0.75], [0.25, 0.75], [0.26, 0.74]]
    measured = figures_of(trial(servers=2).case(), result_of(table, [[1, 3]] * 4, [1.0]))
    assert measured["rows_changed"] == pytest.approx(0.5)
    assert measured["rows_changed_5"] == 0.0


def test_the_command_writes_tables_and_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- simulate scale: begin -->\nof last time\n<!-- simulate scale: end -->\nafter\n"
    )
    words = ["simulate", "scale", "--servers", "2,4", "--load-balancers", "2", "--seeds", "2"]
    assert _run([*words, "--jobs", "1", "--out", str(tmp_path), "--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "of last time" not in text
    assert "`steelyard-loadtest simulate scale --servers 2,4 --load-balancers 2 --seeds 2`" in text
    rows = list(csv.DictReader((tmp_path / "scale.csv").read_text().splitlines()))
    assert {row["seed"] for row in rows} == {"1", "2"}
    both = [
        row for row in rows if _is(row, servers="4", load_balancers="2", picker="vnswrr2", exchanged="False")
    ]
    mean = sum(float(row["p99_ms"]) for row in both) / len(both)
    assert f" {mean:,.0f} ± " in text


def test_a_page_without_marks_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("no marks")
    assert _run(["simulate", "scale", "--page", str(page), "--out", str(tmp_path / "out")]) == 1
    assert "<!-- simulate scale: begin -->" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def _is(row: Mapping[str, str], **wanted: str) -> bool:
    return all(row[name] == value for name, value in wanted.items())


def _run(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers(required=True))
    options = parser.parse_args(words)
    status: int = options.run(options)
    return status
