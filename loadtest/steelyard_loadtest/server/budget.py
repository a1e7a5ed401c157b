"""How long a throttled process tree may run next. Pure: times and usage come in, a step goes out.

A bucket of CPU seconds, filled at the limit and holding one slot's worth:

    balance = min(balance + limit * elapsed - used, limit * SLOT_S)

The tree runs while the balance is above 0, and then stands still until the
bucket is full again. What a slot overran stays as a debt, so the mean holds
whatever the timer's resolution.
"""

from dataclasses import dataclass

# Under 0.15 cores a slot is 3 ms of work and 17 ms of standstill: short against the latencies that a demo
# shows, and few enough signals (2 in 20 ms) that throttling costs about 1 % of a core.
SLOT_S = 0.020
SHORTEST_RUN_S = 0.001  # below this the timer's own lateness is most of the wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do now: let the tree run or stand still, for wait_s, and what is in the bucket (CPU s)."""

    run: bool
    wait_s: float
    balance_s: float


def full(limit_cores: float) -> float:
    """Give the CPU seconds that the bucket holds."""
    return limit_cores * SLOT_S


def next_step(
    *, limit_cores: float, balance_s: float, used_s: float, elapsed_s: float, processes: int
) -> Step:
    """Decide the next step from what the last elapsed_s seconds used (CPU seconds of all processes)."""
    capacity_s = full(limit_cores)
    balance_s = min(balance_s + limit_cores * elapsed_s - used_s, capacity_s)
    if balance_s <= 0:
        return Step(run=False, wait_s=(capacity_s - balance_s) / limit_cores, balance_s=balance_s)
    if used_s < limit_cores * elapsed_s:  # not at its limit: look again in half a slot, debts are paid later
        return Step(run=True, wait_s=SLOT_S / 2, balance_s=balance_s)
    return Step(run=True, wait_s=max(balance_s / max(processes, 1), SHORTEST_RUN_S), balance_s=balance_s)
