"""Near servers first: ours, compared with Envoy's two methods."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
from steelyard_simulator.model import Case, OpenClients, Server
from steelyard_simulator.run import run
from steelyard_simulator.studies.zones_study import ALGORITHMS, TRIALS, ZonesTrial, figures_of, page


def crossed(algorithm: str, rate_per_s: float, servers: int) -> float:
    """Return the part that crosses between two zones of four servers and one of `servers`, after a while."""
    case = ZonesTrial(day="half the CPU", algorithm=algorithm).case()
    sizes = ((0, 4), (1, servers), (2, 4))
    servers_of = tuple(Server(cores=2, zone=zone) for zone, count in sizes for _ in range(count))
    clients = OpenClients(rate_per_s=rate_per_s)
    result = run(replace(case, servers=servers_of, clients=clients, duration_s=70.0), 1)
    assert result.failed == 0
    assert result.arrived == result.served + result.in_flight
    return float(result.ticks.crossed[40:].sum() / result.ticks.picks[40:].sum())


def test_within_a_zones_headroom_nothing_crosses() -> None:
    """Two of its servers can do 40 requests/s, and at a load of 0.7 28; 20 come."""
    assert crossed("Steelyard, zones", 60, 2) < 0.01
    assert crossed("Steelyard, no zones", 60, 2) == pytest.approx(0.66, abs=0.03)


def test_what_is_above_a_zones_headroom_crosses_and_no_more() -> None:
    """28 of its 40 requests/s stay: a tenth of all 120 cross."""
    assert crossed("Steelyard, zones", 120, 2) == pytest.approx(0.1, abs=0.03)


def test_envoys_zone_aware_routing_goes_by_the_numbers_of_servers_whatever_there_is_to_do() -> None:
    """A third of the load balancers, a fifth of the servers: two fifths of a third cross."""
    assert crossed("Envoy, zone-aware", 60, 2) == pytest.approx(2 / 15, abs=0.02)
    assert crossed("Envoy, zone-aware", 120, 4) == 0


def test_load_aware_locality_sends_what_it_probes_and_spills_where_a_zone_is_busier_than_the_others() -> None:
    assert crossed("Envoy, load_aware_locality", 60, 4) == pytest.approx(0.03, abs=0.01)
    assert crossed("Envoy, load_aware_locality", 120, 1) > 0.12


def test_load_aware_locality_goes_by_the_utilization_of_the_servers_that_are_there() -> None:
    """Two of four are left, twice as busy as the others. The last values of absent servers do not count."""
    case = ZonesTrial(day="half the servers", algorithm="Envoy, load_aware_locality").case()
    away = tuple(replace(each, away=((20.0, 90.0),) if each.away else ()) for each in case.servers)
    clients = OpenClients(rate_per_s=120)
    result = run(replace(case, servers=away, clients=clients, duration_s=90.0), 1)
    assert result.ticks.crossed[50:].sum() / result.ticks.picks[50:].sum() > 0.12


def test_a_server_that_is_away_is_left_out_by_all() -> None:
    for algorithm in ALGORITHMS:
        case = ZonesTrial(day="half the servers", algorithm=algorithm).case()
        away = tuple(replace(each, away=((0.0, 20.0),) if each.away else ()) for each in case.servers)
        result = run(replace(case, servers=away, duration_s=10.0), 1)
        assert (result.requests_per_server == 0).sum() == 2


def shortened(case: Case) -> Case:
    return replace(case, duration_s=48.0)


def test_the_page_has_what_crosses_and_p99_of_each_day_by_each_algorithm(tmp_path: Path) -> None:
    case = shortened(TRIALS[2].case())
    figures = figures_of(case, run(case, 1))
    assert figures["crossed"] == 0
    assert 0 < figures["p99_ms"] < 5000
    made = page(Namespace(), {trial: [figures] for trial in TRIALS}, "simulate zones")
    text = made.text({"zones": "zones.png"})
    assert text.count("| half the ") == len(TRIALS)
    file = tmp_path / "zones.png"
    made.plots["zones"](file)
    assert file.stat().st_size > 1000
