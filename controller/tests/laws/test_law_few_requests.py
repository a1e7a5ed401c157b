"""Equal servers with few requests beside others' load stay alike (cases: `law_cases`)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steelyard_controller import laws
from steelyard_controller.laws.steelyard.evidence import FULL_SECONDS

from .closed_loop import FewRequests, Loop, ticks_at_once
from .snapshots import snapshot, steps

STEELYARD = laws.create("steelyard")


def loop_of(others: float, demand: float, seed: int, cost: float = 0.0025) -> Loop[FewRequests]:
    """Return six equal servers beside others' load, which varies by a tenth."""
    servers = FewRequests(
        k=6, others=others, vary=0.1 * others, cost=cost, chance=np.random.default_rng(seed)
    )
    return Loop(law=STEELYARD, servers=servers, demand=demand)


CLUSTERS = st.lists(
    st.tuples(st.floats(0.1, 0.6), st.floats(0.5, 6.0), st.integers(0, 2**32 - 1)), min_size=6, max_size=6
)


@given(CLUSTERS)
@settings(max_examples=2)
def test_equal_servers_with_equal_traffic_stay_alike(clusters: list[tuple[float, float, int]]) -> None:
    loops = [loop_of(others, demand, seed) for others, demand, seed in clusters]
    ticks_at_once(loops, 150)
    for loop in loops:
        assert loop.shares[-1].max() < 2.5 * loop.shares[-1].min()


def test_costs_are_refuted_if_no_lump_of_load_shows_them_and_believed_if_lumps_do() -> None:
    # A request a second and server, load .5: all of it for requests were .5 load seconds each.
    steady, lumps = ticks_at_once([loop_of(0.5, 6.0, 1), loop_of(0.02, 6.0, 1, cost=0.2)], 120)
    assert steady.columns["request_cost"].mean() < 0.3
    assert steady.columns["not_ours"].mean() > 0.2
    assert lumps.columns["request_cost"] == pytest.approx(np.full(6, 0.2), rel=0.25)
    assert lumps.columns["prior_share"].max() < 0.1


@pytest.mark.parametrize(("in_flight", "full_s"), [(1, 0.0), (40, 1.0)])
def test_a_single_request_in_flight_does_not_fill_an_idle_server(in_flight: int, full_s: float) -> None:
    calm = snapshot(cpu=0.1, completed=20, in_flight=0)
    idle = snapshot(cpu=(0.0, 0.1, 0.1), completed=(0, 20, 20), in_flight=(in_flight, 0, 0))
    memory, _ = steps(STEELYARD, [calm] * 60 + [idle])
    assert memory.columns["sums"][0, FULL_SECONDS] == full_s
