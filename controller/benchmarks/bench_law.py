"""The CPU time of a law's step at 10 to 10,000 peers: `make bench-law`.

Every size is measured in turns with the others, so that a noisy machine slows
all of them alike; the median of the turns is printed. The growth factor is the
time at ten times the peers over the time before: 10 is linear.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from steelyard_controller import laws
from steelyard_controller.laws.snapshot import Snapshot

SIZES = (10, 100, 1_000, 10_000)
TARGET_MS = 50.0
"""Target for a step of 10,000 peers: a twentieth of the tick."""


def snapshots(k: int, *, ticks: int, rng: np.random.Generator) -> list[Snapshot]:
    """Return ticks of k busy peers, every column filled."""
    return [
        Snapshot(
            t_s=float(tick),
            ids=tuple(f"server-{j}" for j in range(k)),
            utilization=rng.uniform(0, 1, (k, 4)),
            sample_age_ticks=np.zeros(k, dtype=np.int64),
            capacity=np.tile([4.0, 125e6, 5000.0, 8e9], (k, 1)),
            baseline=np.full(k, np.nan),
            completed=rng.poisson(200, k).astype(np.float64),
            failed=rng.poisson(2, k).astype(np.float64),
            in_flight=rng.poisson(5, k).astype(np.float64),
            latency_s=rng.exponential(0.01, k),
            leaving=np.zeros(k, dtype=np.bool_),
        )
        for tick in range(ticks)
    ]


def measured_ms(law: laws.Law, *, turns: int) -> dict[int, float]:
    """Return the median CPU time of a step by number of peers."""
    rng = np.random.default_rng(1)
    inputs = {k: snapshots(k, ticks=4, rng=rng) for k in SIZES}
    memories = dict.fromkeys(SIZES, law.start())
    times: dict[int, list[float]] = {k: [] for k in SIZES}
    for turn in range(turns):
        for k in SIZES:
            snapshot = inputs[k][turn % len(inputs[k])]
            started = time.process_time()
            memories[k], _ = law.step(memories[k], snapshot)
            times[k].append(1000 * (time.process_time() - started))
    return {k: statistics.median(taken) for k, taken in times.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit status tells whether every law meets the target."""
    parser = argparse.ArgumentParser(description="CPU time of a law's step by number of peers.")
    parser.add_argument("--turns", type=int, default=101, help="steps to take the median of")
    options = parser.parse_args(arguments)
    print(f"median CPU ms a step{'':1}" + "".join(f"{k:>12,}" for k in SIZES) + f"{'growth':>24}")
    met = True
    for name in laws.NAMES:
        ms = measured_ms(laws.create(name), turns=options.turns)
        growth = [ms[more] / ms[less] for less, more in pairwise(SIZES)]
        met &= ms[SIZES[-1]] <= TARGET_MS
        print(
            f"{name:<21}"
            + "".join(f"{ms[k]:12.3f}" for k in SIZES)
            + f"{'  '.join(f'x{factor:.1f}' for factor in growth):>24}"
        )
    print(f"target: {SIZES[-1]:,} peers in {TARGET_MS:g} ms: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
