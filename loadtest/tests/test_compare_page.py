"""The page's words and tables, from made-up figures."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from steelyard_loadtest.compare.page import document, scenario_text, write
from steelyard_loadtest.compare.page.document import blocks, page_text, remarks, titled
from steelyard_loadtest.compare.page.plots.over_time import running_mean, server_styles
from steelyard_loadtest.compare.page.scenario_text import LOOKS
from steelyard_loadtest.compare.page.view import (
    MOST_LINES,
    shown_algorithms,
    shown_levels,
    views,
)
from steelyard_loadtest.measurements.trials import (
    PERCENTILES,
    Measured,
    Missing,
    Observed,
    Outcome,
    Quantile,
    Results,
    Trial,
)
from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.markdown import Table, text_columns
from steelyard_loadtest.reporting.statistics import spread
from steelyard_loadtest.scenario.algorithms import ALGORITHMS, DEFAULT
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.scenario.find import NAMES, find


def trial(
    scenario: Scenario, algorithm: str, level: float, repeat: int, p99_ms: float = 20.0, failures: int = 0
) -> Measured:
    """Half a minute or whatever the scenario lasts, at about 50 requests/s."""
    seconds = scenario.load.seconds
    requests = int(seconds * 50)
    nothing = failures == requests
    points = (
        ()
        if nothing
        else tuple(Quantile(part=part, ms=1 + (p99_ms - 1) * part / 0.99) for part in PERCENTILES.values())
    )
    names = [server.name for server in scenario.servers]
    return Measured(
        trial=Trial(scenario=scenario.name, algorithm=algorithm, level=level, repeat=repeat),
        generator=scenario.load.generator,
        outcome=Outcome(
            seconds=seconds,
            requests=requests,
            failures=failures,
            kinds={"502": failures} if failures else {},
            mean_ms=None if nothing else p99_ms / 2,
            min_ms=None if nothing else 1.0,
            max_ms=None if nothing else p99_ms * 2,
            quantiles=points,
            concurrency=2.0,
        ),
        observed=()
        if scenario.static
        else tuple(
            Observed(
                t_s=second + 1.0,
                interval_s=1.0,
                server=name,
                served=50 // len(names),
                share=None if nothing else 1 / len(names),
                cpu_utilization=0.5,
            )
            for second in range(int(seconds))
            for name in names
        ),
        balancer_cpu_s=None if algorithm == "direct" else 0.1,
    )


def results(
    *measured: Measured, scenarios: tuple[Scenario, ...], missing: tuple[Missing, ...] = ()
) -> Results:
    return Results(
        scenarios=scenarios,
        measured=list(measured),
        missing=list(missing),
        conditions={"Command": "`steelyard-loadtest compare <x> | y`"},
    )


def everything(scenario: Scenario) -> list[Measured]:
    """Every trial of a scenario, the algorithms of ever worse p99."""
    return [
        trial(scenario, algorithm, level, repeat, p99_ms=20.0 + position)
        for position, algorithm in enumerate(scenario.algorithms)
        for level in scenario.load.levels
        for repeat in range(1, scenario.load.repeats + 1)
    ]


def text_of(made: Results) -> str:
    return page_text(made, views(made), {})


def tables_of(*measured: Measured, scenario: Scenario) -> dict[str, Table]:
    """The tables of a scenario by their titles, without the levels at their ends."""
    (view,) = views(results(*measured, scenarios=(scenario,)))
    return {block.title.partition(" at ")[0]: block for block in blocks(view)}


REPORT = find("report", quick=True)
CHURN = find("churn", quick=True)


def test_a_scenario_s_marks_are_judged_for_everybody() -> None:
    scenario = replace(REPORT, marks={"failures_part": 0.1})
    good = trial(scenario, "nginx-rr", 250, 1, failures=40)
    bad = trial(scenario, DEFAULT, 250, 1, failures=41)
    table = tables_of(good, bad, scenario=scenario)["Pass marks"]
    assert table.head[-2:] == ("failed, at most 0.1", "")
    assert [line.fields[-2:] for line in table.lines] == [("0.100", "passes"), ("0.102 ✗", "fails")]
    assert "Pass marks" not in tables_of(good, scenario=REPORT)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.123"), (1.2345, "1.23"), (12.345, "12.3"), (12345.6, "12,346"), (0.0, "0"),
     (None, "–"), (math.inf, "never")],
)  # fmt: skip
def test_a_figure_has_about_three_digits(value: float | None, text: str) -> None:
    assert wording.number(value) == text


def test_a_deviation_has_the_digits_of_its_median() -> None:
    assert scenario_text.with_sigma(spread([99, 100, 102])) == "100 ± 2"
    assert scenario_text.with_sigma(spread([1.25, 1.35])) == "1.30 ± 0.07"
    assert scenario_text.with_sigma(spread([1.3])) == "1.30"
    assert scenario_text.with_sigma(None) == "–"


def test_a_ratio_shows_on_which_side_of_one_it_is() -> None:
    assert [wording.ratio(value) for value in (0.5, 1.0, 1.004, 0.9996, None)] == [
        "0.50",
        "1.00",
        "1.004",
        "0.9996",
        "–",
    ]


def test_a_small_percentage_is_not_written_as_none() -> None:
    assert [wording.small_percent(part, 2) for part in (0.0, 0.00001, 0.001)] == [
        "0.00 %",
        "<0.01 %",
        "0.10 %",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_can_be_put_in_words(name: str) -> None:
    scenario = find(name, quick=True)
    assert scenario_text.command(scenario) == f"steelyard-loadtest compare {name} --quick"
    assert scenario_text.load_text(scenario.load).endswith("s of warm-up")
    assert all(event.server in scenario_text.event_text(event) for event in scenario.events)


def test_alike_servers_are_named_together() -> None:
    assert scenario_text.servers_text(CHURN) == (
        "server-1: 0.16 cores, weight 2; server-2 to server-5: 0.08 cores, weight 1"
    )


def test_no_two_algorithms_look_alike_and_the_default_is_the_boldest() -> None:
    looks = {(look.color, look.dash, look.marker, look.hollow) for look in LOOKS.values()}
    assert len(looks) == len(ALGORITHMS)
    assert [name for name, look in LOOKS.items() if look.strong] == [DEFAULT]
    assert [name for name, look in LOOKS.items() if look.hollow] == [
        algorithm.name for algorithm in ALGORITHMS if algorithm.informed
    ]


def test_lines_are_ours_then_the_best_peer_then_what_everybody_knows() -> None:
    scenario = find("noisy-neighbour", quick=False)
    trials = [
        replace(entry, outcome=trial(scenario, "nginx-hash", 1, 1, p99_ms=1).outcome)
        if entry.trial.algorithm == "nginx-hash"
        else entry
        for entry in everything(scenario)
    ]
    (view,) = views(results(*trials, scenarios=(scenario,)))
    assert shown_algorithms(view)[:3] == [DEFAULT, "nginx-hash", "nginx-wrr"]
    assert len(shown_algorithms(view)) == MOST_LINES


def test_four_of_ten_levels_are_the_ends_and_two_between() -> None:
    assert shown_levels([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) == [1, 4, 7, 10]
    assert shown_levels([6, 10]) == [6, 10]


def test_servers_that_are_touched_or_differ_have_a_colour_and_the_others_are_grey() -> None:
    (view,) = views(results(scenarios=(CHURN,)))
    labels = {name: style["label"] for name, style in server_styles(view).items()}
    assert labels == {
        "server-1": "server-1",
        "server-2": "the other servers",
        "server-3": "the other servers",
        "server-4": "server-4",
        "server-5": "server-5",
    }


def test_every_server_whose_limit_drifts_has_a_colour_and_a_dotted_fair_share(
    tmp_path: Path,
) -> None:
    drift = find("drift", quick=True)
    (view,) = views(results(*everything(drift), scenarios=(drift,)))
    assert [style["label"] for style in server_styles(view).values()] == ["server-1", "server-2", "server-3"]
    assert "drifting by 33.3 % every 40 s from phase 0.667 on" in scenario_text.servers_text(drift)
    write.write(tmp_path, results(*everything(drift), scenarios=(drift,)))
    assert "Dotted: a server's part of all servers' CPU" in (tmp_path / "report.md").read_text()


def test_workers_and_their_holders_are_described() -> None:
    scenario = find("worker-pool", quick=True)
    assert scenario_text.servers_text(scenario) == "server-1 to server-3: 0.3 cores, weight 1, 8 workers"
    assert [*map(scenario_text.event_text, scenario.events)] == [
        "5 to 13 s: 6 of server-1's workers are held, without CPU"
    ]


def test_a_fleet_s_questions_are_answered_first() -> None:
    scenario = find("mixed-fleet", quick=True)
    trials = [
        trial(scenario, name, level, 1, p99_ms=40 * growth**step)
        for name, growth in (("nginx-rr", 2.0), (DEFAULT, 1.4))
        for step, level in enumerate(scenario.load.levels)
    ]
    text = text_of(results(*trials, scenarios=(scenario,)))
    # Three times the p99: ln 3 / ln 2 = 1.58 steps to 48.8 %, or ln 3 / ln 1.4 = 3.27 to 74 %.
    assert (
        "At one p99, 7.9 servers carry with Steelyard, vnswrr2 ★ what 12 carry with nginx round robin."
        in text
    )
    assert "times the mean at 70 % of capacity: the target of 1.05 for utilization is met." in text
    assert "| **Steelyard, vnswrr2 ★** | **ours** | **74** | **7.9** | **34 %** |" in text
    assert "| nginx round robin | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |" in text


def test_an_empty_cache_and_a_bounded_neighbour_are_described() -> None:
    texts = [*map(scenario_text.event_text, find("cold-cache", quick=True).events)]
    assert texts[1:] == ["8 s: server-4's cache of 300 entries is empty", "8 s: server-4 joins"]
    assert [*map(scenario_text.event_text, find("mixed-fleet", quick=True).events)] == [
        "7 to 14 s: a neighbour takes up to 40 % of server-10's CPU (1 process)"
    ]


def test_p99_before_while_and_after_a_neighbour_is_a_table_of_its_own() -> None:
    scenario = find("neighbour-near-capacity", quick=True)
    one = trial(scenario, DEFAULT, 0.6975, 1)
    phases = tuple(trial(scenario, DEFAULT, 0.6975, 1, p99_ms=ms).outcome for ms in (10, 300, 20))
    lengths = [replace(phase, seconds=seconds) for phase, seconds in zip(phases, (4, 7, 9), strict=True)]
    one = replace(one, outcome=replace(one.outcome, phases=tuple(lengths)))
    tables = tables_of(one, scenario=scenario)
    table = tables["p99 in ms in each phase"]
    assert table.head == ("algorithm", "kind", "0-4 s", "4-11 s", "11-20 s")
    assert table.lines[0].fields[2:] == ("10.0", "300", "20.0")
    assert tables["Balance and cost"].head[-3:-1] == ("share error", "recovers s")


def test_a_running_mean_leaves_out_what_is_not_known() -> None:
    assert running_mean([1.0, 2.0, 6.0]) == [1.5, 3.0, 4.0]
    assert running_mean([None, 2.0])[0] == 2.0
    assert math.isnan(running_mean([None])[0])


def test_the_headline_counts_and_the_table_names_the_rivals() -> None:
    both = results(
        trial(REPORT, DEFAULT, 250, 1, p99_ms=30),
        trial(REPORT, "nginx-rr", 250, 1, p99_ms=60),
        trial(REPORT, "nginx-wrr", 250, 1, p99_ms=20),
        trial(CHURN, DEFAULT, 0.5, 1, p99_ms=30),
        trial(CHURN, "nginx-rr", 0.5, 1, p99_ms=15),
        scenarios=(REPORT, CHURN),
    )
    assert document.headline(views(both)) == ("The target is met at 1 of 2 levels of load and missed at 1.")
    table = document.targets(views(both))
    lines = [dict(zip(table.head, line.fields, strict=True)) for line in table.lines]
    assert [(line["target"], line["ratio"], line["ratio to informed"]) for line in lines] == [
        ("met", "0.50", "1.50"),
        ("missed", "2.00", "–"),
    ]
    assert lines[0]["best online peer"] == "nginx round robin"


def test_the_best_tail_stands_first_and_those_that_failed_requests_last() -> None:
    trials = [
        trial(REPORT, "nginx-rr", 250, 1, p99_ms=30),
        trial(REPORT, "nginx-hash", 250, 1, p99_ms=5, failures=40),
        trial(REPORT, "nginx-wrr", 250, 1, p99_ms=10),
    ]
    tables = tables_of(*trials, scenario=REPORT)
    assert [line.fields[0] for line in tables["Latency"].lines] == [
        "nginx weighted round robin",
        "nginx round robin",
        "nginx hash consistent",
    ]
    assert tables["Failures"].lines[0].fields == ("nginx hash consistent", "10.00 %", "40", "502: 40")


def test_a_reader_is_warned() -> None:
    busy = trial(REPORT, "nginx-rr", 250, 1, failures=4)
    busy = replace(busy, outcome=replace(busy.outcome, generator_cpu_utilization=0.93))
    (view,) = views(results(busy, scenarios=(REPORT,)))
    warnings = " ".join(remarks(view))
    assert "1 of 11 trials" in warnings
    assert "One repeat" in warnings
    assert "generator used over 0.8 of a core with nginx round robin" in warnings


def test_a_complete_scenario_with_repeats_has_no_warning() -> None:
    scenario = find("churn", quick=False)
    (view,) = views(results(*everything(scenario), scenarios=(scenario,)))
    assert list(remarks(view)) == []


def test_what_is_missing_is_named_with_its_reason() -> None:
    why = Missing(scenario="report", algorithm="nginx-fair", why="no <module> | none")
    text = text_of(results(scenarios=(REPORT,), missing=(why, why)))
    assert text.count("nginx fair | no &lt;module> \\| none |") == 1
    assert "Nothing was measured." in text


def test_the_markdown_says_how_to_do_it_again_and_defines_its_figures() -> None:
    text = text_of(results(*everything(REPORT), scenarios=(REPORT,)))
    assert "`steelyard-loadtest compare report --quick`" in text
    assert "Jain, Chiu, Hawe 1984" in text
    for line in re.findall(r"^\|[ :|-]+\|$", text, re.MULTILINE):
        assert "---" in line  # every row of bars is a table's rule


def test_every_row_of_a_markdown_table_has_as_many_fields_as_its_head() -> None:
    text = text_of(results(*everything(REPORT), scenarios=(REPORT,)))
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1, table


def test_a_folded_table_opens_when_a_reader_wants_it() -> None:
    table = text_columns(["picker", "p99 ms"], [["`x` *y* <z>", "1.00"]], title="p99 < 1", note="Medians.")
    assert titled(table).startswith("#### p99 &lt; 1\n\nMedians.\n\n| picker |")
    folded = titled(replace(table, folded=True))
    assert folded.startswith("<details><summary>p99 &lt; 1</summary>\n\nMedians.\n\n| picker |")
    assert folded.endswith("&lt;z> | 1.00 |\n\n</details>\n")
