"""The presentation of the law `steelyard`: sentence, steps and reasons. Pure."""

from math import exp, isnan

from steelyard_controller.laws.presentation import (
    Presentation,
    Row,
    Step,
    count_of,
    in_digits,
    in_percent,
    in_seconds,
    in_ticks,
)
from steelyard_controller.laws.snapshot import INDICATORS

# The sentence leaves out factors within half a percent of 1, and loads below it.
SMALLEST_SHOWN = 0.005

# The sentence names the baseline when at least this part of the estimate comes from it.
PRIOR_SHOWN = 0.1

# Without recent evidence, the sentence names only the baseline if at least this part of the estimate comes
# from it. Otherwise it names the capacity that the law remembers.
PRIOR_IS_NEARLY_ALL = 0.9

# An indicator with more than this left does not limit the server.
NEARLY_FULL = 0.25


def _reason(row: Row) -> list[str]:
    parameters = row.decision.parameters
    evidence, prior = row.get("evidence_requests"), row.get("prior_share")
    left = {each: row.get(f"smoothed_{each}") for each in row.decision.indicators}
    known = {each: value for each, value in left.items() if not isnan(value)}
    sampled = bool(known)
    remembered = evidence < 1 and prior < PRIOR_IS_NEARLY_ALL
    if evidence < 1 and not remembered and not sampled:
        clauses = [f"no sample yet, so it gets its baseline {row.baseline}"]
    elif evidence < 1 and not remembered:
        clauses = [f"no recent work shows its capacity, so it gets its baseline {row.baseline}"]
    else:
        able = in_digits(float(row.decision.capacity_estimate[row.index]))
        clauses = [
            f"does {able} requests per busy second",
            "remembered from earlier requests"
            if remembered
            else f"from {count_of(evidence, 'observed request')}",
        ]
        if row.is_set("inferred"):
            clauses.append("judged by its requests in flight, because it has no agent")
        if row.get("not_ours") >= SMALLEST_SHOWN:
            clauses.append(f"while something else takes {in_percent(row.get('not_ours'))} of the server")
        if prior >= PRIOR_SHOWN:
            clauses.append(
                f"{in_percent(prior)} of its estimated capacity is assumed from its baseline {row.baseline}"
            )
    tightest = min(known, key=lambda each: known[each], default="")
    # The page shows CPU and memory beside the sentence, but not the application's own indicators.
    if tightest and tightest not in INDICATORS and known[tightest] <= NEARLY_FULL:
        clauses.append(f"its tightest indicator is {tightest}, with {in_percent(known[tightest])} left")
    clauses += _taken_off(row)
    if row.is_set("restarted"):
        clauses.append("its speed has just changed, so earlier evidence is discarded")
    if sampled and row.is_set("sampleless_ticks"):
        clauses.append(f"without a sample for {in_ticks(row.get('sampleless_ticks'))}")
    if 0 < row.get("reportless_ticks") < 99:
        clauses.append(f"without a traffic report for {in_ticks(row.get('reportless_ticks'))}")
    if row.is_set("clamp_floor"):
        clauses.append(f"held at the floor of {in_percent(parameters['m_min'])} of the baseline")
    if row.is_set("clamp_ceiling"):
        clauses.append(f"held at the ceiling of {exp(parameters['z_max']):.0f} times the baseline")
    return clauses


def _taken_off(row: Row) -> list[str]:
    """Return a clause for each factor that changes the weight noticeably."""
    clauses = []
    factor, over_s = row.get("backlog"), row.get("backlog_s") - row.get("mean_backlog_s")
    if factor < 1 - SMALLEST_SHOWN:
        over = in_seconds(over_s)
        clauses.append(f"{in_percent(1 - factor)} taken off for a backlog of {over} above the mean")
    elif factor > 1 + SMALLEST_SHOWN:
        below = in_seconds(-over_s)
        clauses.append(f"{in_percent(factor - 1)} added for a backlog of {below} below the mean")
    if row.get("slow") < 1 - SMALLEST_SHOWN:
        clauses.append(
            f"{in_percent(1 - row.get('slow'))} taken off because it answers slower than its load explains"
        )
    if row.get("err") < 1 - SMALLEST_SHOWN:
        clauses.append(f"{in_percent(1 - row.get('err'))} taken off because it fails more than the others")
    # If all servers are starting, slow start holds none of them back.
    most_joined = row.largest("join")
    joined = row.get("join") / most_joined if most_joined > 0 else 1.0
    if joined < 1 - SMALLEST_SHOWN:
        clauses.append(f"held to {in_percent(joined)} by slow start")
    return clauses


PRESENTATION = Presentation(
    sentence="weights follow each server's capacity: requests per busy second",
    color="#D55E00",
    reason=_reason,
    steps=(
        Step(
            "Capacity",
            "{capacity_estimate:count} requests per busy second",
            "Learnt from {evidence_requests:count} requests in {evidence_busy_s:duration} of its work. "
            "{prior_share:percent} of the figure is assumed from its baseline.",
        ),
        Step(
            "Not ours",
            "{not_ours:percent}",
            "The part of the server that something else uses, a neighbour or a cron job. "
            "The capacity above excludes it.",
        ),
        Step(
            "In flight",
            "{waiting:count} waiting",
            "{open:count} more are open and do not wait: idle connections, streams, requests being served.",
        ),
        Step(
            "Backlog",
            "{backlog:factor}",
            "Work of {backlog_s:milliseconds} waits in it; "
            "the mean over all servers is {mean_backlog_s:milliseconds}.",
        ),
        Step("Slowness", "{slow:factor}", "Below 1 when it answers slower than its load explains."),
        Step("Failures", "{err:factor}", "Below 1 when more of its requests fail than the others'."),
        Step(
            "Slow start",
            "{join:factor}",
            "Below 1 while it is new. If it is the same for all servers, it changes nothing.",
        ),
    ),
    limits={
        "residual": "utilization above 100 % counts as 100 %",
        "backlog": "the backlog factor is at its limit",
        "floor": "at the smallest part of the baseline that the law allows",
        "ceiling": "at the largest multiple of the baseline that the law allows",
    },
)
