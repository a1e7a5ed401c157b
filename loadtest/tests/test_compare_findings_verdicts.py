"""The findings on the sources' own figures, on a world without differences, and on the scenarios' plans."""

from collections.abc import Mapping

import pytest
from steelyard_loadtest.compare.findings.comparisons import compare
from steelyard_loadtest.compare.findings.evidence import DATAPLANE, METRICS
from steelyard_loadtest.compare.findings.verdicts import SOURCES, Source, Verdict, parse, rulings
from steelyard_loadtest.scenario.algorithms import BY_NAME
from steelyard_loadtest.scenario.find import find, find_all

LOCUST_STUDY, ENTROPY_PAPER, NS3, VPROXY, TENGINE = SOURCES

World = dict[tuple[str, str, float], Mapping[str, float]]

LINE = ("requests_per_s", "failures_per_s", "failures_part", "p50_ms", "mean_ms", "min_ms", "max_ms")
HASHES = {"IPH-srv1": "nginx-ip_hash", "IPH-srv2": "nginx-ip_hash-backwards"}


def verdicts(source: Source, world: World) -> dict[str, Verdict]:
    """The verdict by the sentence, without its place in the source."""
    return {ruling.finding.statement.rpartition(" (")[0]: ruling.verdict for ruling in rulings(source, world)}


def locust_world() -> World:
    """The study's tables as if measured here, with statements that it does not print as figures."""
    world: World = {}
    for name, lines in LOCUST_STUDY.terms.published.items():
        ours = HASHES.get(name) or LOCUST_STUDY.terms.algorithms[name]
        for users, line in lines.items():
            figures = {metric: line[metric] for metric in LINE}
            world["report", ours, users] = figures | {"largest_share": 1.0 if name in HASHES else 0.5}
            if name == "RR":
                world["report", "nginx-rr-768", users] = figures
    world["report", "nginx-rr", 500.0] = {**world["report", "nginx-rr", 500.0], "failures_part": 0.0}
    return world


def flat(scenario: str, algorithms: tuple[str, ...], levels: tuple[float, ...]) -> World:
    """Every algorithm does the same at every level, and no figure is 0."""
    figures = dict.fromkeys(METRICS, 1.0)
    return {(scenario, algorithm, level): figures for algorithm in algorithms for level in levels}


def test_the_locust_study_reproduces_on_its_own_tables() -> None:
    by_statement = verdicts(LOCUST_STUDY, locust_world())
    others = {statement: verdict for statement, verdict in by_statement.items() if verdict != "reproduced"}
    assert others == {
        # The study's text against its own tables: round robin's maximum is lower.
        "Least connections keeps the lowest maximum latency at 500 users.": "not reproduced",
        "At 500 users a small part of least connections' requests fails, and nearly all of IP hash's to the "
        "weak server.": "cannot be measured",
        "IP hash to the strong server fails for a larger part of the requests than weight 3 on it.":
            "cannot be measured",
        "At 500 users, algorithms that use both servers have the fewest failures, and IP hash has the most.":
            "cannot be measured",
    }  # fmt: skip


def test_the_locust_study_does_not_reproduce_where_all_methods_do_the_same() -> None:
    scenario = find("report", quick=False)
    by_statement = verdicts(LOCUST_STUDY, flat("report", scenario.algorithms, scenario.load.levels))
    for statement in (
        "Round robin is limited by the weak server.",
        "Weight 3 on the strong server doubles round robin's throughput.",
        "Weight 3 on the weak server is worse than round robin.",
        "Least connections does somewhat more than weight 3 on the strong server.",
        "The maximum latency rises with the number of users.",
        "The minimum latency is below 1 s, except for IP hash to the weak server with 3 s.",
    ):
        assert by_statement[statement] == "not reproduced", statement
    worst = (
        "IP hash to the weak server is the worst of all: less than round robin, the longest mean and median."
    )
    assert by_statement[worst] == "partly"  # with equal figures, every one is the worst
    assert by_statement["Weighted least connections does as well as least connections."] == "reproduced"
    assert by_statement["At 10 users all algorithms are similar."] == "reproduced"


def test_the_limit_of_connections_explains_failures_only_if_nothing_fails_without_it() -> None:
    statement = "The failures at 500 users are immediate (minimum latency 0.84 ms)."
    world = locust_world()
    assert verdicts(LOCUST_STUDY, world)[statement] == "reproduced"
    world["report", "nginx-rr", 500.0] = world["report", "nginx-rr-768", 500.0]
    assert verdicts(LOCUST_STUDY, world)[statement] == "partly"


