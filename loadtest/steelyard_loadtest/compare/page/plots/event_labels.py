"""Labels of a trial's events above its lines, and their places, so that none is over another. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.reporting.wording import sentence
from steelyard_loadtest.scenario.definition import Happening, Scenario

CHARACTER_IN = 0.054
"""Mean width of a character of 7 points."""

ACTIONS: dict[Happening, tuple[str, str]] = {
    "burn": ("CPU taken", "CPU taken"),
    "hold": ("workers held", "workers held"),
    "cold": ("cache is empty", "caches are empty"),
    "spin": ("waits busily", "wait busily"),
    "fail": ("fails", "fail"),
    "slow": ("is slow", "are slow"),
    "leave": ("leaves", "leave"),
    "join": ("joins", "join"),
}
"""For one server and for several."""

POSSESSIVE = ("burn", "hold", "cold")


class Label(NamedTuple):
    """The text of what happens at a moment."""

    at_s: float
    text: str


class Placed(NamedTuple):
    """A label in a row, 0 on top; x_s: its left end, or its right end if it would leave the panel."""

    text: str
    x_s: float
    row: int
    to_the_left: bool


def labels(scenario: Scenario) -> list[Label]:
    """Return a label for each kind of event at each moment, in the order of time."""
    every = len(scenario.servers)
    same = grouped(scenario.events, lambda event: (event.at_s, event.for_s, event.do))
    known = [
        Label(at_s, _text(do, [event.server for event in events], every))
        for (at_s, _, do), events in same.items()
    ]
    known += [
        Label(server.takeover.at_s, f"{server.name} is replaced")
        for server in scenario.servers
        if server.takeover
    ]
    return sorted(known, key=lambda label: label.at_s)


def placed(wanted: Sequence[Label], seconds: float, width_in: float) -> list[Placed]:
    """Give each label the highest row with room for it; `seconds` are `width_in` inches wide."""
    return list(_placed(wanted, seconds, width_in))


def _placed(wanted: Sequence[Label], seconds: float, width_in: float) -> Iterator[Placed]:
    ends: list[list[tuple[float, float]]] = []
    for label in wanted:
        width_s = (len(label.text) + 1) * CHARACTER_IN / width_in * seconds
        to_the_left = label.at_s + width_s > seconds
        x_s = seconds if to_the_left else label.at_s
        own = (x_s - width_s, x_s) if to_the_left else (x_s, x_s + width_s)
        row = next(
            (row for row, taken in enumerate(ends) if all(own[1] <= a or b <= own[0] for a, b in taken)),
            len(ends),
        )
        if row == len(ends):
            ends.append([])
        ends[row].append(own)
        yield Placed(label.text, x_s, row, to_the_left)


def _text(do: Happening, servers: Sequence[str], every: int) -> str:
    one = len(servers) == 1
    who = "all servers" if not one and len(servers) == every else sentence(servers)
    if do in POSSESSIVE:
        who += "'" if who == "all servers" else "'s"
    return f"{who} {ACTIONS[do][0 if one else 1]}"
