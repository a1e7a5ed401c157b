"""Why a peer has its weight: every figure of one row of a decision, and one sentence.

Pure. The sentence begins with the weight as it is in the table, gives the main
reason, then what was taken off and what is missing, and ends with the clamps
that were hit.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, isnan

import numpy as np

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import INDICATORS

# Factors within half a percent of 1 are left out of the sentence.
WORTH_SAYING = 0.005

# Where more of an indicator is left it holds nobody up.
NEARLY_FULL = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One peer's row of a decision; None where a figure is not known.

    `figures` are the decision's columns by name: inputs and their ages, residuals, evidence,
    factors, restarts, and the clamps (`clamp_...`, 1 where hit). `clamps` names those that were.
    """

    id: str
    law: str
    weight: float
    weight_before: float | None
    published: int
    baseline: float
    score: float | None
    capacity_estimate: float | None
    alert: bool
    entropy_weights: Mapping[str, float]
    figures: Mapping[str, float | None]
    clamps: tuple[str, ...]
    parameters: Mapping[str, float]
    sentence: str

    def to_dict(self) -> dict[str, object]:
        """Return every figure as a JSON-able object."""
        return asdict(self)


def explain(decision: Decision, index: int) -> Explanation:
    """Return every figure behind the weight of peer `index`, and one sentence for a person."""
    figures = {name: _known(column[index]) for name, column in decision.columns.items()}
    return Explanation(
        id=decision.ids[index],
        law=decision.law,
        weight=float(decision.weights[index]),
        weight_before=figures.get("weight_before"),
        published=int(decision.published[index]),
        baseline=float(decision.baseline[index]),
        score=_known(decision.score[index]),
        capacity_estimate=_known(decision.capacity_estimate[index]),
        alert=decision.alert,
        entropy_weights=dict(zip(decision.indicators, decision.entropy_weights.tolist(), strict=True)),
        figures=figures,
        clamps=tuple(
            name.removeprefix("clamp_")
            for name, value in figures.items()
            if name.startswith("clamp_") and value == 1
        ),
        parameters=dict(decision.parameters),
        sentence=teller(decision)(index),
    )


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)


def teller(decision: Decision) -> Callable[[int], str]:
    """Return what tells the sentence for the peer at an index; what the peers share is reckoned once."""
    if decision.parts:
        (_, before), (_, after) = decision.parts
        return partial(_blended, decision, teller(before), teller(after))
    most_joined = _most_joined(decision)
    return lambda index: _sentence(_Row(decision, index, most_joined))


def _most_joined(decision: Decision) -> float:
    """Return how far slow start has let the first of the peers in service; 0 where there is none."""
    columns = decision.columns
    if "join" not in columns:
        return 0.0
    return float(np.max(columns["join"], where=columns["eligible"] > 0, initial=0.0))


def _sentence(row: "_Row") -> str:
    decision = row.decision
    if row.is_set("leaving"):
        main = "because its agent said that the server is being stopped: a fiftieth of the baseline "
        clauses = [f"{main}{row.baseline}"]
    elif not isnan(row.get("pinned")):
        clauses = _pinned(row)
    else:
        clauses = _BY_LAW.get(decision.law, _static)(row)
    if row.get("eligible") == 0:
        clauses.append("out of service now, so this is kept for later and nothing is learnt")
    if row.is_set("clamp_one"):
        clauses.append("raised to 1, the least there is")
    return f"{row.weight} {', '.join(clauses)}"


class _Row:
    """One peer's figures, read by name; NaN where there is none."""

    def __init__(self, decision: Decision, index: int, most_joined: float) -> None:
        self.decision = decision
        self.most_joined = most_joined
        self.index = index
        self.weight = str(decision.published[index])
        self.baseline = f"{decision.baseline[index]:.0f}"

    def get(self, name: str) -> float:
        column = self.decision.columns.get(name)
        return float("nan") if column is None else float(column[self.index])

    def is_set(self, name: str) -> bool:
        return self.get(name) > 0


def _pinned(row: _Row) -> list[str]:
    pinned = f"because a person pinned it to {100 * row.get('pinned') / row.decision.total:.4g} %"
    if row.is_set("clamp_pin"):
        return [f"{pinned}, scaled so that the pins leave every other server at least 1"]
    return [pinned]


def _static(_row: _Row) -> list[str]:
    return ["because that is its baseline, which the law static keeps"]


