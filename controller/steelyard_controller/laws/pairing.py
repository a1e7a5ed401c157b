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


NOTHING = np.array([[np.nan]])


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
    tick: Ints,
    load_ring: Floats,
    count_ring: Floats,
    load: Floats,
    sample_age_ticks: Ints,
    count: Floats,
    report_age_ticks: Ints,
) -> Paired:
    """File this tick's loads (k, NaN: no sample) and counts (k, NaN: no report), and take what matches."""
    loads, counts = load_ring.copy(), count_ring.copy()
    sampled = ~np.isnan(load)
    age = np.where(sampled, sample_age_ticks, 0)
    _put(loads, tick - age, np.where(sampled, load, _taken(loads, tick - age)))
    _put(loads, tick + 1, NOTHING)
    _put(counts, tick - report_age_ticks, count)
    _put(counts, tick + 1, NOTHING)
    window = tick - np.maximum(age, report_age_ticks)
    window_load, window_count = _taken(loads, window), _taken(counts, window)
    matched = ~np.isnan(window_load) & ~np.isnan(window_count)
    _put(loads, window, NOTHING)
    return Paired(
        matched=matched,
        load=np.where(matched, window_load, 0.0),
        count=np.where(matched, window_count, 0.0),
        load_ring=loads,
        count_ring=counts,
    )


def _taken(ring: Floats, tick: Ints) -> Floats:
    """Return what the ring has under each peer's tick."""
    found: Floats = np.take_along_axis(ring, (tick % RING)[..., None], axis=-1)[..., 0]
    return found


def _put(ring: Floats, tick: Ints, figures: Floats) -> None:
    """File a figure of each peer under its tick; where these are m x 1, they are the same for all."""
    np.put_along_axis(ring, (tick % RING)[..., None], figures[..., None], axis=-1)
