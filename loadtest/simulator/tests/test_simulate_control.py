"""The control loop in the model: the law's input, the arrival of its weights, and where they settle."""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import numpy as np
import pytest
from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.messages.newest_samples import NewestSamples
from steelyard_controller.messages.received import Received
from steelyard_controller.tick.snapshot_builder import build_snapshot
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_simulator import engine, pickers
from steelyard_simulator.balancer import Balancer, Request
from steelyard_simulator.control_loop import (
    BALANCER_SPREAD_S,
    FETCH_S,
    REPORT_S,
    ControlLoop,
    bootstrap_weights,
)
from steelyard_simulator.model import (
    Background,
    Balancing,
    Case,
    Delays,
    Draw,
    Failing,
    Floats,
    OpenClients,
    Server,
    Step,
    Work,
)
from steelyard_simulator.run import run
from steelyard_simulator.simulated_inbox import SimulatedInbox
from steelyard_simulator.simulated_server import SimulatedServer
from steelyard_simulator.studies.evidence_clusters import clusters

ROOT = Path(__file__).parents[3]
AT_ONCE = Delays(sample_s=0, report_s=0, publish_s=0, fetch_s=0)
CASE = Case(
    servers=(Server(cores=1), Server(cores=2), Server(cores=4)),
    clients=OpenClients(rate_per_s=400),
    work=Work(cpu=Draw(mean_s=0.01)),
    duration_s=40.0,
    warmup_s=20.0,
)


def report(completed: list[float], latency_s: list[float]) -> Floats:
    zeros = [0.0] * len(completed)
    return np.array(
        [completed, [1.0, *zeros[1:]], [*zeros[1:], 2.0], latency_s, [3 * each for each in completed]]
    )


def assembled(held: dict[str, tuple[Floats, float]], samples: dict[int, float], now_s: float) -> object:
    """Return what the controller's own assembly makes of the same messages."""
    ids = [f"server-{index + 1:06d}" for index in range(3)]
    reports = {
        lb: Received(
            TrafficReport(
                upstream="web",
                lb=lb,
                boot="b",
                seq=1,
                sent_at_ms=0,
                interval_s=1.0,
                ids=ids,
                completed=each[0].astype(int).tolist(),
                failed=each[1].astype(int).tolist(),
                in_flight=each[2].astype(int).tolist(),
                latency_ms=[
                    1000 * latency_s / completed if completed else None
                    for completed, latency_s in each[[0, 3]].T.tolist()
                ],
                latency_p50_ms=[None] * len(ids),
                cost=each[4].tolist(),
            ),
            arrived_s,
        )
        for lb, (each, arrived_s) in held.items()
    }
    records = {
        ids[j]: Received(
            SampleRecord(
                upstream="web",
                peer=ids[j],
                boot="b",
                seq=1,
                taken_at_ms=0,
                interval_s=1.0,
                utilization=(cpu, 0.0, 0.0, 0.3),
                capacity=(1.0, 1.0, 1.0, 1.0),
                scope="host",
            ),
            now_s,
        )
        for j, cpu in samples.items()
    }
    peers = [Peer(id=name, address=f"10.0.0.{j + 1}:80", baseline=1) for j, name in enumerate(ids)]
    return build_snapshot(
        Inbox(samples=NewestSamples.of(records), reports=reports), peers, now_s=now_s, tick_s=1.0
    )


def assert_same_view(inbox: object, controllers: object) -> None:
    for column in ("utilization", "completed", "failed", "in_flight", "latency_s", "baseline", "cost"):
        assert np.allclose(getattr(inbox, column), getattr(controllers, column), equal_nan=True), column


