"""Pairs a peer's sample with the traffic report of the same window (step 3 of the default law).

Pure. Samples and reports arrive some ticks late, each by its own age. Both are kept under the tick at which
their window ended, and taken out together. A late one is paired late, and never with another window: a
control loop that acts on mismatched windows oscillates.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.snapshot import Bools, Floats, Ints

OLDEST_TICKS = 7
"""Age in ticks above which a sample or report is not used."""

RING = OLDEST_TICKS + 2
"""Ticks kept: those of age 0 to `OLDEST_TICKS`, and the next one, which is cleared in advance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The windows completed at this tick, k each; `matched`: both the load and the first count are there.

    `load` and `counts` are 0 if not matched. `rings` are the new memory, by name.
    """

    matched: Bools
    load: Floats
    counts: list[Floats]
    rings: Mapping[str, Floats]


def paired(
    *,
    tick: Ints,
    previous: Mapping[str, Floats],
    load: Floats,
    sample_age_ticks: Ints,
    counts: Mapping[str, Floats],
    report_age_ticks: Ints,
) -> Paired:
    """File a load (k, NaN: no sample) and counts (k each, NaN: no report); take out matching windows.

    `previous` has the rings: `load_ring`, and one for each count by its name.
    """
    rings = {name: previous[name].copy() for name in ("load_ring", *counts)}
    load_ring = rings["load_ring"]
    upstreams, peers, _ = load_ring.shape
    each_upstream, each_peer = np.arange(upstreams)[:, None], np.arange(peers)

    def place(tick: Ints) -> tuple[Ints, Ints, Ints]:
        # With few servers, numpy's own take_along_axis takes five times as long.
        return each_upstream, each_peer, tick % RING

    sampled = ~np.isnan(load)
    age = np.where(sampled, sample_age_ticks, 0)
    of_sample, of_report, ahead = place(tick - age), place(tick - report_age_ticks), place(tick + 1)
    load_ring[of_sample] = np.where(sampled, load, load_ring[of_sample])
    for name, count in counts.items():
        rings[name][of_report] = count
    for ring in rings.values():
        ring[ahead] = np.nan
    window = place(tick - np.maximum(age, report_age_ticks))
    window_load, window_counts = load_ring[window], [rings[name][window] for name in counts]
    load_ring[window] = np.nan
    is_there = ~np.isnan(window_load)
    matched = is_there & ~np.isnan(window_counts[0])
    return Paired(
        matched=matched,
        load=np.where(matched, window_load, 0.0),
        counts=[np.where(is_there & ~np.isnan(count), count, 0.0) for count in window_counts],
        rings=rings,
    )
