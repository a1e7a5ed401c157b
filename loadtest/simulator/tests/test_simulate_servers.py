"""Servers of the model: speed that changes, queues, stages, neighbours, failures."""

from random import Random

import pytest
from steelyard_simulator.engine import Engine, Rate, sampler
from steelyard_simulator.model import (
    Background,
    Balancing,
    Case,
    Draw,
    Failing,
    Late,
    PeriodicClients,
    Server,
    Step,
    Work,
)
from steelyard_simulator.run import run
from steelyard_simulator.simulated_server import idle_utilization, speed_of


def latencies_ms(server: Server, work: Work, *, clients: int = 1, requests: int = 1, interval_s: float = 1.0,
                 stagger_s: float = 0.0, duration_s: float = 100.0) -> list[float]:  # fmt: skip
    """Return what each request took, in the order of completion."""
    case = Case(
        servers=(server,),
        clients=PeriodicClients(
            clients=clients, interval_s=interval_s, requests=requests, stagger_s=stagger_s
        ),
        work=work,
        duration_s=duration_s,
        balancing=Balancing(law=None, picker="random"),
    )
    return [round(float(each), 6) for each in run(case, 1).latency_ms]


def seconds(mean_s: float) -> Draw:
    return Draw(mean_s=mean_s, shape="constant")


def at(speed: Rate, when_s: float) -> object:
    """The speed at a time, by how soon a little work is done."""
    little = 1e-6
    return pytest.approx(little / (speed.end(when_s, little) - when_s), rel=1e-6)


def test_a_job_s_end_is_integrated_across_changes_of_speed() -> None:
    speed = speed_of(Server(speed=2.0, steps=(Step(at_s=10, factor=0.5), Step(at_s=20, factor=0.25))))
    assert speed.end(0, 4) == 2
    assert speed.end(9, 4) == 12  # 2 until 10, then 2 more at speed 1
    assert speed.end(9, 14) == 24  # 2, 10, then 2 at speed 0.5
    assert [at(speed, when) for when in (0, 10, 19.9, 20)] == [2, 1, 1, 0.5]


def test_a_neighbour_takes_its_share_and_gives_it_back() -> None:
    speed = speed_of(Server(background=(Background(start_s=5, end_s=10, share=0.75),)))
    assert [at(speed, when) for when in (4, 5, 9, 10)] == [1, 0.25, 0.25, 1]
    assert speed.end(4, 2) == pytest.approx(9)  # 1 until 5, then 1 more at a quarter


def test_a_neighbour_that_takes_all_still_lets_work_end() -> None:
    assert speed_of(Server(background=(Background(start_s=0, end_s=9e9, share=1.0),))).end(0, 1) == 1000


def test_an_idle_core_looks_as_busy_as_its_neighbour_is() -> None:
    server = Server(background=(Background(start_s=5, end_s=10, share=0.5, idle_utilization=0.8),))
    assert idle_utilization(server, 0, 10) == pytest.approx(0.4)
    assert idle_utilization(server, 6, 7) == pytest.approx(0.8)
    assert idle_utilization(server, 10, 11) == 0


def test_a_queue_serves_in_order_on_as_many_cores_as_there_are() -> None:
    together = {"clients": 5}
    assert latencies_ms(Server(cores=2), Work(cpu=seconds(1.0)), **together) == [1000, 1000, 2000, 2000, 3000]
    assert latencies_ms(Server(cores=5), Work(cpu=seconds(1.0)), **together) == [1000] * 5


def test_stages_follow_one_another_and_only_cpu_and_io_queue() -> None:
    work = Work(cpu=seconds(0.1), io=seconds(0.2), latency=seconds(1.0))
    # Both channels of I/O are there; the second request waits for the core only.
    assert latencies_ms(Server(io_channels=2), work, clients=2) == [1300, 1400]
    # One channel: the second's turn is after 0.3 s, not 0.2.
    assert latencies_ms(Server(io_channels=1), work, clients=2) == [1300, 1500]
    assert latencies_ms(Server(latency=seconds(0.5)), Work(), clients=3) == [500] * 3


def test_requests_fail_while_the_server_fails_and_are_not_served() -> None:
    case = Case(
        servers=(Server(failing=(Failing(start_s=2.0, end_s=5.0, part=1.0),)),),
        clients=PeriodicClients(clients=1, interval_s=1.0, requests=10),
        work=Work(cpu=seconds(0.1)),
        duration_s=20,
        balancing=Balancing(law=None, picker="random"),
    )
    result = run(case, 1)
    assert (result.arrived, result.served, result.failed) == (10, 7, 3)
    assert len(result.latency_ms) == 7


LATE_TWICE = (Late(start_s=2.0, end_s=5.0, by_s=0.5), Late(start_s=4.5, end_s=6.0, by_s=0.25))


def test_requests_are_answered_late_while_the_server_is_late_and_keep_it_no_busier() -> None:
    case = Case(
        servers=(
            Server(late=(Late(start_s=2.0, end_s=5.0, by_s=0.5), Late(start_s=4.5, end_s=6.0, by_s=0.25))),
        ),
        clients=PeriodicClients(clients=1, interval_s=1.25, requests=6),
        work=Work(cpu=seconds(0.1)),
        duration_s=20,
        balancing=Balancing(law=None, picker="random"),
    )
    result = run(case, 1)
    assert result.sent_s.tolist() == [0, 1.25, 2.5, 3.75, 5.0, 6.25]
    assert [round(latency) for latency in result.latency_ms] == [100, 100, 600, 600, 350, 100]


@pytest.mark.parametrize("draw", [Draw(mean_s=2.0), Draw(mean_s=2.0, shape="lognormal", cv=0.5)])
def test_drawn_durations_have_their_mean_and_spread(draw: Draw) -> None:
    sample = sampler(draw, Random(1))
    drawn = [sample() for _ in range(20_000)]
    mean = sum(drawn) / len(drawn)
    spread = (sum((each - mean) ** 2 for each in drawn) / len(drawn)) ** 0.5
    assert mean == pytest.approx(2.0, rel=0.02)
    assert spread / mean == pytest.approx(draw.cv, rel=0.03)
    assert min(drawn) >= 0


def test_a_duration_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match="mean_s -1"):
        Draw(mean_s=-1.0)


def test_of_two_events_at_one_moment_the_first_asked_for_comes_first() -> None:
    engine, seen = Engine(), []
    for name in "abc":
        engine.at(1.0, lambda now_s, argument: seen.append((now_s, argument)), name)
    engine.at(0.5, lambda now_s, argument: seen.append((now_s, argument)), "z")
    engine.at(2.5, lambda now_s, argument: seen.append((now_s, argument)), "later")
    engine.run(2.0)
    assert seen == [(0.5, "z"), (1.0, "a"), (1.0, "b"), (1.0, "c")]
    assert engine.events == 4
