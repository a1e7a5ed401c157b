"""Medians, ratios, targets and the tables made of them."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from steelyard_loadtest.dataplane import report
from steelyard_loadtest.dataplane.contenders import COST
from steelyard_loadtest.dataplane.plot import LOOKS, plot
from steelyard_loadtest.figures.columns import results_csv
from steelyard_loadtest.figures.trial_figures import figures
from steelyard_loadtest.generators.wrk import STATUS
from steelyard_loadtest.measurements.trials import Measured, Outcome, Quantile, Trial
from steelyard_loadtest.reporting.markdown import filled, markdown
from steelyard_loadtest.reporting.markdown import table as table_of
from steelyard_loadtest.reporting.statistics import spread


def load(p99_ms: float = 2.5, non_2xx: int = 0) -> Outcome:
    ms = {0.5: 1.25, 0.99: p99_ms, 0.999: 2 * p99_ms, 1.0: 4 * p99_ms}
    return Outcome(
        seconds=2.0,
        requests=20_000,
        failures=non_2xx,
        kinds={STATUS: non_2xx},
        mean_ms=1.25,
        min_ms=1.0,
        max_ms=4 * p99_ms,
        quantiles=tuple(Quantile(part=part, ms=at) for part, at in ms.items()),
        concurrency=64,
    )


def measured(contender: str, peers: int, *cpu_us: float | None, non_2xx: int = 0) -> list[Measured]:
    return [
        Measured(
            trial=Trial(scenario=COST, algorithm=contender, level=peers, repeat=number),
            generator="wrk",
            outcome=load(non_2xx=non_2xx),
            balancer_cpu_s=None if us is None else us * 20_000 / 1e6,
            balancer_resident_bytes=None if us is None else 16 * 1024 * 1024,
        )
        for number, us in enumerate(cpu_us, start=1)
    ]


MEASURED = [
    *measured("vnswrr", 3, 25, 26),
    *measured("nginx-swrr", 3, 24, 25, 30),
    *measured("direct", 3, None),
    *measured("nginx-swrr", 2000, 80),
    *measured("vnswrr", 2000, 30, 32, 40, non_2xx=1),
    *measured("haproxy-roundrobin", 2000, 28),
]


def test_a_spread_is_the_median_and_the_extremes() -> None:
    figure = spread([3.0, 1.0, 9.0])
    assert (figure.median, figure.lowest, figure.highest) == (3.0, 1.0, 9.0)
    assert spread([1.0, 2.0]).median == 1.5


def test_rows_go_by_servers_and_then_in_the_usual_order() -> None:
    summaries = report.rows(MEASURED)
    assert [(row.level, row.algorithm, len(row.trials)) for row in summaries] == [
        (3, "direct", 1),
        (3, "nginx-swrr", 3),
        (3, "vnswrr", 2),
        (2000, "nginx-swrr", 1),
        (2000, "vnswrr", 3),
        (2000, "haproxy-roundrobin", 1),
    ]


def test_the_ratio_is_of_medians_at_as_many_servers() -> None:
    ratios = [row.metrics.get(report.RATIO) for row in report.rows(MEASURED)]
    assert [ratio and round(ratio.median, 3) for ratio in ratios] == [None, 1.0, 1.02, 1.0, 0.4, 0.35]


def test_without_the_base_there_are_no_ratios() -> None:
    assert [row.metrics.get(report.RATIO) for row in report.rows(measured("vnswrr", 3, 25))] == [None]


def test_failures_of_all_rounds_are_added_up() -> None:
    row = report.find(report.rows(MEASURED), "vnswrr", 2000)
    assert row is not None
    assert row.failures == 3
    assert report.find(report.rows(MEASURED), "vnswrr", 100) is None


def test_targets_are_judged_on_what_was_measured_and_only_on_that() -> None:
    judged = report.targets(report.rows(MEASURED))
    costs = markdown(judged).splitlines()[2:]
    assert costs == [
        "| CPU at 2000 servers / nginx SWRR | vnswrr | 0.40 | 0.40 | met |",
        "| CPU at 2000 servers / HAProxy roundrobin | vnswrr | 1.14 | 1.15 | met |",
        "| CPU at 3 servers / nginx SWRR | vnswrr | 1.02 | 1.15 | met |",
        "| CPU at 2000 servers / its own at 3 | vnswrr | 1.25 | 1.25 | missed by 0 % |",
    ]
    assert not report.targets(report.rows(MEASURED[:2])).lines


def test_the_overview_has_a_column_a_number_of_servers() -> None:
    assert markdown(report.overview(report.rows(MEASURED))).splitlines() == [
        "| CPU µs per request (× nginx SWRR) | 3 servers | 2,000 servers |",
        "| --- | ---: | ---: |",
        "| nginx SWRR | 25.0 (1.00) | 80.0 (1.00) |",
        "| Steelyard vnswrr | 25.5 (1.02) | 32.0 (0.40) |",
        "| HAProxy roundrobin | – | 28.0 (0.35) |",
    ]


def test_the_details_have_all_that_was_measured() -> None:
    def details(peers: int) -> list[str]:
        own = [row for row in report.rows(MEASURED) if row.level == peers]
        return markdown(table_of(own, report.DETAILS)).splitlines()

    lines = details(2000)
    assert lines[3] == (
        "| Steelyard vnswrr | 32.0 | 30.0..40.0 | 0.40 | 10,000 | 1.25 | 2.50 | 16 | 32 % | 3 | 3 |"
    )
    assert details(3)[2] == "| no proxy | – | – | – | 10,000 | 1.25 | 2.50 | – | – | 0 | 1 |"


def test_the_report_names_what_is_missing_and_has_a_section_a_number_of_servers() -> None:
    text = report.page(
        report.rows(MEASURED),
        conditions={"Machine": "2 cores"},
        missing={"Envoy round_robin": "not installed"},
        plot="plots/dataplane.png",
    )
    assert text.startswith(
        "- Machine: 2 cores\n\nNot measured:\n\n- Envoy round_robin: not installed\n\n| CPU"
    )
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "### Targets",
        "### 3 servers",
        "### 2,000 servers",
    ]
    assert "(plots/dataplane.png)" in text


def test_a_report_of_nothing_is_its_conditions() -> None:
    text = report.page([], conditions={"Machine": "2 cores"}, missing={}, plot=None)
    assert text == "- Machine: 2 cores\n"


def test_the_csv_has_every_round_and_nothing_for_the_unknown() -> None:
    lines = list(csv.DictReader(StringIO(results_csv(figures(entry, ()) for entry in MEASURED))))
    assert len(lines) == len(MEASURED)
    assert [row["balancer_cpu_us_per_request"] for row in lines[:2]] == ["25", "26"]
    assert [row["balancer_cpu_us_per_request"] for row in lines if row["algorithm"] == "direct"] == [""]


def test_a_report_replaces_only_what_is_between_the_marks() -> None:
    begin, end = "<!-- measured: begin -->", "<!-- measured: end -->"
    page = filled(f"# Head\n{begin}\nold\n{end}\ntail\n", "measured", "new\n")
    assert page == f"# Head\n{begin}\n\nnew\n\n{end}\ntail\n"
    assert filled(page, "measured", "new\n") == page
    with pytest.raises(ValueError, match="measured: begin"):
        filled("# Head\n", "measured", "new\n")


def test_the_documentation_s_page_has_the_marks() -> None:
    page = Path(__file__).parents[2] / "docs" / "research" / "benchmarks-dataplane.md"
    assert "report" in filled(page.read_text(encoding="utf-8"), "measured", "report\n")


@pytest.mark.parametrize("entries", [MEASURED, MEASURED[:1]], ids=["all", "interrupted before the base"])
def test_the_plot_is_a_png(tmp_path: Path, entries: list[Measured]) -> None:
    file = tmp_path / "dataplane.png"
    plot(file, report.rows(entries))
    assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_lines_of_one_program_share_a_colour_and_no_two_lines_are_alike() -> None:
    assert LOOKS["vnswrr"].color == LOOKS["vnswrr2"].color != LOOKS["nginx-swrr"].color
    assert len({(look.color, look.dash, look.marker) for look in LOOKS.values()}) == len(LOOKS)
