"""The grid of the scale study, and the simulation at each of its points. Pure."""

from dataclasses import dataclass

from steelyard_loadtest.simulate.model import (
    Balancing,
    Case,
    Draw,
    OpenClients,
    Server,
    Step,
    Work,
)

SPEEDS = (2.0, 3.0, 4.0, 5.0)
"""Of the servers, in turn: hardware of four years, which the baseline weights know."""

# With these a server of mean speed does 14 requests a second and gets 10.5: enough for a law to learn from,
# few enough that 10,000 servers are 105,000 requests a simulated second and not a million.
WORK_S = 0.25
LOAD = 0.75

# Every tick one server in a hundred becomes slower or faster, as many of the one as of the other, so that
# no table is right for long and all together can do what they could.
CHANGED_PART, SLOWER, FASTER = 0.01, 0.7, 1.3

# The queues of the start are gone after some ten services; then as many ticks are counted.
WARMUP_TICKS, MEASURED_TICKS = 10, 10

REQUESTS_PER_SERVER_S = LOAD * sum(SPEEDS) / len(SPEEDS) / WORK_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleCell:
    """One point of the scale study."""

    servers: int
    load_balancers: int
    picker: str

    def case(self) -> Case:
        """Return the simulation: servers of four speeds at three quarters of what they can do."""
        ticks = WARMUP_TICKS + MEASURED_TICKS
        servers = tuple(
            Server(speed=SPEEDS[number % len(SPEEDS)], baseline=SPEEDS[number % len(SPEEDS)], steps=steps)
            for number, steps in enumerate(_changes(self.servers, ticks))
        )
        return Case(
            servers=servers,
            clients=OpenClients(rate_per_s=REQUESTS_PER_SERVER_S * self.servers),
            work=Work(cpu=Draw(mean_s=WORK_S, shape="exponential")),
            duration_s=float(ticks),
            warmup_s=float(WARMUP_TICKS),
            balancing=Balancing(law="steelyard", picker=self.picker),
            balancers=self.load_balancers,
        )


def _changes(servers: int, ticks: int) -> list[tuple[Step, ...]]:
    """Return every server's changes: each tick the next hundredth, by fours slower and faster in turn."""
    each = max(1, round(servers * CHANGED_PART))
    changes: list[tuple[Step, ...]] = [() for _ in range(servers)]
    for tick in range(1, ticks):
        for one in range(each):
            number = ((tick - 1) * each + one) % servers
            factor = FASTER if number // len(SPEEDS) % 2 else SLOWER
            # In the middle of a tick: a window then holds both, as it does in life.
            changes[number] = (*changes[number], Step(at_s=tick + 0.5, factor=factor))
    return changes


SIZES = (100, 300, 1000, 3000, 10_000)
LOAD_BALANCERS = (1, 4, 16, 64, 256)
QUICK_SIZES, QUICK_LOAD_BALANCERS = (100, 200, 500), (1, 16, 64)

DEFAULT_PICKER, PLAIN_PICKER = "vnswrr2", "vnswrr"

MOST_PLAIN = 1000
"""The plain picker is there to show that shares follow the weights, which larger sizes only repeat."""

LARGEST = 10_000
LARGEST_LOAD_BALANCERS = (1, 16, 256)
"""A run of the largest size takes minutes; the ends and the middle tell the curve."""


def cells(sizes: tuple[int, ...], load_balancers: tuple[int, ...]) -> list[ScaleCell]:
    """Return the points of the study, the largest first, so that no core waits for one of them at the end."""
    return [
        ScaleCell(servers=servers, load_balancers=balancers, picker=picker)
        for servers in sorted(sizes, reverse=True)
        for balancers in sorted(load_balancers, reverse=True)
        for picker in (DEFAULT_PICKER, PLAIN_PICKER)
        if (picker == DEFAULT_PICKER or servers <= MOST_PLAIN)
        and (servers < LARGEST or balancers in LARGEST_LOAD_BALANCERS)
    ]


def seeds_of(cell: ScaleCell, most: int) -> int:
    """Return how many seeds a point gets: above 1000 servers, which are a sample themselves, two thirds."""
    return most if cell.servers <= MOST_PLAIN else min(most, max(2, round(most * 2 / 3)))
