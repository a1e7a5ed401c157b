"""What a reader must know before he believes a scenario's figures. Pure."""

from collections.abc import Iterator

from steelyard_loadtest.lab.figures.verdict import FAILURES_AT_MOST
from steelyard_loadtest.lab.report import wording
from steelyard_loadtest.lab.report.view import View

BUSY = 0.8
"""A generator that uses more of its one core makes requests wait for itself."""


def remarks(view: View) -> list[str]:
    """Return the warnings of a scenario."""
    if not view.measured:
        return ["Nothing was measured."]
    return [*_unfinished(view), *_single(view), *_busy_generator(view), *_failures(view)]


def _unfinished(view: View) -> Iterator[str]:
    load = view.scenario.load
    there = {(entry.cell.algorithm, entry.cell.level, entry.cell.repeat) for entry in view.measured}
    missing = {entry.algorithm for entry in view.missing}
    wanted = [name for name in view.scenario.algorithms if name not in missing]
    planned = len(wanted) * len(load.levels) * load.repeats
    measured = sum(name not in missing for name, _, _ in there)
    if measured < planned:
        yield f"Unfinished: {measured} of {planned} cells are measured."


def _single(view: View) -> Iterator[str]:
    if view.repeats == 1:
        yield (
            "One repeat: there is no deviation, and differences of some ten percent may be noise."
            " Full scenarios repeat."
        )


def _busy_generator(view: View) -> Iterator[str]:
    for level in view.levels:
        busy = [
            wording.title(entry.algorithm)
            for entry in view.at(level)
            if (used := entry.metrics.get("generator_cpu_utilization")) and used.highest > BUSY
        ]
        if busy:
            yield (
                f"At {wording.level(view.scenario.load, level)} the generator used over {BUSY:g} of a core"
                f" with {wording.sentence(busy)}: part of what was measured may be its own queue."
            )


def _failures(view: View) -> Iterator[str]:
    for level in view.levels:
        failed = [entry for entry in view.at(level) if entry.failures_part > FAILURES_AT_MOST]
        if failed:
            names = [
                f"{wording.title(entry.algorithm)} ({wording.percent(entry.failures_part)})"
                for entry in failed
            ]
            yield (
                f"At {wording.level(view.scenario.load, level)} over {FAILURES_AT_MOST * 100:g} % of the"
                f" requests failed with {wording.sentence(names)}; latencies are of those that succeeded."
            )
