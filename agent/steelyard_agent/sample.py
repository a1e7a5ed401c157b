"""Samples: utilizations between two readings, and their capacities.

Pure data. `scopes` makes samples: each scope's module has its formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from steelyard_agent.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicators:
    """One value for each indicator; None is "not measured" (in limits: "not given")."""

    cpu: float | None = None
    net: float | None = None
    io: float | None = None
    mem: float | None = None


NOTHING = Indicators()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Utilizations of an interval, and the capacities: cores, bytes/s, operations/s, bytes.

    `further` are the application's own indicators, by name. `up_s` is the uptime of the sampled program;
    None: not known. `evidence` has the sources of the utilizations, and extras that are not sent.
    """

    interval_s: float
    utilization: Indicators
    capacity: Indicators
    further: tuple[tuple[str, float | None], ...] = ()
    up_s: float | None = None
    evidence: tuple[Evidence, ...] = field(default=(), compare=False)


def from_evidence(interval_s: float, capacity: Indicators, evidence: Sequence[Evidence]) -> Sample:
    """Return the sample with the values of its evidence as utilizations."""
    value = {one.indicator: one.value for one in evidence}
    utilization = Indicators(cpu=value["cpu"], net=value["net"], io=value["io"], mem=value["mem"])
    return Sample(interval_s=interval_s, utilization=utilization, capacity=capacity, evidence=tuple(evidence))


def with_further(taken: Sample, further: Sequence[Evidence]) -> Sample:
    """Return the sample with the application's own indicators."""
    return replace(
        taken,
        further=tuple((one.indicator, one.value) for one in further),
        evidence=(*taken.evidence, *further),
    )


def first_known(*capacities: float | None) -> float | None:
    """Return the first capacity that is known and not zero."""
    return next((capacity for capacity in capacities if capacity), None)
