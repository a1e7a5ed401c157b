"""A reading of any scope, and the sample between two of them.

Pure. A reading is raw counters at one instant. An unreadable one is None;
all others only ever count up (except the memory gauges).
"""

from dataclasses import dataclass

from steelyard_agent.sample import Indicators, Sample
from steelyard_agent.scopes import cgroup, host, process
from steelyard_agent.scopes.cgroup import CgroupReading
from steelyard_agent.scopes.host import HostReading
from steelyard_agent.scopes.process import ProcessReading

# The wire format's bounds of an interval. After a pause of an hour, an average is not about the present.
MIN_INTERVAL_S = 0.001
MAX_INTERVAL_S = 3600.0

Reading = HostReading | CgroupReading | ProcessReading


@dataclass(frozen=True, slots=True)
class Absent:
    """The subject of a reading is not there (yet); `why` is a sentence for a person."""

    why: str


def sample_between(before: Reading, after: Reading, limits: Indicators) -> Sample | None:
    """Return the sample between two readings; None if they do not span an interval of one subject.

    A given limit replaces the measured capacity. Without a measurement, or after a
    counter went backwards, the column is None: never a guess.
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
