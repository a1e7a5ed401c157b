"""Servers that an autoscaler starts and stops by headroom, or by mean CPU."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from steelyard_simulator.autoscaler import DOWN_S, LEAST, STARTUP_S
from steelyard_simulator.model import Balancing, Case, Draw, OpenClients, ScaledBy, Server, Work
from steelyard_simulator.run import run
from steelyard_simulator.studies.autoscale_study import TRIALS, figures_of, page

CPU = Work(cpu=Draw(mean_s=0.2))
MORE_S, LESS_S, END_S = 120.0, 300.0, 760.0


def day(by: ScaledBy, work: Work = CPU) -> Case:
    """Return servers of 2, 1, 4 cores and so on, with 10, 25 and again 10 requests/s."""
    return Case(
        servers=tuple(Server(cores=cores, baseline=None) for cores in (2, 1, 4) * 4),
        clients=OpenClients(rate_per_s=10.0, changes=((MORE_S, 25.0), (LESS_S, 10.0))),
        work=work,
        duration_s=END_S,
        # Mean CPU needs no capacities. A step of the default law takes longer than a second's requests.
        balancing=Balancing(law="steelyard" if by == "headroom" else "static"),
        scaled_by=by,
    )


def there(case: Case) -> tuple[Sequence[float], Sequence[int]]:
    result = run(case, 1)
    assert result.failed == 0
    assert result.arrived == result.served + result.in_flight
    return result.ticks.t_s.tolist(), (result.ticks.weights > 0).sum(axis=1).tolist()


@pytest.mark.parametrize("by", ["headroom", "cpu"])
def test_servers_come_a_minute_after_they_are_wanted_and_go_when_they_were_not_for_five(by: ScaledBy) -> None:
    t_s, count = there(day(by))
    came_s = next(at for at, servers in zip(t_s, count, strict=True) if servers > LEAST)
    assert MORE_S + STARTUP_S < came_s < MORE_S + STARTUP_S + 75
    # 25 requests/s keep 5 cores busy: at a load of 0.525 that is 9.5 cores, so five servers. By equal weights
    # the smallest servers have queues to work off, too.
    assert 4 <= max(count) <= (7 if by == "headroom" else 8)
    gone_s = max(at for at, servers in zip(t_s, count, strict=True) if servers > LEAST)
    assert gone_s > LESS_S + DOWN_S
    assert count[-1] == LEAST


def test_by_headroom_servers_are_started_for_the_disk_too() -> None:
    disk = Work(cpu=Draw(mean_s=0.04), io=Draw(mean_s=0.08))
    (_, by_headroom), (_, by_cpu) = (
        there(replace(day(by, disk), duration_s=300.0)) for by in ("headroom", "cpu")
    )
    assert max(by_headroom) > max(by_cpu)


def test_without_an_autoscaler_all_are_there_from_the_start() -> None:
    result = run(replace(day("cpu"), scaled_by=None, duration_s=5.0), 1)
    assert (result.ticks.weights > 0).all()


def test_the_page_has_hours_and_latency_of_each_day_by_each_signal(tmp_path: Path) -> None:
    result = run(replace(TRIALS[0].case(), duration_s=60.0), 1)
    figures = figures_of(TRIALS[0].case(), result)
    assert figures["server_hours"] == pytest.approx(LEAST * 60 / 3600, rel=0.05)
    assert figures["core_hours"] == pytest.approx(7 * 60 / 3600, rel=0.05)
    assert figures["at_0"] == LEAST
    made = page(Namespace(), {trial: [figures] for trial in TRIALS}, "simulate autoscale")
    text = made.text({"autoscale": "autoscale.png"})
    assert [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| cpu")] == [
        "| cpu: by headroom",
        "| cpu: by cpu",
    ]
    file = tmp_path / "autoscale.png"
    made.plots["autoscale"](file)
    assert file.stat().st_size > 1000
    late = replace(result, sent_s=np.array([1.3, 2.5, 1.2]), latency_ms=np.array([2000.0, 5.0, 5.0]))
    assert figures_of(TRIALS[0].case(), late)["over_s"] == 1


def test_what_is_scaled_needs_a_law_and_three_servers() -> None:
    with pytest.raises(ValueError, match="needs a law and at least three servers"):
        replace(day("cpu"), servers=(Server(),))
    with pytest.raises(ValueError, match="needs a law"):
        replace(day("cpu"), balancing=Balancing(law=None))