def test_the_law_gets_the_same_snapshot_as_in_the_controller() -> None:
    inbox = SimulatedInbox(replace(CASE, delays=AT_ONCE, balancing=Balancing(priced=True)))
    first, second = report([10, 0, 5], [1.0, 0, 0.5]), report([4, 3, 0], [0.1, 0.6, 0])
    inbox.report(9.5, 0, first)
    inbox.report(9.7, 1, second)
    inbox.sample(9.4, 1, (0.5, 0.0, 0.0, 0.3))
    both = {"lb-0": (first, 10.0), "lb-1": (second, 10.0)}
    assert_same_view(inbox.snapshot(10.0), assembled(both, {1: 0.5}, 10.0))
    # Nothing arrived since: no sample, no report.
    assert_same_view(inbox.snapshot(11.0), assembled(both, {}, 11.0))
    # One balancer reports again, the other is late: it counts with its last figures, for three ticks.
    later = report([7, 7, 7], [0.7, 0.7, 0.7])
    inbox.report(11.5, 0, later)
    assert_same_view(inbox.snapshot(12.0), assembled(both | {"lb-0": (later, 12.0)}, {}, 12.0))
    last = report([1, 2, 3], [0.1, 0.1, 0.1])
    inbox.report(13.5, 0, last)
    assert_same_view(inbox.snapshot(14.0), assembled(both | {"lb-0": (last, 14.0)}, {}, 14.0))


def test_a_message_is_not_heard_before_it_arrives() -> None:
    inbox = SimulatedInbox(replace(CASE, delays=Delays(sample_s=2.0, report_s=2.0)))
    inbox.sample(9.5, 0, (0.5, 0.0, 0.0, 0.3))
    inbox.report(9.5, 0, report([1, 1, 1], [1, 1, 1]))
    early, late = inbox.snapshot(10.0), inbox.snapshot(12.0)
    assert np.isnan(early.utilization).all()
    assert np.isnan(early.completed).all()
    assert late.utilization[0, 0] == 0.5
    assert late.completed.tolist() == [1, 1, 1]


@pytest.mark.parametrize("picker", ["vnswrr", "vnswrr2"])
def test_the_default_law_finds_the_true_capacities_of_unequal_servers(picker: str) -> None:
    result = run(replace(CASE, balancing=Balancing(law="steelyard", picker=picker)), 1)
    shares = result.ticks.weights[-10:].mean(axis=0)
    assert shares == pytest.approx([1 / 7, 2 / 7, 4 / 7], rel=0.05)
    # The other choices go by what is in flight: the smallest is idle most often, and gets more.
    near = 0.05 if picker == "vnswrr" else 0.4
    picks = result.ticks.picks[-10:].sum(axis=0)
    assert picks / picks.sum() == pytest.approx(shares, rel=near)


def test_the_default_law_finds_the_capacities_of_servers_without_an_agent_beside_others() -> None:
    servers = tuple(replace(each, sampled=sampled) for sampled in (False, True) for each in CASE.servers)
    clients = OpenClients(rate_per_s=1100)
    result = run(replace(CASE, servers=servers, clients=clients, balancing=Balancing(picker="vnswrr")), 1)
    assert np.isnan(result.ticks.utilization[:, :3]).all()
    shares = result.ticks.weights[-10:].mean(axis=0)
    assert shares == pytest.approx(np.array([1, 2, 4, 1, 2, 4]) / 14, rel=0.2)


def test_before_the_first_table_the_baselines_are_used() -> None:
    result = run(replace(CASE, balancing=Balancing(law="steelyard", picker="vnswrr")), 1)
    assert np.ptp(result.ticks.picks[0]) <= 2
    assert bootstrap_weights(CASE.servers) == [1, 1, 1]


def test_static_weights_stay_at_the_baselines_and_are_followed_exactly() -> None:
    servers = (Server(baseline=5.0), Server(baseline=1.0), Server(baseline=2.0))
    case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=80))
    result = run(replace(case, balancing=Balancing(law="static", picker="vnswrr")), 1)
    assert result.ticks.weights == pytest.approx(np.tile([0.625, 0.125, 0.25], (40, 1)))
    assert result.requests_per_server / result.arrived == pytest.approx([0.625, 0.125, 0.25], abs=0.001)
    assert bootstrap_weights(servers) == [5, 1, 2]