def test_tables_15_and_16_follow_from_the_others() -> None:
    tables = LOCUST_STUDY.terms.published
    assert tables["LC"][250]["requests_per_s"] == 188.86
    assert tables["RR"][250]["max_ms"] == 38023.90
    assert {len(lines) for lines in tables.values()} == {4}


def paper_world(*, dynlb: float, growth: Mapping[str, float], peak: float) -> World:
    """Curves as the paper draws them: alike below 800 users, apart above; `dynlb`: its factor there."""
    world: World = {}
    for name, factor in (("nginx-wrr", 1.0), ("nginx-fair", 1.01), ("steelyard-paper-vnswrr", dynlb)):
        for level in map(float, range(200, 2001, 200)):
            better = factor if level >= 800 else 1.0
            above = max(0.0, level - 1000) / 1000
            world["paper", name, level] = {
                "requests_per_s": better * (1000 - abs(level - (peak - 200)) / 10),
                "concurrency": better * (1000 - abs(level - peak) / 10),
                "mean_ms": level / 10 * (1 + growth[name] * above) / better,
            }
    return world


def test_the_paper_reproduces_on_curves_as_it_describes_them() -> None:
    growth = {"nginx-wrr": 2.0, "nginx-fair": 0.05, "steelyard-paper-vnswrr": 0.1}
    world = paper_world(dynlb=1.12, growth=growth, peak=1200.0)
    by_statement = verdicts(ENTROPY_PAPER, world)
    assert {statement: verdict for statement, verdict in by_statement.items() if verdict != "reproduced"} == {
        # A throughput a tenth higher at the same number of users is a response time a tenth lower.
        "The response times of fair and dynlb are not much different.": "partly",
    }


def test_the_paper_does_not_reproduce_where_dynlb_is_the_worst_and_nothing_ever_peaks() -> None:
    growth = {"nginx-wrr": 0.1, "nginx-fair": 0.2, "steelyard-paper-vnswrr": 2.0}
    by_statement = verdicts(ENTROPY_PAPER, paper_world(dynlb=0.5, growth=growth, peak=3000.0))
    assert {statement for statement, verdict in by_statement.items() if verdict == "reproduced"} == {
        "Below 800 users the actual concurrency of the three is not much different.",
        "Below 800 users the response times of the three are not obviously different.",
        "The response time of all three rises with the number of users.",
    }
    assert set(by_statement.values()) == {"reproduced", "not reproduced"}


def test_vproxy_reproduces_on_its_own_figures_and_not_where_a_proxy_costs_nothing() -> None:
    world: World = {}
    for name, ours in VPROXY.terms.algorithms.items():
        for connections in (6.0, 10.0, 16.0, 18.0):
            world["proxy-cost", ours, connections] = VPROXY.terms.published.get(name, {}).get(connections, {})
    by_statement = verdicts(VPROXY, world)
    assert {statement for statement, verdict in by_statement.items() if verdict != "reproduced"} == {
        "vproxy is as fast as HAProxy in TCP mode.",
        "vproxy's CPU on a request lies between HAProxy's in TCP mode and in HTTP mode.",
    }
    same = verdicts(
        VPROXY, flat("proxy-cost", tuple(VPROXY.terms.algorithms.values()), (6.0, 10.0, 16.0, 18.0))
    )
    assert (
        same["With 6 connections a proxy costs a third to a half of the rate without one."]
        == "not reproduced"
    )
    assert same["HAProxy does more requests/s in TCP mode than in HTTP mode."] == "not reproduced"
    assert same["With 16 connections a proxy comes near the rate of the server itself."] == "reproduced"


def test_the_parts_of_a_core_become_cpu_per_request() -> None:
    assert VPROXY.terms.published["HAProxy http"][6]["balancer_cpu_us_per_request"] == pytest.approx(
        34.7, abs=0.1
    )
    assert VPROXY.terms.published["HAProxy tcp"][6]["balancer_cpu_us_per_request"] == pytest.approx(
        17.8, abs=0.1
    )


def ns3_world(slow_share: float) -> World:
    world: World = {}
    for name, ours in NS3.terms.algorithms.items():
        line = NS3.terms.published.get(name, NS3.terms.published["PeakEWMA"])[100]
        metrics = ("mean_ms", "p50_ms", "p90_ms", "p99_ms", "p99_over_p50", "max_ms")
        figures = {metric: line[metric] for metric in metrics}
        share = slow_share if name == "PeakEWMA" else 0.1
        world["slow-one", ours, 100.0] = figures | {"slow_share": share}
    return world


