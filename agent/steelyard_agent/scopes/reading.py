"""A reading of any scope, and the sample between two of them.

Pure. A reading is raw counters at one instant. What could not be read is None;
everything else only ever counts up (except the memory gauges).
"""

from dataclasses import dataclass

from steelyard_agent.sample import Indicators, Sample
from steelyard_agent.scopes import cgroup, host, process
from steelyard_agent.scopes.cgroup import CgroupReading
from steelyard_agent.scopes.host import HostReading
from steelyard_agent.scopes.process import ProcessReading

# The wire format's bounds of an interval. After an hour's pause an average says nothing about now.
MIN_INTERVAL_S = 0.001
MAX_INTERVAL_S = 3600.0

Reading = HostReading | CgroupReading | ProcessReading


@dataclass(frozen=True, slots=True)
class Absent:
    """What was to be read is not there (yet); `why` is a sentence for a person."""

    why: str


def sample_between(before: Reading, after: Reading, limits: Indicators) -> Sample | None:
    """Return the sample between two readings; None when they do not span an interval of one subject.

    A limit that is given takes the place of the measured capacity. What cannot be measured, and a
    counter that went backwards, is None for that column: never a guess.
    """
    interval_s = after.at_s - before.at_s
    if not MIN_INTERVAL_S <= interval_s <= MAX_INTERVAL_S:
        return None
    match before, after:
        case HostReading(), HostReading():
            return host.sample(before, after, interval_s, limits)
        case CgroupReading(), CgroupReading():
            return cgroup.sample(before, after, interval_s, limits)
        case ProcessReading(), ProcessReading():
            return process.sample(before, after, interval_s, limits)
    return None
