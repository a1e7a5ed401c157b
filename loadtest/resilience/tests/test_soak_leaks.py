"""A clean run passes a soak, and each kind of leak fails it."""

from collections.abc import Callable, Iterator, Mapping

import pytest
from steelyard_resilience.soak.leaks import FIGURES, PYTHON, Verdict, judge
from steelyard_resilience.soak.readings import MASTER, REDIS, WORKER, Ending, Reading, Soaked
from steelyard_resilience.soak.timetable import Plan

SHORT = Plan(seconds=120.0)
PROCESSES = {
    MASTER: 100,
    "controller-1": 200,
    "controller-2": 201,
    "agent-1": 300,
    "server-1": 400,
    "memcached": 500,
    REDIS: 501,
}
Change = Callable[[float], Mapping[str, float]]


def soaked(leaks: dict[int, Change] | None = None, plan: Plan = SHORT, **members: object) -> Soaked:
    """Return a run without leaks, except for the changes of single processes over time, by pid."""
    defaults: dict[str, object] = {
        "seconds": plan.seconds,
        "readings": tuple(_readings(plan, leaks or {})),
        "sent": int(200 * plan.seconds),
        "failures": {},
        "reloads": plan.reloads_s,
        "steps": int(plan.seconds),
        "refused": (),
        "ending": Ending(in_flight={"server-1": 0}, settled_s=0.2, workers_left=2),
    }
    return Soaked(**(defaults | members))  # type: ignore[arg-type]


def worker_pid(generation: int, number: int = 0) -> int:
    """Return the pid of a worker of nginx; generation 0 is that of the start."""
    return 1000 + 2 * generation + number


def _moments(plan: Plan) -> Iterator[float]:
    for number in range(int(plan.seconds / plan.read_every_s) + 1):
        yield number * plan.read_every_s


def _readings(plan: Plan, leaks: dict[int, Change]) -> Iterator[Reading]:
    for at_s in _moments(plan):
        generation = sum(at_s >= reload_s for reload_s in plan.reloads_s)
        workers = [(WORKER, worker_pid(generation, number)) for number in range(2)]
        for process, pid in (*PROCESSES.items(), *workers):
            change = leaks[pid](at_s) if pid in leaks else {}
            yield Reading(
                at_s=at_s,
                process=process,
                pid=pid,
                private_bytes=20_000_000 + int(change.get("bytes", 0)),
                descriptors=30 + int(change.get("descriptors", 0)),
                threads=2 + int(change.get("threads", 0)),
                heap_bytes=1_000_000 + int(change.get("heap", 0)) if process in (WORKER, REDIS) else None,
            )


LONG = Plan()
LAST = len(SHORT.reloads_s)


def wrong(verdict: Verdict) -> list[str]:
    rows = [f"{row.process}: {FIGURES[row.figure]}" for row in verdict.rows if not row.passed]
    return rows + [check.requirement for check in verdict.checks if not check.passed]


def by_second(**each: float) -> Change:
    return lambda at_s: {name: rate * at_s for name, rate in each.items()}


@pytest.mark.parametrize("plan", [SHORT, LONG])
def test_a_run_in_which_nothing_grows_passes(plan: Plan) -> None:
    verdict = judge(soaked(plan=plan), plan)
    assert wrong(verdict) == []
    assert verdict.passed
    judged = {row.process for row in verdict.rows}
    assert judged >= {
        "nginx master",
        "nginx worker",
        "controller-1",
        "controller-2",
        "agents",
        "demo servers",
    }


@pytest.mark.parametrize(
    ("process", "row"),
    [
        ("nginx master", "nginx master"),
        ("controller-1", "controller-1"),
        ("controller-2", "controller-2"),
        ("agent-1", "agents"),
        ("server-1", "demo servers"),
    ],
)
@pytest.mark.parametrize(
    ("change", "figure"),
    [(by_second(bytes=25 * 1024), "private memory"), (by_second(descriptors=1), "descriptors")],
)
def test_two_minutes_are_enough_to_find_a_leak(process: str, row: str, change: Change, figure: str) -> None:
    verdict = judge(soaked({PROCESSES[process]: change}), SHORT)
    assert wrong(verdict) == [f"{row}: {figure}"]


@pytest.mark.parametrize(
    ("change", "figure"),
    [(by_second(bytes=30 * 1024), "private memory"), (by_second(descriptors=1), "descriptors")],
)
def test_a_leak_in_one_of_two_workers_is_found(change: Change, figure: str) -> None:
    verdict = judge(soaked({worker_pid(LAST, number=1): change}), SHORT)
    assert wrong(verdict) == [f"nginx worker: {figure}"]


def test_a_burst_of_descriptors_in_one_worker_hides_no_leak_in_the_other() -> None:
    def burst(at_s: float) -> Mapping[str, float]:
        return {"descriptors": 1000.0 * (at_s > 105)}

    one, other = (worker_pid(LAST, number) for number in range(2))
    assert wrong(judge(soaked({one: burst}), SHORT)) == []
    leaking = soaked({one: burst, other: by_second(descriptors=1)})
    assert wrong(judge(leaking, SHORT)) == ["nginx worker: descriptors"]


