"""From requests to figures: percentiles, seconds, thirds, shares; failures are told apart."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.demo.phase_figures import figures, per_second, thirds
from steelyard_loadtest.demo.records import Phase
from steelyard_loadtest.generators.tally import Request

SERVERS = ("server-1", "server-2")


def sent(t_s: float, server: str = "server-1", latency_ms: float = 10.0, failure: str = "") -> Request:
    return Request(due_s=t_s, latency_ms=latency_ms, failure=failure, server=server)


def phase(*entries: Request, measured_s: float = 9.0, burn: tuple[float, float] | None = (3.0, 6.0)) -> Phase:
    return Phase(
        name="steelyard",
        title="Steelyard",
        planned_s=9.0,
        measured_s=measured_s,
        burn=burn,
        sent=entries,
        observed=(),
    )


def test_figures_count_what_was_sent_from_the_beginning_up_to_the_end() -> None:
    entries = [sent(0.999), sent(1.0), sent(1.999), sent(3.0)]
    told = figures(entries, SERVERS, 1.0, 3.0)
    assert (told.requests, told.requests_per_s) == (2, 1.0)


def test_failures_are_counted_and_kept_out_of_the_latencies() -> None:
    entries = [
        sent(0.1, latency_ms=10),
        sent(0.2, latency_ms=30),
        sent(0.3, latency_ms=1, failure="502"),
        sent(0.4, latency_ms=30_000, failure="timeout", server=""),
    ]
    told = figures(entries, SERVERS, 0.0, 1.0)
    assert (told.requests, told.failures) == (4, 2)
    assert (told.p50_ms, told.p99_ms) == (10, 30)


def test_where_all_failed_there_is_no_latency() -> None:
    told = figures([sent(0.1, failure="503")], SERVERS, 0.0, 1.0)
    assert (told.failures, told.p50_ms, told.p99_ms) == (1, None, None)


def test_shares_are_parts_of_what_a_known_server_answered() -> None:
    entries = [sent(0.1), sent(0.2), sent(0.3), sent(0.4, "server-2"), sent(0.5, ""), sent(0.6, "stranger")]
    assert figures(entries, SERVERS, 0.0, 1.0).shares == {"server-1": 0.75, "server-2": 0.25}


def test_where_nobody_answered_a_share_is_unknown_rather_than_0() -> None:
    assert figures([], SERVERS, 0.0, 1.0).shares == {"server-1": None, "server-2": None}


@given(
    st.lists(st.tuples(st.floats(0, 8.99), st.sampled_from(SERVERS), st.sampled_from(["timeout", "", "502"])))
)
def test_seconds_and_thirds_lose_no_request_and_their_shares_sum_to_1(
    rows: list[tuple[float, str, str]],
) -> None:
    whole = phase(*(sent(t_s, server, failure=failure) for t_s, server, failure in rows))
    for parts in (per_second(whole, SERVERS), thirds(whole, SERVERS).values()):
        assert sum(part.requests for part in parts) == len(rows)
        assert sum(part.failures for part in parts) == sum(failure != "" for _, _, failure in rows)
        for part in parts:
            shares = [share for share in part.shares.values() if share is not None]
            assert not shares or sum(shares) == pytest.approx(1)


def test_each_whole_second_measured_has_figures_also_the_empty_ones() -> None:
    seconds = per_second(phase(sent(0.5), sent(2.1), sent(2.2), measured_s=3.7), SERVERS)
    assert [(second.from_s, second.to_s, second.requests) for second in seconds] == [
        (0, 1, 1),
        (1, 2, 0),
        (2, 3, 2),
    ]


def test_thirds_are_cut_where_the_burn_began_and_ended() -> None:
    of_phase = thirds(phase(sent(3.1), sent(3.2), sent(6.3), burn=(3.15, 6.25)), SERVERS)
    cuts = [(name, third.from_s, third.to_s) for name, third in of_phase.items()]
    assert cuts == [("before", 0, 3.15), ("burning", 3.15, 6.25), ("after", 6.25, 9)]
    assert [third.requests for third in of_phase.values()] == [1, 1, 1]


def test_without_a_burn_thirds_are_thirds_of_the_plan() -> None:
    of_phase = thirds(phase(burn=None), SERVERS)
    assert [(third.from_s, third.to_s) for third in of_phase.values()] == [(0, 3), (3, 6), (6, 9)]


@pytest.mark.parametrize(
    ("measured_s", "names"),
    [
        (0.9, []),
        (2.0, ["before"]),
        (3.5, ["before"]),
        (5.0, ["before", "burning"]),
        (7.0, ["before", "burning", "after"]),
    ],
)
def test_an_interrupted_phase_has_the_thirds_it_reached(measured_s: float, names: list[str]) -> None:
    of_phase = thirds(phase(measured_s=measured_s, burn=None), SERVERS)
    assert list(of_phase) == names
    assert all(third.to_s <= measured_s for third in of_phase.values())


def test_an_interrupted_third_has_the_rate_of_the_time_it_had() -> None:
    whole = phase(*(sent(number / 10) for number in range(20)), measured_s=2.0)
    assert thirds(whole, SERVERS)["before"].requests_per_s == 10
    assert thirds(replace(whole, sent=()), SERVERS)["before"].requests_per_s == 0
