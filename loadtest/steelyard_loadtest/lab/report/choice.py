"""Which algorithms and levels a plot shows, where all would be too many. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from steelyard_loadtest.lab.algorithms import DEFAULT
from steelyard_loadtest.lab.report.view import View
from steelyard_loadtest.lab.scenario.model import Scenario

PREFERRED = (
    DEFAULT, "direct", "nginx-wrr", "nginx-fair", "nginx-least_conn", "nginx-rr", "steelyard-paper-vnswrr",
    "envoy-cswrr", "haproxy-leastconn", "haproxy-roundrobin", "haproxy-tcp", "envoy-least_request",
    "haproxy-leastconn-agent", "nginx-random2",
)  # fmt: skip
"""First what the five sources compare, then what an operator would choose."""

LINES = 9
"""More lines in one plot cannot be told apart."""
PANELS = 4
"""More panels beside each other are too small to read."""


def lines(view: View, most: int = LINES) -> list[str]:
    """Return the algorithms to draw as lines: ours, the best online peers, then the preferred ones."""
    rivals = [verdict.online.algorithm for verdict in view.verdicts if verdict.online]
    # The one that is the best peer at most levels comes first.
    rivals.sort(key=lambda name: -rivals.count(name))
    wanted = [DEFAULT, *rivals, *PREFERRED, *view.algorithms]
    return [name for name in dict.fromkeys(wanted) if name in view.algorithms][:most]


def levels(found: Sequence[float]) -> list[float]:
    """Return at most four levels, the lowest and the highest among them, evenly spread."""
    if len(found) <= PANELS:
        return list(found)
    step = (len(found) - 1) / (PANELS - 1)
    return [found[round(position * step)] for position in range(PANELS)]


def main_level(view: View) -> float | None:
    """Return the level that is shown where there is room for one.

    The highest at which our default kept its failures low: above that, everything is
    a queue. Else the highest. None: nothing was measured.
    """
    found = view.levels
    held = [verdict.level for verdict in view.verdicts if verdict.standing in ("met", "missed", "no peer")]
    return max(held or found, default=None)


def unlike(scenario: Scenario) -> list[str]:
    """Return the servers that differ from the most, or to which something happens."""
    abilities = {server.name: replace(server, name="") for server in scenario.servers}
    usual = Counter(abilities.values()).most_common(1)[0][0]
    touched = {event.server for event in scenario.events}
    return [name for name, ability in abilities.items() if ability != usual or name in touched]
