"""How the law `steelyard` shows itself. Pure."""

from math import exp, isnan

from steelyard_controller.laws.presentation import (
    Presentation,
    Row,
    Step,
    in_digits,
    in_percent,
    in_seconds,
    in_ticks,
)
from steelyard_controller.laws.snapshot import INDICATORS

# Factors within half a percent of 1 are left out of the sentence.
WORTH_SAYING = 0.005

# Where more of an indicator is left it holds nobody up.
NEARLY_FULL = 0.25


def _reason(row: Row) -> list[str]:
    parameters = row.decision.parameters
    evidence, prior = row.get("evidence_requests"), row.get("prior_share")
    left = {each: row.get(f"smoothed_{each}") for each in row.decision.indicators}
    known = {each: value for each, value in left.items() if not isnan(value)}
    sampled = bool(known)
    if evidence < 1 and not sampled:
        clauses = [f"because there was no sample of it yet: on its baseline {row.baseline}"]
    elif evidence < 1:
        clauses = [
            f"because it has had no work lately that shows what it can do: on its baseline {row.baseline}"
        ]
    else:
        able = in_digits(float(row.decision.capacity_estimate[row.index]))
        main = f"because it does {able} requests per busy second"
        if row.get("not_ours") >= WORTH_SAYING:
            main += f" while something else takes {in_percent(row.get('not_ours'))} of it"
        clauses = [f"{main} (baseline {row.baseline}: prior {in_percent(prior)})"]
    tightest = min(known, key=lambda each: known[each], default="")
    # What a person sees at once, CPU and memory, needs no word; what the application says of itself does.
    if tightest and tightest not in INDICATORS and known[tightest] <= NEARLY_FULL:
        clauses.append(f"what it has least of is {tightest}: {in_percent(known[tightest])} is left")
    clauses += _taken_off(row)
    if row.is_set("restarted"):
        clauses.append("its speed has just changed, so what was known before is forgotten")
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
    if factor < 1 - WORTH_SAYING:
        over = in_seconds(over_s)
        clauses.append(f"{in_percent(1 - factor)} taken off for a backlog of {over} above the mean")
    elif factor > 1 + WORTH_SAYING:
        below = in_seconds(-over_s)
        clauses.append(f"{in_percent(factor - 1)} added for a backlog of {below} below the mean")
    if row.get("slow") < 1 - WORTH_SAYING:
        clauses.append(
            f"{in_percent(1 - row.get('slow'))} taken off because it answers slower than its load explains"
        )
    if row.get("err") < 1 - WORTH_SAYING:
        clauses.append(f"{in_percent(1 - row.get('err'))} taken off because it fails more than the others")
    # Where all are starting, slow start holds nobody back.
    most_joined = row.largest("join")
    joined = row.get("join") / most_joined if most_joined > 0 else 1.0
    if joined < 1 - WORTH_SAYING:
        clauses.append(f"held to {in_percent(joined)} by slow start")
    return clauses


PRESENTATION = Presentation(
    sentence="weights follow what each server can do: requests per busy second",
    color="#D55E00",
    reason=_reason,
    steps=(
        Step(
            "What it can do",
            "{capacity_estimate:count} requests per busy second",
            "Seen: {evidence_requests:count} requests in {evidence_busy_s:duration} of work. "
            "{prior_share:percent} of the estimate is its baseline.",
        ),
        Step(
            "Not ours",
            "{not_ours:percent}",
            "The part of it that something else keeps busy, a neighbour or a cron job: "
            "already taken off above.",
        ),
        Step(
            "In flight",
            "{waiting:count} waiting",
            "{open:count} beside them are merely open: idle connections, streams, requests being served.",
        ),
        Step(
            "Backlog",
            "{backlog:factor}",
            "Work worth {backlog_s:milliseconds} waits in it; "
            "the mean of all is {mean_backlog_s:milliseconds}.",
        ),
        Step("Slowness", "{slow:factor}", "Below 1 when it answers slower than its load explains."),
        Step("Failures", "{err:factor}", "Below 1 when more of its requests fail than the others'."),
        Step(
            "Slow start",
            "{join:factor}",
            "Below 1 while it is new. What is the same for all servers changes nothing.",
        ),
    ),
    limits={
        "residual": "free capacity was cut to 0…100 %",
        "backlog": "the factor for its backlog is at its limit",
        "floor": "at the least part of the baseline that the law gives",
        "ceiling": "at the largest multiple of the baseline that the law gives",
    },
)