def _steelyard(row: _Row) -> list[str]:
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
        able = _figure(float(row.decision.capacity_estimate[row.index]))
        main = f"because it does {able} requests per busy second"
        if row.get("not_ours") >= WORTH_SAYING:
            main += f" while something else takes {_percent(row.get('not_ours'))} of it"
        clauses = [f"{main} (baseline {row.baseline}: prior {_percent(prior)})"]
    tightest = min(known, key=lambda each: known[each], default="")
    # What a person sees at once, CPU and memory, needs no word; what the application says of itself does.
    if tightest and tightest not in INDICATORS and known[tightest] <= NEARLY_FULL:
        clauses.append(f"what it has least of is {tightest}: {_percent(known[tightest])} is left")
    clauses += _taken_off(row)
    if row.is_set("restarted"):
        clauses.append("its speed has just changed, so what was known before is forgotten")
    silent = row.get("sampleless_ticks")
    if sampled and silent > 0:
        clauses.append(f"without a sample for {_ticks(silent)}")
    if 0 < row.get("reportless_ticks") < 99:
        clauses.append(f"without a traffic report for {_ticks(row.get('reportless_ticks'))}")
    if row.is_set("clamp_floor"):
        clauses.append(f"held at the floor of {_percent(parameters['m_min'])} of the baseline")
    if row.is_set("clamp_ceiling"):
        clauses.append(f"held at the ceiling of {exp(parameters['z_max']):.0f} times the baseline")
    return clauses


def _taken_off(row: _Row) -> list[str]:
    """Return a clause for each factor that changes the weight noticeably."""
    clauses = []
    factor, over_s = row.get("backlog"), row.get("backlog_s") - row.get("mean_backlog_s")
    if factor < 1 - WORTH_SAYING:
        clauses.append(f"{_percent(1 - factor)} taken off for a backlog of {_seconds(over_s)} above the mean")
    elif factor > 1 + WORTH_SAYING:
        clauses.append(f"{_percent(factor - 1)} added for a backlog of {_seconds(-over_s)} below the mean")
    if row.get("slow") < 1 - WORTH_SAYING:
        clauses.append(
            f"{_percent(1 - row.get('slow'))} taken off because it answers slower than its load explains"
        )
    if row.get("err") < 1 - WORTH_SAYING:
        clauses.append(f"{_percent(1 - row.get('err'))} taken off because it fails more than the others")
    # Where all are starting, slow start holds nobody back.
    joined = row.get("join") / row.most_joined if row.most_joined > 0 else 1.0
    if joined < 1 - WORTH_SAYING:
        clauses.append(f"held to {_percent(joined)} by slow start")
    return clauses


def _paper(row: _Row) -> list[str]:
    score = float(row.decision.score[row.index])
    high, low = row.decision.parameters["H"], row.decision.parameters["L"]
    if isnan(score):
        return [f"because there is no sample of it to judge: its baseline is {row.baseline}"]
    # Eq 8 does not sum to S; without a word about it the figures would not add up.
    scaled = f"scaled so that all weights sum to {row.decision.total}"
    share = f"its {_percent(row.get('share'))} of all scores times its baseline {row.baseline}, {scaled}"
    if row.is_set("high_load"):
        return [f"because its score {score:.2f} is at most H = {high:g} (high load): {share}"]
    if row.is_set("low_load"):
        main = f"because its score {score:.2f} is at least L = {low:g} (low load)"
        return [f"{main} while another is overloaded: {share}"]
    if row.decision.alert:
        return [f"because its score {score:.2f} is between H and L: its baseline {row.baseline}, {scaled}"]
    return [f"because no score is at most H = {high:g}: it returns to its baseline {row.baseline}"]


def _cswrr(row: _Row) -> list[str]:
    median = row.get("median_weight")
    if isnan(median):
        return [f"because fewer than two peers have a weight of their own: its baseline {row.baseline}"]
    if row.is_set("own_weight"):
        able = _figure(float(row.decision.capacity_estimate[row.index]))
        clauses = [f"because it serves {able} requests per unit of utilization"]
        if row.get("eps") > 0:
            clauses.append(f"with {_figure(row.get('eps'))} failures per second counted as utilization")
        return clauses
    if row.is_set("blackout"):
        why = f"its reports are watched for another {_seconds(row.get('blackout_left_s'))} first"
    elif row.is_set("expired"):
        why = "its last report has expired"
    else:
        why = "it has not reported yet"
    return [f"because {why}: the median of the others, {_figure(median)} requests per unit of utilization"]


def _blended(
    decision: Decision, tell_before: Callable[[int], str], tell_after: Callable[[int], str], index: int
) -> str:
    (_, before), (part, after) = decision.parts
    return (
        f"{decision.weights[index]:.0f}, which is {_percent(part)} of the way "
        f"from {before.law} ({tell_before(index)}) to {after.law} ({tell_after(index)})"
    )


_BY_LAW: dict[str, Callable[[_Row], list[str]]] = {
    "steelyard": _steelyard,
    "paper": _paper,
    "cswrr": _cswrr,
    "static": _static,
}


def _percent(ratio: float) -> str:
    percent = 100 * ratio
    return f"{percent:.0f} %" if percent >= 0.95 or percent == 0 else f"{percent:.1f} %"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 0.095 else f"{1000 * value:.0f} ms"


def _ticks(count: float) -> str:
    return "1 tick" if count == 1 else f"{count:.0f} ticks"