def test_a_step_of_capacity_is_followed() -> None:
    servers = (Server(cores=4), Server(cores=4, steps=(Step(at_s=20.0, factor=0.25),)))
    case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=250), duration_s=60.0)
    weights = run(replace(case, balancing=Balancing(picker="vnswrr")), 2).ticks.weights[:, 1]
    assert weights[15:20].mean() == pytest.approx(0.5, abs=0.03)
    assert weights[-10:].mean() == pytest.approx(0.2, abs=0.04)


def test_a_limit_that_agents_report_is_followed_sooner_than_one_that_nobody_tells() -> None:
    changes = tuple(Step(at_s=20.0 + t, factor=1.0 - 0.04 * t, reported=True) for t in range(1, 16))
    off = []
    for reported in (True, False):
        steps = tuple(replace(step, reported=reported) for step in changes)
        servers = (Server(cores=4), Server(cores=4, steps=steps))
        case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=300), duration_s=38.0)
        weights = run(case, 3).ticks.weights[20:35, 1]
        able = np.array([step.factor for step in changes])
        off.append(np.abs(weights - able / (1.0 + able)).mean())
    assert off[0] < 0.03
    assert off[0] < off[1]


def test_true_weights_are_there_at_every_moment() -> None:
    servers = (Server(cores=1), Server(cores=1, steps=(Step(at_s=20.0, factor=0.25),)))
    true = Balancing(law=None, picker="wrr", true_weights=True)
    case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=50), balancing=true)
    picks = run(case, 1).ticks.picks
    assert picks[:20, 1].sum() / picks[:20].sum() == pytest.approx(0.5, abs=0.01)
    assert picks[20:, 1].sum() / picks[20:].sum() == pytest.approx(0.2, abs=0.01)


def test_true_weights_know_disks_and_servers_that_fail() -> None:
    failing = (Failing(start_s=20.0, end_s=40.0, part=0.75),)
    servers = (Server(io_channels=1), Server(io_channels=1, failing=failing), Server(io_channels=3))
    true = Balancing(law=None, picker="wrr", true_weights=True)
    work = Work(cpu=Draw(mean_s=0.001), io=Draw(mean_s=0.01))
    case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=50), work=work, balancing=true)
    picks = run(case, 1).ticks.picks
    assert picks[:20].sum(axis=0) / picks[:20].sum() == pytest.approx([0.2, 0.2, 0.6], abs=0.01)
    assert picks[20:, 1].sum() / picks[20:].sum() == pytest.approx(1 / 17, abs=0.01)


@pytest.mark.parametrize("law", [None, "steelyard"])
def test_a_server_that_is_away_gets_no_request_and_starts_slowly_when_it_is_back(law: str | None) -> None:
    servers = (Server(cores=2, away=((0.0, 15.5), (25.5, 35.5))), Server(cores=2), Server(cores=2))
    case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=200), duration_s=90.0)
    ticks = run(replace(case, balancing=Balancing(law=law, picker="vnswrr")), 1).ticks
    picks = ticks.picks[:, 0] / ticks.picks.sum(axis=1)
    assert picks[:15].max() == picks[26:35].max() == 0.0
    assert picks[70:].mean() == pytest.approx(1 / 3, abs=0.03)
    soon = picks[36:39].mean()
    if law is None:
        assert soon == pytest.approx(1 / 3, abs=0.05)
    else:
        assert 0.0 < soon < 0.25
        # An agent that is away sends nothing.
        assert np.isnan(ticks.utilization[:14, 0]).all()


@pytest.mark.parametrize(
    "balancing", [Balancing(picker="vnswrr"), Balancing(law=None, picker="wrr", true_weights=True)], ids=str
)
def test_a_pinned_server_gets_its_part_whatever_it_can_do(balancing: Balancing) -> None:
    servers = (Server(cores=2, pinned=0.02), Server(cores=1), Server(cores=1))
    case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=120), balancing=balancing)
    picks = run(case, 1).ticks.picks[5:]
    assert picks[:, 0].sum() / picks.sum() == pytest.approx(0.02, abs=0.01)


