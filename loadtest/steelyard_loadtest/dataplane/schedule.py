"""What is measured in which order, and how long the rest will take. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard_loadtest.dataplane.contenders import Contender


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One measurement to be made."""

    round: int
    peers: int
    contender: Contender


def steps(contenders: Sequence[Contender], peer_counts: Sequence[int], rounds: int) -> Iterator[Step]:
    """Go through all contenders, at each number of servers, in each round.

    Each round begins with another contender, and every other one goes backwards:
    nobody always runs first, last, or after the same one.
    """
    for number in range(1, rounds + 1):
        first = (number - 1) % max(1, len(contenders))
        order = [*contenders[first:], *contenders[:first]]
        for count in peer_counts:
            for contender in order if number % 2 else reversed(order):
                yield Step(round=number, peers=count, contender=contender)


def time_left(done: int, total: int, spent_s: float, guess_s: float) -> str:
    """Write what the rest takes at the pace so far; at `guess_s` each before there is one."""
    each_s = spent_s / done if done else guess_s
    left_s = round((total - done) * each_s)
    hours, minutes = left_s // 3600, left_s // 60 % 60
    return f"{hours}:{minutes:02}:{left_s % 60:02}" if hours else f"{minutes}:{left_s % 60:02}"
