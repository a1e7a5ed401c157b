"""Fuzz a target with hypothesis, which shrinks what it finds to the smallest such input."""

import time
from collections import Counter

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from steelyard_resilience.fuzz.edits import an_input
from steelyard_resilience.fuzz.target import Tally, Target, Violation, ViolationError, outcome_of

METHOD = "hypothesis"

# So many inputs are drawn between two looks at the clock.
ROUND = 200

# Before the clock counts: the first inputs of a process are slow, for hypothesis builds its tables.
LEAST = 50


def run(target: Target, *, seconds: float, seed: int, method: str = METHOD) -> Tally:
    """Try inputs for so long, at least a round of them; return what came of them."""
    outcomes: Counter[str] = Counter()
    deadline, rounds = time.monotonic() + seconds, 0
    violations: list[Violation] = []
    while not violations and (rounds == 0 or time.monotonic() < deadline):
        violations = _round(target, seed + rounds, outcomes, deadline)
        rounds += 1
    shrunk = tuple(violations[-1:])
    return Tally(target.name, method, about=target.about, outcomes=dict(outcomes), violations=shrunk)


def _round(target: Target, seed: int, outcomes: Counter[str], deadline: float) -> list[Violation]:
    failed: list[Violation] = []
    inputs = st.randoms(use_true_random=False).map(lambda random: an_input(random, target.seeds))

    @hypothesis.seed(seed)
    @settings(
        max_examples=ROUND,
        database=None,  # the results folder keeps what is found
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(inputs)
    def one(data: bytes) -> None:
        if not failed and outcomes.total() >= LEAST and time.monotonic() > deadline:
            return
        try:
            outcome = outcome_of(target, data)
        except ViolationError as error:
            failed.append(Violation(what=str(error), input=data))
            raise
        if not failed:  # what shrinking tries is not counted
            outcomes[outcome] += 1

    try:
        one()
    except ViolationError:
        return failed
    return []
