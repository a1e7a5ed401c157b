"""The change test: do the recent windows contradict the evidence from before them (step 5)? Pure."""

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, quotient, summed
from steelyard_controller.laws.snapshot import Bools, Floats, Ints
from steelyard_controller.laws.steelyard.request_cost import BUSY, FADED, IDLE_LOAD, REQUESTS, SECONDS, split
from steelyard_controller.laws.steelyard.steelyard_parameters import (
    CHANGE_WINDOWS,
    FRESH_WINDOWS,
    RECENT_WINDOWS,
    SteelyardParameters,
)

# The two windows of a pair begin up to this part of their length apart.
PHASE_PART = 0.5
# Fewer requests in a window than this say nothing about their dispersion or about queues.
FEWEST_REQUESTS = 5.0
# One outlier may raise the dispersion this much a tick, not without bound.
OUTLIER = 9.0
SMALLEST_DISPERSION = 0.3

# Each test: so many windows, and how many come after them. Below, a row is a test.
TESTS = [(windows, after) for windows in CHANGE_WINDOWS for after in (0, 1)]
WINDOWS, AFTER = (np.array(each)[:, None, None] for each in zip(*TESTS, strict=True))
TICKS = WINDOWS + AFTER


def contradiction(
    recent: Floats,
    before: Floats,
    cost: Floats,
    freed: Bools,
    dispersion: Floats,
    tick: Ints,
    fade: float,
    parameters: SteelyardParameters,
) -> tuple[Floats, Ints]:
    """Return the largest z over the windows, k, and how many of them to begin anew from, k.

    Each is compared with the evidence from before it, `before` less what the recent windows are of it. A
    load that is too large is a loss, and waits for nobody: the windows end now. One that is too small waits
    for the window after them: sample and report need not begin at one moment, and where traffic ends, one
    of the two may have the idleness of what follows. Only of a peer that was full it is believed at once.
    """
    by_window = recent.reshape(*cost.shape, RECENT_WINDOWS, 3)
    counts = by_window[..., REQUESTS]
    # What the windows from each on, without the present one, are of the sums: the last of them whole.
    ages = fade ** np.arange(RECENT_WINDOWS - 2, -1, -1)
    faded = np.cumsum((by_window[..., :-1, :] * ages[:, None])[..., ::-1, :], axis=-2)[..., ::-1, :]
    # A row for each test: of few peers, all of them at once take a third of the time of one after the other.
    earlier = np.repeat(before[None], len(TESTS), axis=0)
    tested, apart = np.empty((len(TESTS), *cost.shape, 3)), np.empty((len(TESTS), *cost.shape))
    at_last = np.abs(counts[..., -1] - counts[..., -2])
    for row, (windows, after) in enumerate(TESTS):
        end = RECENT_WINDOWS - after
        first = end - windows
        if first < RECENT_WINDOWS - 1:
            np.subtract(before[..., :3], faded[..., first, :], out=earlier[row, ..., :3])
        np.add.reduce(by_window[..., first:end, :], axis=-2, out=tested[row])
        if after == 0:
            apart[row] = at_last
        else:
            # Whichever begins later has what comes after the windows, and lacks their first moments.
            apart[row] = np.maximum(
                np.abs(counts[..., first] - counts[..., -1]),
                np.abs(counts[..., first - 1] - counts[..., end - 1]),
            )
    np.maximum(earlier, 0.0, out=earlier)
    e, w = split(earlier, cost, parameters.l0)
    n, busy_s, seconds = tested[..., REQUESTS], tested[..., BUSY], tested[..., SECONDS]
    expected = n * e + seconds * w
    of_earlier = n * n / np.maximum(earlier[..., REQUESTS], 1.0)
    variance = (
        (n + of_earlier) * dispersion * e * e + (parameters.eps * expected) ** 2 + (IDLE_LOAD * seconds) ** 2
    )
    is_loss = busy_s > expected
    told = np.where(AFTER == 1, ~is_loss, is_loss | (freed & (TICKS == 1))) & (tick >= TICKS)
    variance = np.where(is_loss, variance, variance + (PHASE_PART * apart * e) ** 2)
    known = told & (seconds > 0) & (earlier[..., SECONDS] > 0.5 * before[..., SECONDS])
    each = np.where(known, np.abs(busy_s - expected) / np.sqrt(np.maximum(variance, FADED**2)), 0.0)
    z = each.max(axis=0)
    return z, np.where(z > 0, np.minimum(TICKS, FRESH_WINDOWS)[each.argmax(axis=0), 0, 0], 1)


def last_windows(recent: Floats, windows: Ints) -> tuple[Floats, Floats]:
    """Return the recent windows without those before the last few, as `recent`, and their sums, k x 3."""
    kept = np.arange(RECENT_WINDOWS) >= RECENT_WINDOWS - windows[..., None]
    by_window = recent.reshape(*windows.shape, RECENT_WINDOWS, 3) * kept[..., None]
    return by_window.reshape(recent.shape), by_window.sum(axis=-2)


def dispersion_after(
    before: Floats, telling: Bools, recent: Floats, e: Floats, w: Floats, part: float
) -> Floats:
    """Return disp, m x 1: how much more the load of a count scatters than a Poisson's would.

    From one window to the next, so that a change of the server itself is not taken for scatter.
    """
    then, now = recent[..., -6:-3], recent[..., -3:]
    telling = telling & (then[..., REQUESTS] >= FEWEST_REQUESTS)
    if not telling.any():
        return before
    counts = [np.where(telling, each[..., REQUESTS], 1.0) for each in (then, now)]
    costs = [
        (each[..., BUSY] - each[..., SECONDS] * w) / count
        for each, count in zip((then, now), counts, strict=True)
    ]
    scatter = ((costs[1] - costs[0]) / e) ** 2 / (1.0 / counts[0] + 1.0 / counts[1])
    mean = quotient(summed(np.minimum(scatter, OUTLIER * before), telling), summed(telling), 0.0)
    after = np.maximum(SMALLEST_DISPERSION, before + part * (mean - before))
    return np.where(anybody(telling), after, before)
