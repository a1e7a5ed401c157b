"""From measurements to the page's part on the findings."""

import csv
from collections.abc import Sequence
from io import StringIO

from steelyard_loadtest.compare.findings.evidence import DATAPLANE, gather
from steelyard_loadtest.compare.findings.verdicts import NOT_EXPLAINED, SOURCES, section
from steelyard_loadtest.figures.trial_figures import Summary, figures, summarize
from steelyard_loadtest.measurements.trials import Measured, Observed, Outcome, Quantile, Trial

DATAPLANE_CSV = """\
repeat,level,algorithm,requests_per_s,p50_ms,p99_ms,balancer_cpu_us_per_request
1,2000,direct,55000,0.8,1.0,
1,2000,nginx-swrr,12000,5.0,7.0,80
2,2000,nginx-swrr,13000,5.5,7.5,90
3,2000,nginx-swrr,99000,5.1,7.1,85
1,2000,vnswrr,30000,2.0,5.0,32
"""


def measured(
    algorithm: str, *, scenario: str, level: float, rate: float, repeat: int = 1, servers: Sequence[int] = ()
) -> Measured:
    seconds = 10.0
    return Measured(
        trial=Trial(scenario=scenario, algorithm=algorithm, level=level, repeat=repeat),
        generator="locust",
        outcome=Outcome(
            seconds=seconds,
            requests=int(rate * seconds),
            failures=0,
            kinds={},
            mean_ms=20.0,
            min_ms=1.0,
            max_ms=90.0,
            quantiles=(Quantile(part=0.5, ms=10.0), Quantile(part=0.99, ms=50.0)),
            concurrency=level,
        ),
        observed=tuple(
            Observed(
                t_s=1.0,
                interval_s=1.0,
                server=f"server-{number}",
                served=served,
                share=served / sum(servers),
                cpu_utilization=0.5,
            )
            for number, served in enumerate(servers, 1)
        ),
        balancer_cpu_s=None,
    )


def summaries(*entries: Measured) -> list[Summary]:
    return summarize(figures(entry, ()) for entry in entries)


def rates(rr: float, lc: float) -> list[Summary]:
    return summaries(
        measured("nginx-rr", scenario="report", level=250, rate=rr),
        measured("nginx-least_conn", scenario="report", level=250, rate=lc),
    )


def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(DATAPLANE_CSV)))


def test_figures_are_the_means_of_the_repeats_and_what_follows_from_them() -> None:
    servers = (*(10,) * 9, 1)
    world = gather(
        summaries(
            measured("nginx-rr", scenario="slow-one", level=100, rate=100, servers=servers),
            measured("nginx-rr", scenario="slow-one", level=100, rate=200, repeat=2, servers=servers),
        ),
        None,
    )
    figures = world["slow-one", "nginx-rr", 100.0]
    assert figures["requests_per_s"] == 150.0
    assert figures["p99_over_p50"] == 5.0
    assert figures["largest_share"] == 10 / 91
    assert figures["slow_share"] == 1 / 91


def test_the_data_plane_gives_medians_of_its_rounds() -> None:
    world = gather([], rows())
    assert world[DATAPLANE, "nginx-swrr", 2000.0] == {
        "requests_per_s": 13000.0, "p50_ms": 5.1, "p99_ms": 7.1, "balancer_cpu_us_per_request": 85.0,
    }  # fmt: skip
    assert "balancer_cpu_us_per_request" not in world[DATAPLANE, "direct", 2000.0]


def test_the_page_has_a_line_for_every_finding_and_a_verdict_for_what_was_measured() -> None:
    page = section(SOURCES, rates(90, 200), rows())
    assert (
        "| 1.1 | Round robin is limited by the weak server. (§4.1, tables 1, 11, 15) | **reproduced** |"
        in page
    )
    assert "| requests/s: RR / LC at 250 users | 0.46 | ≤ 0.68 | ✓ 0.45 |" in page
    assert "not measured yet: needs `nginx-rr`, `nginx-least_conn` at 100 users in `report`" in page
    assert "| requests/s: VNSWRR / SWRR at 2000 servers | 1.60 | ≥ 1.26 | ✓ 2.31 |" in page
    assert page.count("**not measured yet**") > 40
    assert "- 1.1: " not in page


def test_what_did_not_reproduce_asks_for_its_reason() -> None:
    page = section(SOURCES, rates(200, 200), None)
    assert "| **not reproduced** |" in page
    assert f"Reasons for findings that did not reproduce:\n\n- 1.1: {NOT_EXPLAINED}\n" in page


def test_every_line_of_a_table_has_as_many_fields() -> None:
    page = section(SOURCES, rates(90, 200), rows())
    for block in page.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1


def test_ours_stand_beside_only_where_they_were_measured() -> None:
    ours = summaries(measured("steelyard-steelyard-vnswrr2", scenario="report", level=250, rate=210))
    text = section(SOURCES[:1], [*rates(90, 200), *ours], None)
    assert "| *requests/s: Steelyard / LC at 250 users* | – |  | 1.05 |" in text
    assert "*median latency: Steelyard / WRR-srv1" not in text


def test_nothing_measured_is_a_page_too() -> None:
    page = section(SOURCES, [], None)
    assert page.startswith("## Findings of the five sources\n")
    assert "| **all** | 59 | 0 | 0 | 0 | 53 | 6 |" in page