def test_between_reports_that_stop_and_come_again_the_weights_stand() -> None:
    servers = (Server(cores=2, steps=(Step(at_s=12.0, factor=0.3),)), Server(cores=2))
    case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=120))
    weights = run(replace(case, delays=Delays(silent_s=(10.0, 25.0))), 1).ticks.weights[:, 0]
    assert np.ptp(weights[11:24]) < 0.01
    assert weights[24] == pytest.approx(0.5, abs=0.05)
    assert weights[32] < 0.35


def test_upstreams_that_share_servers_each_have_a_law_that_finds_their_sizes() -> None:
    case = replace(
        CASE, upstreams=2, balancing=Balancing(picker="vnswrr"), clients=OpenClients(rate_per_s=300)
    )
    ticks = run(case, 1).ticks
    assert ticks.weights[-10:].mean(axis=0) == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.05)
    # Both upstreams' requests together: what the second's law publishes is as good.
    picks = ticks.picks[-15:].sum(axis=0)
    assert picks / picks.sum() == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.05)


def test_a_connection_that_is_held_open_is_in_flight_until_its_server_goes_away() -> None:
    answered: list[int] = []

    class Picker:
        def pick(self, _now_s: float) -> int:
            return 0

        def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
            assert ok
            assert now_s - sent_s == pytest.approx(0.25)
            answered.append(server)

    balancer = Balancer(0, cast(pickers.Picker, Picker()), 2)
    for held in (True, False, True):
        request = Request(1.0, balancer)
        balancer.pick(1.0, request)
        balancer.answered(1.25, request, held)
    completed, _, in_flight, latency_s, _ = balancer.report()
    assert (completed[0], in_flight[0], latency_s[0]) == (3, 2, 0.75)
    assert answered == [0]
    balancer.away = frozenset({0})
    balancer.close(50.0)
    balancer.close(51.0)
    assert balancer.report()[2].tolist() == [0, 0]
    assert answered == [0, 0, 0]


def test_agents_see_their_server_s_load_and_its_neighbour() -> None:
    neighbour = Background(start_s=0.0, end_s=1e9, share=0.0, idle_utilization=1.0)
    servers = (Server(cores=2), Server(cores=2, background=(neighbour,)))
    result = run(replace(CASE, servers=servers, balancing=Balancing(law="static", picker="vnswrr")), 1)
    # 200 requests/s of 10 ms on two cores.
    assert np.nanmean(result.ticks.utilization[:, 0]) == pytest.approx(1.0, rel=0.05)
    assert result.ticks.utilization[-1, 1] == pytest.approx(1.0)
    half = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=200))
    result = run(replace(half, balancing=Balancing(law="static", picker="vnswrr")), 1)
    assert np.nanmean(result.ticks.utilization[:, 0]) == pytest.approx(0.5, rel=0.05)
    assert result.ticks.utilization[-1, 1] == pytest.approx(1.0)


def test_weights_arrive_after_the_publish_and_fetch_delays() -> None:
    # The law moves weights from its first reports on; the baselines are used until its table has arrived.
    at_once, late = (
        run(replace(CASE, delays=delays, duration_s=30.0), 1)
        for delays in (AT_ONCE, replace(AT_ONCE, publish_s=8.0, fetch_s=4.0))
    )
    third = slice(4, 11)
    picks = at_once.ticks.picks[third].sum(axis=0), late.ticks.picks[third].sum(axis=0)
    assert picks[0][2] / picks[0].sum() > 0.45
    # vnswrr2's second choice leans to the larger servers by itself, but not that far.
    assert picks[1][2] / picks[1].sum() < picks[0][2] / picks[0].sum() - 0.05
    assert late.ticks.picks[-5:, 2].sum() / late.ticks.picks[-5:].sum() == pytest.approx(4 / 7, abs=0.06)


