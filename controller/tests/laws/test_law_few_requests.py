"""Equal servers with few requests beside others' load stay alike (cases: `law_cases`)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steelyard_controller import laws

from .closed_loop import FewRequests, Loop

STEELYARD = laws.create("steelyard")


def loop_of(others: float, demand: float, seed: int, cost: float = 0.0025) -> Loop[FewRequests]:
    """Return six equal servers beside others' load, which varies by a tenth."""
    servers = FewRequests(
        k=6, others=others, vary=0.1 * others, cost=cost, chance=np.random.default_rng(seed)
    )
    return Loop(law=STEELYARD, servers=servers, demand=demand)


@given(st.floats(0.1, 0.6), st.floats(0.5, 6.0), st.integers(0, 2**32 - 1))
@settings(max_examples=6, deadline=None)
def test_equal_servers_with_equal_traffic_stay_alike(others: float, demand: float, seed: int) -> None:
    loop = loop_of(others, demand, seed)
    loop.ticks(150)
    assert loop.shares[-1].max() < 2.5 * loop.shares[-1].min()


def test_a_cost_that_no_lump_of_load_shows_is_refuted() -> None:
    # A request a second and server, load .5: all of it for requests were .5 load seconds each.
    loop = loop_of(0.5, 6.0, 1)
    decision = loop.ticks(120)
    assert decision.columns["request_cost"].mean() < 0.3
    assert decision.columns["not_ours"].mean() > 0.2


def test_load_that_comes_in_lumps_is_the_requests() -> None:
    loop = loop_of(0.02, 6.0, 1, cost=0.2)
    decision = loop.ticks(120)
    assert decision.columns["request_cost"] == pytest.approx(np.full(6, 0.2), rel=0.25)
    assert decision.columns["prior_share"].max() < 0.1
