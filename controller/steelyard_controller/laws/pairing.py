"""Pair a peer's sample with the traffic report of the same window (step 0 of the default law).

Pure. Samples and reports arrive some ticks late, each by its own age; both are
kept under the tick at which their window ended, and taken out together. A late
one is paired late, and never with another window: a control loop that acts on
mismatched windows oscillates.
"""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.snapshot import Bools, Floats, Ints

OLDEST_TICKS = 7
"""A sample or report older than this is not used."""

RING = OLDEST_TICKS + 2
"""Ticks kept: those of age 0 to `OLDEST_TICKS`, and the next one, which is cleared ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The windows completed at this tick: k each; `matched` where both sides are there.

    `load` and `count` are 0 where not matched. The rings are the new memory.
    """

    matched: Bools
    load: Floats
    count: Floats
    load_ring: Floats
    count_ring: Floats


def paired(
    *,
    tick: int,
    load_ring: Floats,
    count_ring: Floats,
    load: Floats,
    sample_age_ticks: Ints,
    count: Floats,
    report_age_ticks: int,
) -> Paired:
    """File this tick's loads (k, NaN: no sample) and counts (k, NaN: no report), and take what matches."""
    rows = np.arange(len(load))
    loads, counts = load_ring.copy(), count_ring.copy()
    sampled = ~np.isnan(load)
    age = np.where(sampled, sample_age_ticks, 0)
    loads[rows[sampled], (tick - age[sampled]) % RING] = load[sampled]
    loads[:, (tick + 1) % RING] = np.nan
    counts[:, (tick - report_age_ticks) % RING] = count
    counts[:, (tick + 1) % RING] = np.nan
    window = (tick - np.maximum(age, report_age_ticks)) % RING
    window_load, window_count = loads[rows, window], counts[rows, window]
    matched = ~np.isnan(window_load) & ~np.isnan(window_count)
    loads[rows, window] = np.nan
    return Paired(
        matched=matched,
        load=np.where(matched, window_load, 0.0),
        count=np.where(matched, window_count, 0.0),
        load_ring=loads,
        count_ring=counts,
    )
