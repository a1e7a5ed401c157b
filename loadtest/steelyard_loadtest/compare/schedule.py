"""In which order cells are measured, and how long that takes. Pure."""

from collections.abc import Iterator

from steelyard_loadtest.compare.records import Cell
from steelyard_loadtest.compare.scenario.definition import Load, Scenario

START_S = 3.0
"""What starting and ending a balancer take, about."""

AROUND_S = {"locust": 2.5, "siege": 2.5, "open": 1.0, "wrk": 0.5}
"""What starting a generator and waiting for its last answers take, about."""


def visits(scenario: Scenario, algorithms: tuple[str, ...]) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    """Give each algorithm with its cells, once a repeat: a balancer is started once for all levels.

    Every repeat begins with another algorithm, so that none always follows the same one.
    """
    for repeat in range(1, scenario.load.repeats + 1):
        turn = (repeat - 1) % max(len(algorithms), 1)
        for algorithm in algorithms[turn:] + algorithms[:turn]:
            yield (
                algorithm,
                tuple(
                    Cell(scenario=scenario.name, algorithm=algorithm, level=level, repeat=repeat)
                    for level in scenario.load.levels
                ),
            )


def cell_s(load: Load) -> float:
    """Return about how long a cell takes."""
    return load.warm_up_s + load.seconds + load.cool_down_s + AROUND_S[load.generator]
