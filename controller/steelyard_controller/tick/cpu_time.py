"""The CPU time of an upstream's ticks. Pure: `tick_loop` measures."""

from bisect import bisect_left

# From a thousandth of a tick of one second to all of it; the last bucket is open.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class CpuTime:
    """CPU seconds of an upstream's ticks: the last one, the sum, and a histogram."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self.sum_s = 0.0
        self._counts = [0] * (len(BOUNDS_S) + 1)

    def add(self, seconds: float) -> None:
        """Count the CPU seconds of one tick."""
        self.last_s = seconds
        self.sum_s += seconds
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Return cumulative counts by upper bound, in Prometheus's form."""
        buckets, total = [], 0
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets
