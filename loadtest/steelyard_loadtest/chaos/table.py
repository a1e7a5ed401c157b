"""The outcomes as Markdown: one table by group, and why the bounds are what they are. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from steelyard_loadtest.chaos import wording
from steelyard_loadtest.chaos.model import Outcome
from steelyard_loadtest.chaos.records import Stray

HEAD = ("fault", "sent", "failed", "worst ms", "well again after s", "rung", "")
WORDS = (0, 5, 6)
"""Columns that are not figures."""


def report(
    outcomes: Sequence[Outcome],
    *,
    requests: int,
    strays: Sequence[Stray],
    interrupted: bool,
    conditions: Mapping[str, str],
    pictures: Mapping[str, str],
) -> str:
    """Return the whole report; pictures: paths by what they show."""
    parts = [
        f"**{wording.summary(outcomes, requests, strays)}{', interrupted' if interrupted else ''}.**",
        *(f"![{shows}]({path})" for shows, path in pictures.items()),
        table(outcomes),
        LEGEND,
        *_listed("Broken:", broken(outcomes)),
        *_listed("Failed between the faults:", between(strays)),
        *_listed("Why the bounds are what they are:", reasons(outcomes)),
        "\n".join(f"- {name}: {value}" for name, value in conditions.items()),
    ]
    return "\n\n".join(parts) + "\n"


LEGEND = (
    "Each figure stands beside its bound. *failed*: no answer, another status than 200, a body that is not "
    "whole, or the answer to another request; *worst*: the slowest good answer, from when its request was "
    "due; *well again*: from the fault's end until every part says that all is well; *rung*: the worst that "
    "nginx's weights rested on."
)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table; a row that has only a name is a group's."""
    lines = [HEAD, tuple(":--" if column in WORDS else "--:" for column in range(len(HEAD)))]
    for group in groups(outcomes):
        lines.append((f"**{group}**", *[""] * (len(HEAD) - 1)))
        lines += [_row(outcome) for outcome in outcomes if outcome.group == group]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def groups(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the groups in the order of their first outcomes."""
    return list(dict.fromkeys(outcome.group for outcome in outcomes))


def broken(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a line for each fault that broke a bound."""
    return [f"{outcome.fault}: {'; '.join(outcome.broken)}" for outcome in outcomes if outcome.broken]


def between(strays: Iterable[Stray]) -> list[str]:
    """Return a line for each place between two faults where requests failed."""
    kinds: dict[str, dict[str, int]] = {}
    for stray in strays:
        own = kinds.setdefault(f"before {stray.before}" if stray.before else "at the end", {})
        own[stray.request.failure] = own.get(stray.request.failure, 0) + 1
    return [
        f"{where}: {', '.join(f'{count} {kind}' for kind, count in own.items())}"
        for where, own in kinds.items()
    ]


def reasons(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a line for each reason, with the faults that it is the reason for."""
    faults: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.bound.why:
            faults.setdefault(outcome.bound.why, []).append(outcome.fault)
    return [f"{', '.join(names)}: {why}" for why, names in faults.items()]


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    return ["\n".join([title, "", *(f"- {text}" for text in lines)])] if lines else []


def _row(outcome: Outcome) -> tuple[str, ...]:
    return (
        outcome.fault.replace("|", r"\|"),
        f"{outcome.sent:,}",
        wording.failed(outcome),
        wording.worst(outcome),
        wording.recovered(outcome),
        wording.rung(outcome),
        wording.PASS if outcome.passed else f"**{wording.BROKEN}**",
    )
