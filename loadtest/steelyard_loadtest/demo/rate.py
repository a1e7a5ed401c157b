"""How many requests a second load the cluster to a wanted part. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

# Busy enough that a wrong weight hurts, and the others can still carry a burnt server's part.
TARGET_UTILIZATION = 0.6
LOWEST_RATE = 10
USERS_PER_REQUEST_PER_S = 0.5  # each user then has 0.5 s for a request before the rate suffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one server's request costs in CPU seconds, and how many cores it has."""

    cpu_s_per_request: float
    limit_cores: float


def capacity(costs: Sequence[Cost]) -> float:
    """Give the requests per second that the servers can do together."""
    return sum(cost.limit_cores / cost.cpu_s_per_request for cost in costs)


def target_rate(costs: Sequence[Cost]) -> int:
    """Give the rate that loads the servers to TARGET_UTILIZATION, rounded to tens."""
    return max(round(capacity(costs) * TARGET_UTILIZATION / 10) * 10, LOWEST_RATE)


def users_for(rate: float) -> int:
    """Give enough users that none is late while requests take up to half a second."""
    return max(round(rate * USERS_PER_REQUEST_PER_S), 10)
