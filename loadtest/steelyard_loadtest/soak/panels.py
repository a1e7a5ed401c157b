"""What the soak's plot shows where: its panels, and the lines in them. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard_loadtest.soak.bounds import COMPILING, PYTHON, SERVER
from steelyard_loadtest.soak.nginx_status import WORKER_PREFIX
from steelyard_loadtest.soak.records import MASTER, WORKER, Overview, Reading, Soaked
from steelyard_loadtest.soak.wording import KB, MB

# Okabe and Ito's palette, which the colour-blind can tell apart.
ORANGE, BLUE, GREEN, PINK, SKY, BLACK, YELLOW = (
    "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#000000", "#E69F00",
)  # fmt: skip
COLORS = {
    WORKER: (ORANGE,),
    MASTER: (BLACK,),
    "controller": (BLUE, SKY),
    "agent": (GREEN,),
    "server": (PINK,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a panel; label: "" for one that needs no name of its own."""

    label: str
    color: str
    times_s: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A title with the unit, lines, and what a line may grow (0: there is no such bound)."""

    title: str
    lines: Sequence[Line]
    may_grow: float = 0.0
    warm_up_s: float = 0.0
    """Until then nothing is judged; of those that start later, from their start."""


def panels(soaked: Soaked) -> list[list[Panel]]:
    """Return the panels in rows: memory, descriptors, and the whole."""
    return [
        _processes(soaked.readings, "private_bytes", MB, soaked.seconds),
        _processes(soaked.readings, "descriptors", 1, soaked.seconds),
        _whole(soaked),
    ]


def _processes(readings: Sequence[Reading], member: str, unit: float, seconds: float) -> list[Panel]:
    figure = "private memory, MB" if member == "private_bytes" else "descriptors"
    return [
        Panel(
            title=f"{title}: {figure}",
            lines=_lines(readings, kinds, member, unit),
            may_grow=getattr(may, member) / unit,
            warm_up_s=may.warm_after_s(seconds),
        )
        for title, kinds, may in (
            ("nginx", (MASTER, WORKER), COMPILING),
            ("controllers", ("controller",), PYTHON),
            ("agents", ("agent",), PYTHON),
            ("demo servers", ("server",), SERVER),
        )
    ]


def _lines(readings: Sequence[Reading], kinds: Sequence[str], member: str, unit: float) -> list[Line]:
    lives: dict[tuple[str, int], list[Reading]] = defaultdict(list)
    for reading in readings:
        if reading.process.startswith(tuple(kinds)):
            lives[reading.process, reading.pid].append(reading)
    found: list[Line] = []
    named: set[str] = set()
    used: dict[str, int] = defaultdict(int)
    for (process, _), life in lives.items():
        kind = next(kind for kind in kinds if process.startswith(kind))
        colors = COLORS[kind]
        # One name for all that look alike.
        label = process if len(colors) > 1 or kind == process else f"{kind}s"
        found.append(
            Line(
                label="" if label in named else label,
                color=colors[used[kind] % len(colors)],
                times_s=[one.at_s for one in life],
                values=[getattr(one, member) / unit for one in life],
            )
        )
        named.add(label)
        used[kind] += 1
    return found


def _whole(soaked: Soaked) -> list[Panel]:
    seen = soaked.overviews
    times_s = [one.at_s for one in seen]
    under_way = [
        sum(count for name, count in one.in_flight.items() if not name.startswith(WORKER_PREFIX))
        for one in seen
    ]
    between = list(pairwise(seen))
    later_s = [after.at_s for _, after in between]
    return [
        Panel(
            title="requests in flight at all servers",
            lines=[Line(label="", color=ORANGE, times_s=times_s, values=under_way)],
        ),
        Panel(
            title="requests/s",
            lines=[
                Line(
                    label="ended",
                    color=BLUE,
                    times_s=later_s,
                    values=[_per_s(*two, "sent") for two in between],
                ),
                Line(
                    label="failed",
                    color=ORANGE,
                    times_s=later_s,
                    values=[_per_s(*two, "failed") for two in between],
                ),
            ],
        ),
        Panel(
            title="steps of churn/s",
            lines=[
                Line(
                    label="", color=BLACK, times_s=later_s, values=[_per_s(*two, "steps") for two in between]
                )
            ],
        ),
        Panel(title="kept in the stores, kB", lines=_stores(seen)),
    ]


def _stores(seen: Sequence[Overview]) -> list[Line]:
    found = []
    for label, color, member in (("Memcached", GREEN, "items_bytes"), ("Redis", PINK, "redis_bytes")):
        known = [(one.at_s, value / KB) for one in seen if (value := getattr(one, member)) is not None]
        if known:
            found.append(
                Line(
                    label=label,
                    color=color,
                    times_s=[at for at, _ in known],
                    values=[value for _, value in known],
                )
            )
    return found


def _per_s(before: Overview, after: Overview, member: str) -> float:
    grown: int = getattr(after, member) - getattr(before, member)
    return grown / max(after.at_s - before.at_s, 1e-9)
