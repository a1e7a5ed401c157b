"""The cost of a fault, and its bounds: synthetic requests and looks."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from steelyard_loadtest.generators.tally import Request
from steelyard_resilience.chaos.fault import Bound, Gathered, Look, Trial
from steelyard_resilience.chaos.outcomes import outcome, strays, well_since

BOUND = Bound(worst_ms=300.0, recover_s=5.0)
TRIAL = Trial(
    fault="memcached killed",
    group="kill -9",
    bound=BOUND,
    began_s=100.0,
    undone_s=108.0,
    recovered_s=109.5,
    until_s=110.5,
    wrong=(),
)
WELL = Look(at_s=109.5, rung="fresh", not_well=None)


def request(due_s: float, latency_ms: float = 10.0, failure: str = "") -> Request:
    return Request(due_s=due_s, latency_ms=latency_ms, failure=failure)


def look(at_s: float, not_well: str | None = None, rung: str | None = "fresh") -> Look:
    return Look(at_s=at_s, rung=rung, not_well=not_well)


def broken(trial: Trial, requests: Sequence[Request], looks: Sequence[Look] = (WELL,)) -> tuple[str, ...]:
    return outcome(trial, requests, looks).broken


def test_a_fault_that_costs_nothing_passes() -> None:
    seen = outcome(TRIAL, [request(101.0, 9.0), request(102.0, 11.0), request(103.0, 40.0)], [WELL])
    assert seen.passed
    assert (seen.sent, seen.failed, seen.worst_ms) == (3, 0, 40.0)
    assert (seen.recover_s, seen.rung) == (1.5, "fresh")


def test_requests_under_way_at_its_beginning_are_the_faults() -> None:
    under_way, over, after = request(99.995, 10.0, "reset"), request(99.9, 10.0, "reset"), request(110.5)
    seen = outcome(TRIAL, [under_way, over, request(110.49), after], [WELL])
    assert (seen.sent, seen.failed, seen.kinds) == (2, 1, {"reset": 1})


def test_failures_above_the_bound_are_reported_by_kind() -> None:
    requests = [request(101.0), *[request(102.0, failure="502")] * 2, request(103.0, failure="crossed")]
    allowed = replace(TRIAL, bound=replace(BOUND, failed=3))
    assert broken(allowed, requests) == ()
    assert broken(replace(TRIAL, bound=replace(BOUND, failed=2)), requests) == (
        "3 of 4 requests failed (2 502, 1 crossed), more than 2",
    )


def test_the_latency_of_a_failed_request_is_no_answers() -> None:
    requests = [request(101.0, 250.0), request(102.0, 10_000.0, "timeout")]
    seen = outcome(replace(TRIAL, bound=replace(BOUND, failed=1)), requests, [WELL])
    assert (seen.worst_ms, seen.broken) == (250.0, ())
    assert broken(TRIAL, [request(101.0, 301.0)]) == ("the slowest answer took 301 ms, more than 300",)


def test_slow_answers_above_the_bound_are_reported() -> None:
    requests = [request(101.0), request(102.0, 150.0), *[request(103.0, 151.0)] * 2]
    requests.append(request(104.0, 10_000.0, "timeout"))
    allowed = replace(TRIAL, bound=replace(BOUND, failed=1, slow=2))
    assert broken(allowed, requests) == ()
    assert broken(replace(allowed, bound=replace(allowed.bound, slow=1)), requests) == (
        "2 answers took longer than 150 ms, more than 1",
    )
    assert outcome(replace(TRIAL, bound=replace(BOUND, failed=1)), requests, [WELL]).passed


def test_slack_applies_to_times_alone() -> None:
    slack = replace(TRIAL, bound=BOUND.slackened(2))
    assert broken(slack, [request(101.0, 599.0)]) == ()
    assert broken(slack, [request(101.0, 601.0)]) == ("the slowest answer took 601 ms, more than 600",)
    assert len(broken(slack, [request(101.0, failure="502")])) == 1


def test_a_fault_without_a_request_shows_nothing_and_does_not_pass() -> None:
    assert broken(TRIAL, []) == ("no request was sent",)


def test_recovery_counts_from_the_end_of_the_fault() -> None:
    late = replace(TRIAL, recovered_s=113.1, until_s=114.1)
    assert broken(late, [request(101.0)]) == ("well again after 5.1 s, later than 5",)
    never = replace(TRIAL, recovered_s=None, until_s=128.0)
    looks = [look(101.0, "nginx does not answer"), look(127.0, "no leader")]
    assert broken(never, [request(101.0)], looks) == ("not well again in time: no leader",)


@pytest.mark.parametrize(
    ("rung", "kept"), [("fresh", True), ("hold", True), ("drift", False), ("none", False)]
)
def test_the_worst_rung_of_its_time_counts(rung: str, kept: bool) -> None:
    trial = replace(TRIAL, bound=replace(BOUND, rung="hold"))
    looks = [
        look(99.0, rung="none"),
        look(103.0, rung=None),
        look(104.0, rung=rung),
        WELL,
        look(111.0, rung="none"),
    ]
    seen = outcome(trial, [request(101.0)], looks)
    assert (seen.rung, seen.passed) == (rung, kept)


def test_an_nginx_that_never_answered_has_no_rung() -> None:
    assert outcome(TRIAL, [request(101.0)], [look(104.0, "away", rung=None)]).rung is None


def test_a_failed_action_breaks_the_fault() -> None:
    wrong = replace(TRIAL, wrong=("its end failed: ProgramError gone",))
    assert broken(wrong, [request(101.0)]) == ("its end failed: ProgramError gone",)


def test_well_is_the_last_unbroken_row_of_good_looks() -> None:
    looks = [look(1.0), look(2.0, "a"), look(3.0), look(4.0, "b"), look(5.0), look(6.0)]
    assert well_since(looks, 0.0) == 5.0
    assert well_since(looks, 5.5) == 6.0
    assert well_since(looks[:4], 0.0) is None
    assert well_since(looks, 7.0) is None


def test_a_failure_between_two_faults_is_a_stray() -> None:
    second = replace(TRIAL, began_s=115.0, undone_s=116.0, recovered_s=117.0, until_s=118.0)
    lost = [request(due_s, failure="502") for due_s in (95.0, 101.0, 112.0, 116.0, 119.0)]
    run = Gathered(trials=[TRIAL, second], requests=[*lost, request(112.5)])
    assert [one.due_s for one in strays(run)] == [95.0, 112.0, 119.0]


def test_failures_after_a_fault_that_was_not_recovered_from_are_its_doing() -> None:
    never = replace(TRIAL, recovered_s=None)
    assert strays(Gathered(trials=[never], requests=[request(112.0, failure="502")])) == []


def test_a_failure_of_the_interrupted_fault_is_no_stray() -> None:
    run = Gathered(trials=[TRIAL], requests=[request(due_s, failure="502") for due_s in (95.0, 119.0)])
    assert len(strays(run)) == 2
    run.interrupted = True
    assert [one.due_s for one in strays(run)] == [95.0]
