"""Repeated requests for pods: their results and the log."""

import logging
from collections.abc import Sequence

import pytest
from steelyard_agent.pods import pod_poll
from steelyard_agent.pods.api_client import ApiFault
from steelyard_agent.pods.pod_list import MOST_PODS, Pod, PodList
from steelyard_agent.pods.pod_poll import EVERY_S, LONGEST_PAUSE_S, PodPoll

AWAY = ApiFault("no answer", "the API server does not answer")


def pods(*names: str) -> tuple[Pod, ...]:
    return tuple(Pod(namespace="default", name=name, uid=f"u-{name}", upstream="web") for name in names)


def listed(*names: str, **faults: str) -> PodList:
    return PodList(pods=pods(*names), faults=faults)


def poll_of(*answers: PodList | ApiFault) -> PodPoll:
    return PodPoll(iter(answers).__next__, random=lambda: 0.0)


def steps(poll: PodPoll, count: int) -> list[float]:
    return [poll.step() for _ in range(count)]


def logged(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    return [entry.getMessage() for entry in caplog.records]


def test_pods_come_and_go_with_the_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    poll = poll_of(listed("a", "b"), listed("a", "b"), listed("b", "c"), listed())
    assert poll.pods == ()
    seen = []
    for _ in range(4):
        poll.step()
        seen.append(poll.pods)
    assert seen == [pods("a", "b"), pods("a", "b"), pods("b", "c"), ()]
    assert logged(caplog) == [
        "pods to be sampled: 2; new: default/a, default/b",
        "pods to be sampled: 2; new: default/c; gone: default/a",
        "pods to be sampled: 0; gone: default/b, default/c",
    ]


def test_of_many_pods_a_few_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    poll_of(listed(*(f"p{n}" for n in range(MOST_PODS)))).step()
    (line,) = logged(caplog)
    assert line.endswith("default/p9 and 240 more")


def test_an_api_server_that_is_away_changes_nothing_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = ApiFault("403", "it answers 403")
    poll = poll_of(listed("a"), AWAY, AWAY, refused, refused, listed("a"))
    known = []
    for _ in range(6):
        poll.step()
        known.append((poll.pods, poll.reachable))
    assert [pods_then for pods_then, _ in known] == [pods("a")] * 6
    assert [reachable for _, reachable in known] == [True, False, False, False, False, True]
    assert logged(caplog) == [
        "the API server does not answer; the known pods (1) go on",
        "it answers 403; the known pods (1) go on",
    ]


def test_a_pod_that_cannot_be_sampled_is_said_once_and_again_for_another_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    poll = poll_of(
        listed(x="bad label"), listed(x="bad label"), listed(x="long name"), listed(), listed(x="long name")
    )
    steps(poll, 5)
    assert logged(caplog) == [
        "pod x is not sampled: bad label",
        "pod x is not sampled: long name",
        "pod x is not sampled: long name",
    ]


def test_the_pause_doubles_while_it_is_away_and_is_back_at_once() -> None:
    assert steps(poll_of(listed(), *[AWAY] * 6, listed()), 8) == [5.0, 5.0, 10.0, 20.0, 40.0, 40.0, 40.0, 5.0]


def test_pauses_vary_so_that_nodes_do_not_ask_together() -> None:
    assert pod_poll.pause_s(0, 1.0) == pytest.approx(0.8 * EVERY_S)
    assert pod_poll.pause_s(10**6, 0.5) == pytest.approx(0.9 * LONGEST_PAUSE_S)
