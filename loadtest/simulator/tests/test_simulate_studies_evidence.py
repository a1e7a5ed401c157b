"""The evidence study: its clusters, a run's figures, the report on made-up figures, the command."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from steelyard_simulator.command import add_parser
from steelyard_simulator.model import Balancing, Case, OpenClients, RunResult, Server, Step, Ticks
from steelyard_simulator.simulated_server import able_at, speed_edges
from steelyard_simulator.studies.evidence_clusters import (
    ALGORITHMS,
    BEHIND_16,
    BEHIND_16_FASTER,
    CSWRR,
    DEFAULT,
    DRAIN_S,
    NGINX_LEAST_CONN,
    OUR_LEAST_CONN_EQUAL,
    OURS,
    REFERENCE,
    TRUE_WEIGHTS_ALONE,
    WEIGHTS_ALONE,
    EvidenceTrial,
    clusters,
)
from steelyard_simulator.studies.evidence_page import (
    Evidence,
    figures_of,
    page,
    whole_at,
)
from steelyard_simulator.studies.evidence_plot import draw
from steelyard_simulator.studies.measures import Figures, Runs, capacities, runs_csv

CLUSTERS = list(clusters().values())


def command(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = parser.parse_args(["simulate", "evidence", *arguments])
    status: int = options.run(options)
    return status


def test_there_are_enough_clusters_and_no_two_are_alike() -> None:
    assert len(CLUSTERS) >= 24
    assert len({cluster.what for cluster in CLUSTERS}) == len(CLUSTERS)
    cases = [cluster.case for cluster in CLUSTERS]
    assert all(case not in cases[:place] for place, case in enumerate(cases))


def test_the_clusters_stand_for_what_befalls_real_ones() -> None:
    cases = [cluster.case for cluster in CLUSTERS]
    servers = [server for case in cases for server in case.servers]
    sizes = [len(case.servers) for case in cases]
    assert (min(sizes), max(sizes)) == (2, 100)
    loads = [cluster.load for cluster in CLUSTERS]
    assert (min(loads), max(loads)) == (0.3, 0.95)
    assert {case.balancers for case in cases} == {1, 8}
    left = {round(1 - taken.share, 2) for server in servers for taken in server.background}
    assert left >= {0.1, 0.3, 0.6, 0.25}
    assert sum(case.warmup_s == 0 for case in cases) >= 2, "cold starts"
    assert any(server.away and server.away[0][0] == 0 for server in servers), "joins"
    assert any(server.away and server.away[0][0] > 0 for server in servers), "restarts"
    assert {fault.part for server in servers for fault in server.failing} >= {1.0}
    assert any(server.latency.mean_s > 0 for server in servers)
    assert any(case.work.io.mean_s > 0 for case in cases)
    assert any(case.work.cpu.shape == "lognormal" for case in cases), "long requests among short ones"
    assert any(isinstance(case.clients, OpenClients) and len(case.clients.changes) > 2 for case in cases)
    stalls = [
        after.at_s - before.at_s
        for server in servers
        for before, after in pairwise(server.steps)
        if before.factor <= 0.001
    ]
    assert stalls
    assert all(stall == pytest.approx(1.0) for stall in stalls)


@pytest.mark.parametrize("period_s", [10, 30, 120])
def test_drifting_sizes_come_back_after_their_period_each_at_a_phase_of_its_own(period_s: int) -> None:
    case = clusters()[f"drift-{period_s}"].case
    factors = {
        tuple(round(able_at(server, case.work, at_s) / server.cores, 6) for at_s in (0.0, float(period_s)))
        for server in case.servers
    }
    assert all(first == again for first, again in factors)
    assert len(factors) == len(case.servers)


@pytest.mark.parametrize("name", clusters())
def test_load_is_of_the_least_that_the_servers_can_do(name: str) -> None:
    cluster = clusters()[name]
    case, clients = cluster.case, cluster.case.clients
    assert isinstance(clients, OpenClients)
    end_s = clients.changes[-1][0]
    assert end_s <= case.duration_s - DRAIN_S
    edges = {edge for server in case.servers for edge in speed_edges(server) if edge < end_s}
    least = min(capacities(case, np.array(sorted(edges))).sum(axis=1))
    at_first, *then = (clients.rate_per_s, *(rate for _, rate in clients.changes))
    if case.warmup_s > 0:
        assert at_first == pytest.approx(cluster.load * least / 3)
        assert clients.changes[0][0] < case.warmup_s
        at_first = then[0]
    assert at_first == pytest.approx(cluster.load * least)
    # Then nothing comes, and what is in flight can end.
    assert clients.changes[-1] == (end_s, 0.0)


def test_every_cluster_stands_behind_4_and_16_load_balancers_that_share_too() -> None:
    shared, more = (
        EvidenceTrial(cluster="two", algorithm=name).case() for name in (BEHIND_16, BEHIND_16_FASTER)
    )
    assert (shared.balancers, shared.exchange_s, more.exchange_s) == (16, 0.007, 0.004)
    alone = EvidenceTrial(cluster="two", algorithm=DEFAULT).case()
    assert replace(shared, balancers=1, exchange_s=0.0) == alone


def result(shares: Sequence[float], *, latency_ms: Sequence[float] = (1.0,), in_flight: int = 0) -> RunResult:
    """Return a run of two servers, the first with these shares at ticks of a second."""
    ticks = len(shares)
    return RunResult(
        sent_s=np.arange(float(len(latency_ms))), latency_ms=np.array(latency_ms),
        arrived=len(latency_ms) + in_flight, served=len(latency_ms), failed=0, in_flight=in_flight,
        requests_per_server=np.zeros(2, dtype=np.int64), events=0, cpu_s=0.0,
        ticks=Ticks(
            t_s=np.arange(1.0, ticks + 1), weights=np.array([[share, 1 - share] for share in shares]),
            picks=np.zeros((ticks, 2), dtype=np.int64), utilization=np.zeros((ticks, 2)),
        ),
    )  # fmt: skip


MENDED = replace(
    clusters()["two"].case,
    servers=(Server(steps=(Step(at_s=2.0, factor=0.5), Step(at_s=4.5, factor=1.0))), Server()),
    balancing=Balancing(),
)


@pytest.mark.parametrize(
    ("after", "found_s"),
    [
        ([0.5, 0.5, 0.5, 0.5], 0.5),
        ([0.2, 0.4, 0.4, 0.4], 1.5),
        # Up for a moment is not back.
        ([0.5, 0.2, 0.2, 0.4, 0.4, 0.4], 3.5),
        ([0.2] * 5, math.inf),
    ],
)
def test_a_server_is_back_when_it_stays_at_most_of_its_fair_share(after: list[float], found_s: float) -> None:
    assert whole_at(MENDED.servers[0], MENDED.work) == 4.5
    assert whole_at(MENDED.servers[1], MENDED.work) is None
    assert whole_at(replace(MENDED.servers[0], away=((1.0, 4.5),)), MENDED.work) is None
    assert figures_of(MENDED, result([0.5, 0.5, 0.3, 0.3, *after]))["whole_after_s"] == found_s


def test_nobody_recovers_where_no_law_runs() -> None:
    blind = replace(MENDED, balancing=ALGORITHMS[NGINX_LEAST_CONN])
    assert math.isnan(figures_of(blind, result([0.5] * 9))["whole_after_s"])


def test_what_is_never_answered_counts_as_ten_seconds() -> None:
    figures = figures_of(MENDED, result([0.5] * 9, latency_ms=[1.0] * 96, in_flight=4))
    assert (figures["p99_ms"], figures["unanswered"]) == (10_000.0, 0.04)


def made_up(p99_ms: dict[str, float], *, whole_s: float = 2.0, failed: float = 0.0) -> Runs:
    """Return runs of three clusters with two seeds; the second's p99 is the double of the first's."""

    def figures(algorithm: str, times: float) -> Figures:
        return {
            "p99_ms": times * p99_ms.get(algorithm, 20.0), "failed": failed, "unanswered": 0.0,
            "whole_after_s": whole_s,
        }  # fmt: skip

    return {
        EvidenceTrial(cluster=cluster, algorithm=algorithm): [
            figures(algorithm, times) for times in (1.0, 2.0)
        ]
        for cluster in ("two", "neighbour-rest-needed", "drift-30")
        for algorithm in ALGORITHMS
    }


def test_the_report_tells_ratios_and_which_targets_are_met() -> None:
    ours = {DEFAULT: 8.0, WEIGHTS_ALONE: 50.0, TRUE_WEIGHTS_ALONE: 13.0, BEHIND_16: 11.5}
    text = page(
        Evidence(runs=made_up({REFERENCE: 10.0, **ours})),
        "the command",
        {"evidence": "a.png"},
    )
    assert "`the command`, 2 seeds each" in text
    # The mean of the seeds' ratios, not the ratio of the means; 14.1 is the geometric mean of 10 and 20.
    assert f"| two | 14 |{' 2.00 |' * 12} 5.00 | 0.80 |" in text
    assert f"| ours at its best ({DEFAULT}): geometric mean | 0.9 | 0.80 | met |" in text
    assert f"| weights alone ({WEIGHTS_ALONE}): worst | 2 | 5.00 | not met |" in text
    assert f"({DEFAULT}): worst | 5 | 2.00 | met |" in text
    assert f"| neighbour-rest-needed: {DEFAULT} over {OUR_LEAST_CONN_EQUAL} | 1 | 0.40 | met |" in text
    assert f"| drift-30: {WEIGHTS_ALONE} over {CSWRR} | 1 | 2.50 | not met |" in text
    assert f"| {BEHIND_16}, over behind one: worst | 1.45 | 1.44 | met |" in text
    assert f"| {BEHIND_16_FASTER}, over behind one: geometric mean | 1.15 | 2.50 | not met |" in text
    assert "](a.png)" in text
    assert clusters()["two"].what in text


def test_the_means_of_old_are_of_the_first_clusters() -> None:
    assert [cluster.later for cluster in CLUSTERS] == [False] * 32 + [True] * 9
    runs = dict(made_up({REFERENCE: 10.0, DEFAULT: 9.0}))
    runs |= {
        replace(trial, cluster="night"): [{**each, "p99_ms": 3 * each["p99_ms"]} for each in own]
        for trial, own in made_up({REFERENCE: 10.0, DEFAULT: 11.0}).items()
        if trial.cluster == "two"
    }
    evidence = Evidence(runs=runs)
    assert evidence.summary(DEFAULT) == pytest.approx((0.9, 0.9))
    assert evidence.summary(DEFAULT, later=True) == pytest.approx((1.1, 1.1))
    assert "| geometric mean of those declared later |" in page(evidence, "c", {})


def test_the_report_tells_failures_and_recoveries_that_never_came() -> None:
    text = page(Evidence(runs=made_up({REFERENCE: 10.0}, whole_s=math.inf, failed=0.03)), "c", {})
    assert "| two | 3.0 % |" in text
    assert "never (never)" in text
    assert f"({DEFAULT}): worst | 5 | never | not met |" in text


def test_every_run_is_a_line_of_the_csv() -> None:
    lines = runs_csv(made_up({REFERENCE: 10.0}), 5).splitlines()
    assert lines[0] == "cluster,algorithm,seed,p99_ms,failed,unanswered,whole_after_s"
    assert lines[2] == f'two,"{REFERENCE}",6,20,0,0,2'
    assert len(lines) == 1 + 3 * 2 * len(ALGORITHMS)


def test_ratios_are_drawn(tmp_path: Path) -> None:
    draw(tmp_path / "ratios.png", Evidence(runs=made_up({REFERENCE: 10.0, DEFAULT: 9.0})))
    assert matplotlib.image.imread(tmp_path / "ratios.png").std() > 0.01


def test_a_small_cluster_from_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A restart and twelve seconds in all, instead of 70, for each of the algorithms.
    whole = EvidenceTrial.case

    def short(trial: EvidenceTrial) -> Case:
        case = whole(trial)
        servers = tuple(
            replace(each, away=((4.0, 6.0),), steps=()) if each.away else each for each in case.servers
        )
        return replace(case, servers=servers, duration_s=12.0, warmup_s=3.0)

    monkeypatch.setattr(EvidenceTrial, "case", short)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- simulate evidence: begin -->\n<!-- simulate evidence: end -->\nafter\n")
    out = tmp_path / "out"
    arguments = ["--quick", "--only", "restart", "--jobs", "1", "--out", str(out), "--page", str(page)]
    assert command(arguments) == 0
    text = page.read_text()
    assert "`steelyard-loadtest simulate evidence --quick --only restart`, 1 seed each" in text
    for name in (*ALGORITHMS, "restart", "plots/evidence.png"):
        assert name in text
    assert (page.parent / "plots" / "evidence.png").exists()
    assert {path.name for path in out.iterdir()} == {"evidence.md", "evidence.csv", "evidence.png"}
    assert len((out / "evidence.csv").read_text().splitlines()) == 1 + len(ALGORITHMS)
    assert "events/s" in capsys.readouterr().err


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, says in (
        (["--help"], "--only CLUSTER,..."),
        (["--only", "best"], "no 'best'; there are two, quiet,"),
    ):
        with pytest.raises(SystemExit):
            command(arguments)
        printed = capsys.readouterr()
        assert says in printed.out.replace("\n", " ") + printed.err
    assert all(name in ALGORITHMS for name in OURS)