def test_a_thread_a_second_is_found() -> None:
    verdict = judge(soaked({PROCESSES["controller-1"]: by_second(threads=1)}), SHORT)
    assert wrong(verdict) == ["controller-1: threads"]


def test_half_an_hour_finds_a_leak_of_two_kilobytes_a_second() -> None:
    verdict = judge(soaked({PROCESSES["controller-1"]: by_second(bytes=2048)}, LONG), LONG)
    assert wrong(verdict) == ["controller-1: private memory"]
    assert wrong(judge(soaked({PROCESSES["controller-1"]: by_second(bytes=2048)}), SHORT)) == []


def test_growth_during_warm_up_is_no_leak() -> None:
    def cache(at_s: float) -> Mapping[str, float]:
        return {"bytes": 30_000_000 * min(1.0, at_s / PYTHON.warm_after_s(SHORT.seconds))}

    assert wrong(judge(soaked({PROCESSES["controller-1"]: cache}), SHORT)) == []


def test_workers_before_and_after_a_reload_are_judged_apart() -> None:
    larger = {worker_pid(LAST, number): (lambda _: {"bytes": 9_000_000.0}) for number in range(2)}
    assert wrong(judge(soaked(larger), SHORT)) == []  # type: ignore[arg-type]


def test_a_store_is_not_judged_by_its_memory() -> None:
    assert wrong(judge(soaked({PROCESSES["memcached"]: by_second(bytes=100_000)}), SHORT)) == []


def test_redis_is_judged_once_its_history_is_full() -> None:
    short = judge(soaked(), SHORT)
    assert not [row for row in short.rows if row.process == "redis"]
    full = judge(soaked(plan=LONG), LONG)
    assert [row.growth.span_s for row in full.rows if row.process == "redis" and row.growth] == [900.0]
    filling = judge(soaked({PROCESSES[REDIS]: lambda at_s: {"heap": 1000 * min(at_s, 900.0)}}, LONG), LONG)
    assert wrong(filling) == []
    leaking = judge(soaked({PROCESSES[REDIS]: by_second(heap=1000)}, LONG), LONG)
    assert wrong(leaking) == ["redis: heap by its own count"]


def test_a_process_that_did_not_live_long_enough_is_not_passed() -> None:
    run = soaked()
    early = [one for one in run.readings if one.process != "controller-1" or one.at_s < 40]
    verdict = judge(soaked(readings=early), SHORT)
    assert "controller-1: private memory" in wrong(verdict)


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"failures": {"502": 1}}, "every request is answered"),
        ({"sent": 0}, "every request is answered"),
        ({"refused": ("drain: 503",)}, "the controller accepts every step of churn"),
        ({"steps": 0}, "the controller accepts every step of churn"),
    ],
)
def test_one_failed_request_or_step_is_one_too_many(members: dict[str, object], what: str) -> None:
    assert wrong(judge(soaked(None, SHORT, **members), SHORT)) == [what]


@pytest.mark.parametrize(
    "ending",
    [
        Ending(in_flight={"server-1": 1}, settled_s=None, workers_left=2),
        Ending(in_flight={}, settled_s=None, workers_left=2),
        Ending(in_flight={"server-1": 0}, settled_s=0.2, workers_left=3),
        Ending(in_flight={"server-1": 0}, settled_s=0.2, workers_left=2, restarted=("agent-1 ended",)),
    ],
)
def test_the_state_at_the_end_is_judged(ending: Ending) -> None:
    assert len(wrong(judge(soaked(ending=ending), SHORT))) == 1


def test_a_worker_more_than_the_reloads_explain_has_crashed() -> None:
    run = soaked()
    last = run.readings[-1]
    stray = Reading(
        at_s=119.0,
        process=last.process,
        pid=9999,
        private_bytes=1,
        descriptors=1,
        threads=1,
    )
    verdict = judge(soaked(readings=(*run.readings, stray)), SHORT)
    assert wrong(verdict) == ["no restarts but nginx's reloads, and old workers exit"]


@pytest.mark.parametrize(
    ("plan", "reloads_s"), [(SHORT, (20.0, 40.0)), (LONG, (100.0, 200.0, 300.0, 400.0, 500.0, 600.0))]
)
def test_the_last_workers_live_through_two_thirds_of_a_soak(plan: Plan, reloads_s: tuple[float, ...]) -> None:
    assert plan.reloads_s == reloads_s


def test_half_an_hour_finds_a_worker_that_leaks_two_kilobytes_a_second() -> None:
    last = worker_pid(len(LONG.reloads_s))
    verdict = judge(soaked({last: by_second(bytes=2048)}, LONG), LONG)
    assert wrong(verdict) == ["nginx worker: private memory"]


def test_a_moment_of_many_connections_is_no_leak_of_descriptors() -> None:
    last = worker_pid(LAST)

    def stalled(at_s: float) -> Mapping[str, float]:
        return {"descriptors": 60 if at_s > 105 else 0}

    assert wrong(judge(soaked({last: stalled}), SHORT)) == []
