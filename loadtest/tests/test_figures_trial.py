"""A trial's figures: latencies, balance, columns and definitions."""

import csv
from dataclasses import replace
from io import StringIO

import pytest
from steelyard_loadtest.figures import trial_figures
from steelyard_loadtest.figures.columns import COLUMNS, DEFINITIONS, results_csv, servers_csv
from steelyard_loadtest.figures.motion import Stretch, stretches, takes_part
from steelyard_loadtest.figures.trial_figures import figures, slowest_phase
from steelyard_loadtest.measurements.trials import Measured, Observed, Outcome, Trial, quantiles
from steelyard_loadtest.scenario.definition import Event


def test_the_slowest_phase_is_measured_by_the_first() -> None:
    assert slowest_phase([20.0, 50.0, 10.0]) == 2.5
    assert slowest_phase([20.0, None]) is None
    assert slowest_phase([]) is None


LEAVE = Event(at_s=2, do="leave", server="b")
JOIN = Event(at_s=4, do="join", server="b")
BURN = Event(at_s=3, do="burn", server="a", for_s=5)


def seen(t_s: float, server: str, served: int, used: float = 0.5, interval_s: float = 1.0) -> Observed:
    return Observed(
        t_s=t_s, interval_s=interval_s, server=server, served=served, share=None, cpu_utilization=used
    )


def measured(
    *,
    latencies_ms: tuple[float, ...] = (),
    failures: int = 0,
    observed: tuple[Observed, ...] = (),
    concurrency: float = 0.0,
    balancer_cpu_s: float | None = None,
) -> Measured:
    """A trial of ten seconds."""
    ordered = sorted(latencies_ms)
    outcome = Outcome(
        seconds=10.0,
        requests=len(ordered) + failures,
        failures=failures,
        kinds={"502": failures} if failures else {},
        mean_ms=sum(ordered) / len(ordered) if ordered else None,
        min_ms=ordered[0] if ordered else None,
        max_ms=ordered[-1] if ordered else None,
        quantiles=quantiles(ordered),
        concurrency=concurrency,
        generator_cpu_utilization=0.25,
    )
    return Measured(
        trial=Trial(scenario="s", algorithm="nginx-rr", level=0.5, repeat=1),
        generator="open",
        outcome=outcome,
        observed=observed,
        balancer_cpu_s=balancer_cpu_s,
    )


def test_jains_index_is_one_for_equals_and_one_over_n_for_one_that_does_all() -> None:
    assert trial_figures.jain([0.3, 0.3, 0.3]) == pytest.approx(1)
    assert trial_figures.jain([0.9, 0, 0]) == pytest.approx(1 / 3)
    assert trial_figures.jain([1, 2]) == pytest.approx(0.9)
    assert trial_figures.jain([0, 0]) is None
    assert trial_figures.jain([]) is None


def test_a_server_takes_part_until_it_leaves_and_again_when_it_joined() -> None:
    assert [takes_part([LEAVE, JOIN], "b", at_s) for at_s in (1, 3, 5)] == [True, False, True]
    assert [takes_part([JOIN], "b", at_s) for at_s in (1, 5)] == [False, True]
    assert takes_part([LEAVE, BURN], "a", 9)


def test_utilization_is_weighted_by_time_and_leaves_out_the_time_away() -> None:
    entries = [seen(1, "b", 5, 0.4), seen(2, "b", 5, 0.4), seen(3, "b", 0, 0.0), seen(6, "b", 5, 0.8, 2.0)]
    assert trial_figures.utilizations(entries, [LEAVE, JOIN]) == {
        "b": pytest.approx((0.4 + 0.4 + 0.8 * 2) / 4)
    }


def test_a_trial_is_cut_where_something_changes_also_where_a_burn_ends() -> None:
    assert stretches([BURN], 10) == [
        Stretch(began_s=0, ended_s=3),
        Stretch(began_s=3, ended_s=8),
        Stretch(began_s=8, ended_s=10),
    ]
    assert stretches([LEAVE], 1.5) == [Stretch(began_s=0, ended_s=1.5)]
    assert stretches([], 0) == []


def test_the_figures_of_a_trial() -> None:
    entries = tuple(seen(t_s, name, count) for t_s in (1.0, 2.0) for name, count in (("a", 30), ("b", 10)))
    late = seen(10.9, "a", 1000)  # when the load had gone
    result = figures(
        measured(
            latencies_ms=tuple(float(ms) for ms in range(1, 201)),
            failures=50,
            observed=(*entries, late),
            balancer_cpu_s=0.5,
        ),
        [],
    )
    wanted = {
        **{"requests_per_s": 25, "succeeded_per_s": 20, "failures_per_s": 5, "failures_part": 0.2},
        **{"p50_ms": 100, "p99_ms": 198, "p999_ms": None},
        "concurrency": pytest.approx(20 * 0.1005),  # Little's law
        "balancer_cpu_us_per_request": pytest.approx(2000),
        "balancer_cpu_cores": pytest.approx(0.05),
        "generator_cpu_utilization": 0.25,
    }
    assert {name: result.metrics[name] for name in wanted} == wanted
    assert result.shares == {"a": 0.75, "b": 0.25}


def test_the_generators_concurrency_outranks_littles_law() -> None:
    assert figures(measured(latencies_ms=(1.0, 2.0), concurrency=7.0), []).metrics["concurrency"] == 7.0


def test_a_trial_in_which_nothing_happened_has_no_figures_and_no_exception() -> None:
    metrics = figures(measured(), [LEAVE]).metrics
    assert (metrics["requests"], metrics["failures_part"]) == (0, 0.0)
    for unknown in ("p50_ms", "settle_s", "jain_utilization", "balancer_cpu_us_per_request"):
        assert metrics[unknown] is None


def test_a_row_has_every_column_in_order_and_an_empty_trial_for_what_is_not_known() -> None:
    text = results_csv([figures(measured(latencies_ms=(1.5,), failures=2), [])])
    assert text.partition("\n")[0].split(",") == list(COLUMNS)
    (line,) = csv.DictReader(StringIO(text))
    assert line["scenario"] == "s"
    assert line["level"] == "0.5"
    assert line["mean_ms"] == "1.5"
    assert line["p99_ms"] == ""
    assert line["failure_kinds"] == "502=2"


def test_each_phase_has_its_p99_where_it_has_a_hundred_requests() -> None:
    long, short = (measured(latencies_ms=(ms,) * count).outcome for ms, count in ((5.0, 200), (9.0, 50)))
    trial = measured(latencies_ms=(5.0,))
    result = figures(replace(trial, outcome=replace(trial.outcome, phases=(long, short))), [])
    assert result.phases_p99_ms == {"0-10": 5.0, "10-20": None}
    (line,) = csv.DictReader(StringIO(results_csv([result])))
    assert line["phases_p99_ms"] == "0-10=5"


def test_a_line_of_the_servers_file() -> None:
    (line,) = csv.DictReader(StringIO(servers_csv([measured(observed=(seen(1.0004, "a", 3),))])))
    assert line["t_s"] == "1.000"
    assert line["share"] == ""
    assert line["served"] == "3"


def test_every_column_but_the_trials_name_is_defined_and_every_metric_is_a_column() -> None:
    assert list(DEFINITIONS) == [
        name for name in COLUMNS if name not in ("scenario", "algorithm", "repeat", "generator")
    ]
    metrics = tuple(figures(measured(), []).metrics)
    at = COLUMNS.index(metrics[0])
    assert COLUMNS[at:] == (*metrics, "shares", "utilizations", "phases_p99_ms", "failure_kinds")
