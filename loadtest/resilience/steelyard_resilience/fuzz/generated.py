"""Fuzz a target with edited examples, and shrink an input that breaks a promise."""

import time
from collections import Counter
from random import Random

from steelyard_resilience.fuzz.edits import an_input
from steelyard_resilience.fuzz.target import Tally, Target, Violation, ViolationError, outcome_of

METHOD = "generated"

LEAST = 50
"""Minimum of inputs, even in a short time."""

SHRINK_S = 30.0
"""Time limit, because a decoder may be slow, and an input long."""


def run(target: Target, *, seconds: float, seed: int, method: str = METHOD) -> Tally:
    """Try inputs for `seconds`, or until one breaks a promise; return their outcomes."""
    random, outcomes, violations = Random(seed), Counter[str](), list[Violation]()
    deadline_s = time.monotonic() + seconds
    while not violations and (outcomes.total() < LEAST or time.monotonic() < deadline_s):
        data = an_input(random, target.seeds)
        try:
            outcomes[outcome_of(target, data)] += 1
        except ViolationError as error:
            violations.append(shrunk(target, Violation(what=str(error), input=data)))
    return Tally(
        target.name, method, about=target.about, outcomes=dict(outcomes), violations=tuple(violations)
    )  # fmt: skip


def shrunk(target: Target, violation: Violation) -> Violation:
    """Remove pieces, halves first and single bytes last, as long as the rest still breaks a promise."""
    deadline_s, size = time.monotonic() + SHRINK_S, len(violation.input) // 2
    while size and time.monotonic() < deadline_s:
        at = 0
        while at < len(violation.input) and time.monotonic() < deadline_s:
            less = violation.input[:at] + violation.input[at + size :]
            try:
                outcome_of(target, less)
                at += size
            except ViolationError as error:
                violation = Violation(what=str(error), input=less)
        size //= 2
    return violation
