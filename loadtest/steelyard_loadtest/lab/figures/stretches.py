"""The stretches of a cell between its events, and who takes part in which. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard_loadtest.lab.scenario.model import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time in which nothing is done to the servers; seconds since the counted part began."""

    began_s: float
    ended_s: float

    @property
    def steady_s(self) -> float:
        """Return where its last third begins: by then shares should have settled."""
        return self.began_s + (self.ended_s - self.began_s) * 2 / 3


def moments_s(events: Sequence[Event]) -> list[float]:
    """Return when something changes, ascending: the end of a burn is a change like its begin."""
    begins = {event.at_s for event in events}
    return sorted(begins | {event.at_s + event.for_s for event in events if event.do == "burn"})


def stretches(events: Sequence[Event], ended_s: float) -> list[Stretch]:
    """Cut a cell of `ended_s` seconds at its events; the first stretch begins with the load."""
    cuts = [0.0, *(moment for moment in moments_s(events) if 0 < moment < ended_s), ended_s]
    return [Stretch(began_s=begin, ended_s=end) for begin, end in pairwise(cuts) if end > begin]


def takes_part(events: Sequence[Event], server: str, at_s: float) -> bool:
    """Say whether the balancer is meant to use a server at a moment.

    A server whose first event is that it joins was not there before.
    """
    own = sorted(
        (event for event in events if event.server == server and event.do != "burn"),
        key=lambda event: event.at_s,
    )
    before = [event for event in own if event.at_s < at_s]
    if before:
        return before[-1].do == "join"
    return not own or own[0].do == "leave"
