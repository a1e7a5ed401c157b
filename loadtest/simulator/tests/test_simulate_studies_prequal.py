"""Prequal's figures 6 and 7: ours beside Prequal where neighbours come and go; the page of made-up runs."""

from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest
from steelyard_simulator.model import OpenClients
from steelyard_simulator.run import run
from steelyard_simulator.simulated_server import factor_at
from steelyard_simulator.studies.measures import Runs
from steelyard_simulator.studies.prequal_study import (
    END_S,
    RULES,
    SERVERS,
    TIMEOUT_MS,
    PrequalTrial,
    figures_of,
    page,
    trials,
)

QUICK = Namespace(quick=True)


def p99_ms(rule: str, exchange_s: float = 0.009) -> float:
    """Return the P99 at 90 % of the load, over five seconds: a change of each server's neighbours."""
    case = PrequalTrial(rule=rule, load=90).case()
    assert isinstance(case.clients, OpenClients)
    # Requests in flight at the end count as timed out, more than one in a hundred. A second later none is.
    clients = replace(case.clients, changes=((8.0, 0.0),))
    case = replace(case, clients=clients, exchange_s=exchange_s, warmup_s=3.0, duration_s=9.0)
    return figures_of(case, run(case, 1))["p99_ms"]


def test_load_balancers_that_share_what_is_in_flight_are_ahead_of_prequal() -> None:
    shared = p99_ms("Steelyard")
    assert shared < p99_ms("Prequal")
    assert shared < 0.6 * p99_ms("Steelyard", exchange_s=0.0)  # each sees only its own requests


def test_every_rule_meets_the_same_neighbours_who_leave_some_150_percent_together() -> None:
    assert len({PrequalTrial(rule=rule, load=70).case().servers for rule in RULES}) == 1
    servers = PrequalTrial(rule="WRR", load=70).case().servers
    factors = [factor_at(server.steps, at_s) for server in servers for at_s in np.arange(0.0, END_S)]
    assert np.mean(factors) == pytest.approx(1.5, abs=0.05)
    assert np.mean([factor <= 1 for factor in factors]) == pytest.approx(0.4, abs=0.05)
    assert len(servers) == SERVERS


def test_what_is_answered_late_or_never_has_waited_for_the_time_out() -> None:
    case = PrequalTrial(rule="Random", load=70).case()
    case = replace(case, servers=case.servers[:1], balancers=1, duration_s=2.0, warmup_s=0.0)
    result = run(case, 1)
    assert result.in_flight > 0
    assert figures_of(case, result)["p999_ms"] == TIMEOUT_MS


def made_up(p99_ms: dict[str, float]) -> Runs:
    """Return runs of one seed whose P99 is the same at every load."""
    return {
        trial: [
            {"p50_ms": 50.0, "p90_ms": 150.0, "p99_ms": p99_ms.get(trial.rule, 700.0), "p999_ms": TIMEOUT_MS}
        ]
        for trial in trials(QUICK)
    }


def test_the_page_has_our_figures_beside_the_published_and_a_verdict_on_each_claim() -> None:
    text = page(QUICK, made_up({"Prequal": 200.0, "C3": 210.0, "WRR": 1500.0}), "the command").text({})
    assert "| Prequal | 150 / 200 (149 / 281) | 150 / 200 (152 / 286) |" in text
    assert "| WRR | 150 / 1,500 (173 / 314) | 150 / 1,500 (1,667 / TO) |" in text
    assert "| Steelyard | 150 / 700 | 150 / 700 |" in text
    assert "| 70 %, 10 cores | 50 / 150 / 1,500 / TO | 50 / 150 / 200 / TO | 50 / 150 / 700 / TO |" in text
    assert "| Prequal has the least P99. (7) | reproduced |" in text
    assert "| C3 with Prequal's probes is nearly as good. (7) | reproduced |" in text
    assert "| WRR is nearly as good at 70 %. (7) | not reproduced |" in text
    assert "| Prequal tolerates much more load. (6) | not reproduced |" in text
    assert "| *P99: Steelyard / Prequal at 70 %* | – |  | 3.50 |" in text
    assert "needs" not in text


def test_the_long_form_has_all_loads_of_figure_6() -> None:
    assert {trial.load for trial in trials(Namespace(quick=False))} > {trial.load for trial in trials(QUICK)}
