"""The order in which trials are measured, and their time. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from steelyard_loadtest.measurements.trials import Trial
from steelyard_loadtest.scenario.definition import Load, Scenario

START_S = 3.0
"""Approximate time to start and end a balancer."""

AROUND_S = {"locust": 2.5, "open": 1.0, "wrk": 0.5}
"""Approximate time to start a generator and wait for its last answers."""


def visits(scenario: Scenario, algorithms: tuple[str, ...]) -> Iterator[tuple[str, tuple[Trial, ...]]]:
    """Give each algorithm with its trials, once a repeat: a balancer is started once for all levels.

    Every repeat begins with another algorithm, and every other repeat goes backwards. So no algorithm is
    always the first or the last, or follows the same one.
    """
    for repeat in range(1, scenario.load.repeats + 1):
        turn = (repeat - 1) % max(len(algorithms), 1)
        order = algorithms[turn:] + algorithms[:turn]
        for algorithm in order if repeat % 2 else reversed(order):
            first = Trial(scenario=scenario.name, algorithm=algorithm, level=0.0, repeat=repeat)
            yield algorithm, tuple(replace(first, level=level) for level in scenario.load.levels)


def trial_s(load: Load) -> float:
    """Return the approximate time of a trial."""
    return load.warm_up_s + load.seconds + load.cool_down_s + AROUND_S[load.generator]


def scenario_s(scenario: Scenario) -> float:
    """Return the approximate time of all trials of a scenario."""
    load = scenario.load
    visit_s = START_S + len(load.levels) * trial_s(load)
    return len(scenario.algorithms) * load.repeats * visit_s
