"""From requests and looks to the outcome of a fault: its cost, and the bounds that it broke. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from steelyard_loadtest.generators.tally import Request

from steelyard_resilience.chaos.fault import RUNGS, Gathered, Look, Outcome, Trial


def of_fault(requests: Iterable[Request], trial: Trial) -> list[Request]:
    """Return the fault's requests: those due before its end that it could touch.

    Requests under way when it began are among them: a killed process takes them with it.
    """
    return [one for one in requests if one.due_s < trial.until_s and ended_s(one) >= trial.began_s]


def strays(run: Gathered) -> list[Request]:
    """Return the failed requests that belong to no fault; the trials are in order.

    If the cluster did not recover from a fault, later failures are that fault's, although its row does not
    count them. The same holds for the fault under way when the run was interrupted.
    """
    lost = []
    for one in run.requests:
        if one.failure and not any(of_fault([one], trial) for trial in run.trials):
            earlier = [trial for trial in run.trials if trial.began_s <= one.due_s]
            unfinished = run.interrupted and len(earlier) == len(run.trials)
            if not unfinished and (not earlier or earlier[-1].recovered_s is not None):
                lost.append(one)
    return lost


def well_since(looks: Sequence[Look], since_s: float) -> float | None:
    """Return the moment since which every look was good; None if the last look was not.

    The looks are in the order of their moments; those before since_s do not count.
    """
    well_s = None
    for look in looks:
        if look.at_s >= since_s:
            well_s = None if look.not_well else look.at_s if well_s is None else well_s
    return well_s


def outcome(trial: Trial, requests: Iterable[Request], looks: Iterable[Look]) -> Outcome:
    """Judge a fault. The requests and looks may be those of the whole run."""
    own = of_fault(requests, trial)
    seen = [look for look in looks if trial.began_s <= look.at_s <= trial.until_s]
    kinds = Counter(one.failure for one in own if one.failure)
    latencies_ms = [one.latency_ms for one in own if not one.failure]
    judged = Outcome(
        fault=trial.fault,
        group=trial.group,
        sent=len(own),
        failed=kinds.total(),
        kinds=dict(sorted(kinds.items())),
        worst_ms=max(latencies_ms, default=None),
        slow=sum(latency_ms > trial.bound.worst_ms / 2 for latency_ms in latencies_ms),
        recover_s=None if trial.recovered_s is None else max(trial.recovered_s - trial.undone_s, 0.0),
        rung=max((look.rung for look in seen if look.rung), key=RUNGS.index, default=None),
        bound=trial.bound,
        broken=trial.wrong,
    )
    reasons = [look.not_well for look in seen if look.not_well]
    return replace(judged, broken=(*trial.wrong, *_broken(judged, reasons)))


def ended_s(request: Request) -> float:
    """Return the moment at which a request ended."""
    return request.due_s + request.latency_ms / 1000


def _broken(one: Outcome, reasons: Sequence[str]) -> Iterator[str]:
    bound = one.bound
    if not one.sent:
        yield "no request was sent"  # a trial without requests proves nothing
    if one.failed > bound.failed:
        named = ", ".join(f"{count} {kind}" for kind, count in Counter(one.kinds).most_common())
        yield f"{one.failed} of {one.sent} requests failed ({named}), more than {bound.failed}"
    if one.worst_ms is not None and one.worst_ms > bound.worst_ms:
        yield f"the slowest answer took {one.worst_ms:,.0f} ms, more than {bound.worst_ms:,.0f}"
    if bound.slow is not None and one.slow > bound.slow:
        yield f"{one.slow} answers took longer than {bound.worst_ms / 2:,.0f} ms, more than {bound.slow}"
    if one.recover_s is None:
        yield ": ".join(["not well again in time", *reasons[-1:]])
    elif one.recover_s > bound.recover_s:
        yield f"well again after {one.recover_s:.1f} s, later than {bound.recover_s:g}"
    if one.rung is not None and RUNGS.index(one.rung) > RUNGS.index(bound.rung):
        yield f"nginx's weights were {one.rung}, worse than {bound.rung}"