def test_ns3_reproduces_on_its_own_figures() -> None:
    by_statement = verdicts(NS3, ns3_world(0.003))
    assert {statement for statement, verdict in by_statement.items() if verdict != "reproduced"} == {
        "Maglev and random are no better than the others either (mean 8.7 and 9.6 ms).",
    }


def test_ns3_does_not_reproduce_where_peak_ewma_is_as_good_as_round_robin() -> None:
    by_statement = verdicts(NS3, flat("slow-one", tuple(NS3.terms.algorithms.values()), (100.0,)))
    for statement, verdict in by_statement.items():
        if "PeakEWMA" in statement and "maximum" not in statement:
            assert verdict == "not reproduced", statement
    avoiding = "PeakEWMA routes traffic away from the slow server."
    assert verdicts(NS3, ns3_world(0.1))[avoiding] == "partly"


def tengine_world(swrr: Mapping[int, float], vnswrr: Mapping[int, float]) -> World:
    """CPU per request in µs by number of servers; 64 connections share one core."""
    return {
        (DATAPLANE, name, float(count)): {
            "requests_per_s": 1e6 / us,
            "p50_ms": 64 * us / 1e3,
            "balancer_cpu_us_per_request": us,
        }
        for name, by in (("nginx-swrr", swrr), ("vnswrr", vnswrr))
        for count, us in by.items()
    }


def test_tengine_reproduces_where_a_pick_costs_by_the_server_and_ours_does_not() -> None:
    steep, even = {3: 20.0, 500: 30.0, 2000: 60.0}, {3: 21.0, 500: 21.1, 2000: 21.2}
    assert set(verdicts(TENGINE, tengine_world(steep, even)).values()) == {"reproduced"}
    assert set(verdicts(TENGINE, tengine_world(even, steep)).values()) == {"not reproduced"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.title)
def test_without_figures_nothing_is_judged_and_everything_says_why(source: Source) -> None:
    for ruling in rulings(source, {}):
        cannot = bool(ruling.finding.cannot)
        assert ruling.verdict == ("cannot be measured" if cannot else "not measured yet")
        assert cannot or not any(one.grade for one in ruling.judged)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (LOCUST_STUDY, "report"),
        (ENTROPY_PAPER, "paper"),
        (NS3, "slow-one"),
        (VPROXY, "proxy-cost"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_full_run_of_the_sources_measures_all_that_the_findings_need(source: Source, name: str) -> None:
    (scenario,) = (one for one in find_all(["sources"], quick=False) if one.name == name)
    world = flat(name, scenario.algorithms, scenario.load.levels)
    for finding in source.findings:
        for line in (*finding.checks, *finding.beside):
            assert [one.here for one in compare(line, source.terms, world) if one.grade is None] == []


def test_every_finding_can_be_judged_or_says_why_not() -> None:
    for source in SOURCES:
        for finding in source.findings:
            assert bool(finding.checks) != bool(finding.cannot), finding.statement


def test_the_sources_names_are_of_algorithms_that_there_are() -> None:
    for source in (ENTROPY_PAPER, NS3, VPROXY):
        assert set(source.terms.algorithms.values()) <= BY_NAME.keys()


def test_a_source_that_is_not_as_it_must_be_is_refused() -> None:
    head = 'title = ""\nwhat = ""\nmirrored = ""\nscenario = "report"\nunit = "users"\n'
    finding = '[algorithms]\nRR = "nginx-rr"\nLC = "nginx-least_conn"\n[findings."It is so. (table 1)"]\n'
    assert parse(head + finding).findings[0].statement == "It is so. (table 1)"
    for mistake, why in (
        ('checks = ["p50_ms as good: RR at 10"]', "`p50_ms as good: RR at 10`: 'as good'"),
        ('beside = ["p50_ms alike: RR, WRR at 10"]', "'WRR'"),
        ('checks = ["p50_ms: RR / LC at 10"]', "no published figure to judge it by"),
    ):
        with pytest.raises(ValueError, match=why):
            parse(head + finding + mistake)
    with pytest.raises(TypeError, match="becuase"):
        parse(head + finding + 'becuase = "it is"')
    with pytest.raises(KeyError, match="swings"):
        parse(head + finding + 'why = "{swings}"')
    with pytest.raises(ValueError, match="argument 2"):
        parse(f'columns = ["p50_ms"]\n{head}published.RR.10 = [1, 2]\n{finding}')