def test_without_any_report_the_law_stays_at_the_baselines() -> None:
    case = replace(CASE, delays=Delays(sample_s=30.0, report_s=30.0), duration_s=25.0)
    result = run(replace(case, clients=OpenClients(rate_per_s=100)), 1)
    assert result.ticks.weights == pytest.approx(1 / 3, abs=0.01)
    assert np.isnan(result.ticks.utilization).all()


def test_a_neighbour_costs_a_server_its_share_and_gives_it_back() -> None:
    neighbour = Background(start_s=20.0, end_s=40.0, share=0.7)
    servers = (Server(cores=2, background=(neighbour,)), *(Server(cores=2) for _ in range(3)))
    case = replace(CASE, servers=servers, clients=OpenClients(rate_per_s=440), duration_s=60.0)
    weights = run(case, 1).ticks.weights[:, 0]
    assert weights[15:20].mean() == pytest.approx(0.25, abs=0.02)
    # It can still do 0.6 of 6.6 servers' work, 9 %.
    assert weights[25:40].mean() == pytest.approx(0.09, abs=0.02)
    assert weights[22:40].min() > 0.07
    # And is believed again within five seconds.
    assert weights[45:].mean() > 0.8 * 0.25


def test_in_phase_everybody_acts_at_the_products_instants() -> None:
    lua = (ROOT / "openresty/steelyard/lib/steelyard/core/clock_phase.lua").read_text()
    said = {name: float(value) for name, value in re.findall(r"(\w+_S) = ([\d.]+)", lua)}
    assert said == {"REPORT_S": REPORT_S, "FETCH_S": FETCH_S, "SPREAD_S": BALANCER_SPREAD_S}

    balancers = [Balancer(index, pickers.maker(CASE, 1)(index), 3) for index in range(4)]
    servers = cast(list[SimulatedServer], [None] * 3)
    for seed in range(20):
        asked: dict[str, list[float]] = defaultdict(list)

        class Engine(engine.Engine):
            def at(self, when_s: float, action: engine.Action, _argument: object = None) -> None:
                asked[action.__name__].append(when_s)  # noqa: B023 - called within the turn

        loop = ControlLoop(Engine(), replace(CASE, in_phase=True), servers, balancers, Random(seed))
        assert asked.pop("_tick") == [loop.first_tick_s]
        after_tick_s = {
            name: [(when_s - loop.first_tick_s) % 1.0 for when_s in each] for name, each in asked.items()
        }
        assert all(0.90 <= each <= 0.95 for each in after_tick_s["_sample"])
        assert all(0.92 <= each <= 0.95 for each in after_tick_s["_report"])
        assert all(0.15 <= each <= 0.18 for each in after_tick_s["_fetch"])


@pytest.mark.parametrize(("picker", "at_most_s"), [("vnswrr2", 0.2), ("vnswrr", 1.5)])
def test_picks_follow_a_loss(picker: str, at_most_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds until a server that has lost nine tenths gets half of what it got, by the last 40 picks."""
    cluster = clusters()["neighbour-leaves-10"].case
    loss_s = cluster.servers[0].background[0].start_s
    case = replace(cluster, duration_s=loss_s + 6, balancing=Balancing(picker=picker))
    picked: list[tuple[float, bool]] = []
    pick = Balancer.pick

    def noted(self: Balancer, now_s: float, request: Request) -> int:
        server = pick(self, now_s, request)
        picked.append((now_s, server == 0))
        return server

    monkeypatch.setattr(Balancer, "pick", noted)
    after_s = []
    for seed in range(1, 6):
        picked.clear()
        run(case, seed)
        before = np.mean([lost for at_s, lost in picked if loss_s - 3 < at_s <= loss_s])
        after = [each for each in picked if each[0] > loss_s]
        share = np.convolve([lost for _, lost in after], np.full(40, 1 / 40), mode="valid")
        followed = np.flatnonzero(share <= before / 2)
        after_s.append(after[followed[0] + 39][0] - loss_s if len(followed) else np.inf)
    print(f"{picker}: {np.round(sorted(after_s), 2).tolist()}, median {np.median(after_s):.2f} s")
    assert np.median(after_s) <= at_most_s
