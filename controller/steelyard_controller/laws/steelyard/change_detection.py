"""The change test: do the recent windows contradict the evidence before them (step 6)? Pure."""

from dataclasses import dataclass
from math import exp

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, quotient, summed
from steelyard_controller.laws.snapshot import Bools, Floats, Ints
from steelyard_controller.laws.steelyard.busyness import Busyness
from steelyard_controller.laws.steelyard.evidence import (
    BUSY,
    FADED,
    FEWEST_REQUESTS,
    FULL_SECONDS,
    IDLE_LOAD,
    REQUESTS,
    SECONDS,
)
from steelyard_controller.laws.steelyard.in_flight import CALM_LOAD, InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.own_load import OwnLoad
from steelyard_controller.laws.steelyard.paired_window import PHASE_PART, Window
from steelyard_controller.laws.steelyard.request_cost import split
from steelyard_controller.laws.steelyard.steelyard_parameters import (
    CHANGE_WINDOWS,
    FRESH_WINDOWS,
    RECENT_WINDOWS,
    WINDOW_S,
)

# If our requests explain less than this part of a load, it is mostly somebody else's.
MOSTLY_OTHERS = 0.25
# A request of more than this part of a window has its load in other windows than its count.
SHORT_PART = 0.25
SMALLEST_DISPERSION = 0.3

# Each test: its number of windows, and the number of windows after them. Below, a row is a test.
CHANGE_TESTS = [(windows, after) for windows in CHANGE_WINDOWS for after in (0, 1)]
TESTED_WINDOWS, WINDOWS_AFTER = (np.array(each)[:, None, None] for each in zip(*CHANGE_TESTS, strict=True))
TESTED_TICKS = TESTED_WINDOWS + WINDOWS_AFTER
HAS_LATER_WINDOW = WINDOWS_AFTER == 1
# Number of whole windows after each of the recent ones.
WINDOW_AGES = np.maximum(np.arange(RECENT_WINDOWS - 2, -2, -1), 0)
# Number of windows from which the evidence restarts, by test.
RESTART_WINDOWS = np.minimum(TESTED_TICKS, FRESH_WINDOWS)[:, 0, 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The result of the change test (step 6), k each.

    z            the largest contradiction, in sigma; 0 if not tested
    restarted    the peer has changed: its evidence is discarded
    recent       k x 3 RECENT_WINDOWS: the last windows with this one, without those before a restart
    since        k x 3: requests, load seconds and seconds of the windows of a restart; without a restart, of
                 this one
    dispersion   m x 1, disp after the window
    """

    z: Floats
    restarted: Bools
    recent: Floats
    since: Floats
    dispersion: Floats


def detect_change(
    inputs: Inputs, busyness: Busyness, window: Window, in_flight: InFlight, own: OwnLoad
) -> Change:
    """Test the last windows, with this one, against the evidence before them (step 6).

    restarted:  z > h (1 + J)            h: h_hot if hot or quicker, otherwise h_cold; J: restarts, fading
                z > h_hot/2              if F > D/2 and l < 0.8: it was full of others' work and is free
                or at once               if the known cost explained little of the load, and now explains it:
                                         `_is_relieved`
    """
    parameters, tick_s, evidence = inputs.parameters, inputs.snapshots.tick_s, own.evidence
    sums, cost = evidence.sums, np.where(np.isnan(evidence.cost), 1.0, evidence.cost)
    recent = _with_window(evidence.recent, own.window, window.tick, tick_s)
    tested = own.seen & ~np.isnan(evidence.cost) & (sums[..., SECONDS] > 0)
    sampled = tested & ~own.inferred
    freed = sampled & (own.load < CALM_LOAD) & (sums[..., FULL_SECONDS] > 0.5 * sums[..., SECONDS])
    # Requests that wait at a slow server fill it themselves.
    mostly_others = sums[..., BUSY] < 0.5 * sums[..., SECONDS]
    relieved = sampled & _is_relieved(inputs, own, window, sums, cost)
    # The part of a window that remains in the evidence once the next one is whole.
    fade = exp(-inputs.window_s / parameters.tau)
    at_once = freed | in_flight.quicker
    z, windows = contradiction(inputs, own, recent, at_once, window.tick, fade, in_flight.known_duration_s)
    z = np.where(tested, z, 0.0)

    eager = busyness.hot | in_flight.quicker
    threshold = np.where(eager, parameters.h_hot, parameters.h_cold) * (1.0 + evidence.jumps)
    # The evidence of a peer that has become free rested on queues.
    restarted = relieved | (z > np.where(freed, parameters.h_hot / 2.0, threshold))
    freed |= relieved

    since = own.window
    if restarted.any():
        kept, since = last_windows(recent, own.window, np.where(freed, 1, windows))
        recent = np.where(restarted[..., None], kept, recent)
        # The neighbour may have left within this window: if our requests explain hardly any of its load, the
        # rest is taken to be over. If it is not, the next window is a loss and shows it at once.
        explained_s = since[..., REQUESTS] * cost
        is_over = (relieved | (freed & mostly_others)) & (explained_s < MOSTLY_OTHERS * since[..., BUSY])
        since[..., BUSY] = np.where(is_over, explained_s, since[..., BUSY])
    steady = own.measures_cost & tested & ~restarted
    dispersion = dispersion_after(inputs, steady, recent, own)
    return Change(z=z, restarted=restarted, recent=recent, since=since, dispersion=dispersion)


def _is_relieved(inputs: Inputs, own: OwnLoad, window: Window, sums: Floats, cost: Floats) -> Bools:
    """Return whether load that our requests did not explain has gone: the neighbour has left.

        L - x > x + r0 + h_hot sigma_0   and   -h_hot sigma <= u <= min((L - x)/4, L - x - h_hot sigma)

    L        max(B, F)/D, load of the evidence;  x = A cost/D, its part that the known cost explains
    u        l - n/T cost, load of the window that the known cost does not explain
    sigma    r0 + sqrt(disp n) cost/T, and sigma_0 = sqrt(disp A) cost/D: chance in the costs of requests

    The last requests must have taken at most T/4. Longer ones have their load in earlier windows than their
    count, and the idle window after them may follow a queue of ours.
    """
    tick_s, h, dispersion = inputs.snapshots.tick_s, inputs.parameters.h_hot, own.evidence.dispersion
    seconds = np.maximum(sums[..., SECONDS], FADED)
    explained = sums[..., REQUESTS] / seconds * cost
    others = np.maximum(sums[..., BUSY], sums[..., FULL_SECONDS]) / seconds - explained
    by_chance = h * np.sqrt(dispersion * sums[..., REQUESTS]) / seconds * cost
    is_large = others > explained + IDLE_LOAD + by_chance
    if not is_large.any():
        return is_large  # The usual case.
    count = own.window[..., REQUESTS]
    now = own.load - count / tick_s * cost
    chance = h * (IDLE_LOAD + np.sqrt(dispersion * count) / tick_s * cost)
    is_explained = (now >= -chance) & (now <= np.minimum(MOSTLY_OTHERS * others, others - chance))
    latency_s = quotient(window.in_flight * tick_s, window.count, np.nan)
    latency_s = np.where(window.count > 0, latency_s, inputs.previous["lat"])
    is_short = ~(latency_s > SHORT_PART * tick_s)
    return is_explained & is_short & is_large


def contradiction(
    inputs: Inputs, own: OwnLoad, recent: Floats, at_once: Bools, tick: Ints, fade: float, duration_s: Floats
) -> tuple[Floats, Ints]:
    """Return the largest z over the last 1, 2, 4 and 8 windows, k, and the number of windows of a restart.

        z = |b - a e - s w|/sqrt((a (1 + a/A) + p) disp e^2 + (eps (a e + s w))^2 + (r0 s)^2 + (e apart/2)^2)

    a, b, s   requests, load seconds and seconds of the windows
    A, D, e, w   requests, seconds, cost and load that is not ours, of the evidence before them (`split`)
    p         requests in progress, with load in one window and count in another: A/D d, but at least d/T_1
              up to 1
    d         duration of a request
    disp      scatter of the load of a count, in units of a Poisson's;  eps: the model's error
    r0        `IDLE_LOAD`, by which loads differ for no reason
    apart     requests that may belong to another window, because sample and report begin apart

    Too much load is a loss, and counts at once: the windows end now, and apart = 0. Too little load waits for
    the window after them, because a sample or report at the end of traffic may contain the idleness that
    follows. It counts at once (`at_once`) for a peer that was full, or whose requests are suddenly `quicker`.
    """
    evidence, parameters = own.evidence, inputs.parameters
    tested, earlier, apart = _tests(evidence.sums, recent, own.window, fade, inputs.snapshots.tick_s)
    e, w = split(earlier, own.known, parameters.l0)
    a, b, s = tested[..., REQUESTS], tested[..., BUSY], tested[..., SECONDS]
    expected = a * e + s * w
    in_progress = earlier[..., REQUESTS] / np.maximum(earlier[..., SECONDS], FADED) * duration_s
    in_progress = np.maximum(in_progress, np.minimum(duration_s / inputs.window_s, 1.0))
    scatter = a + a * a / np.maximum(earlier[..., REQUESTS], 1.0) + in_progress
    variance = scatter * evidence.dispersion * e * e + (parameters.eps * expected) ** 2 + (IDLE_LOAD * s) ** 2
    is_loss = b > expected
    is_due = np.where(HAS_LATER_WINDOW, ~is_loss, is_loss | (at_once & (TESTED_TICKS == 1)))
    is_due &= tick * inputs.window_part >= TESTED_TICKS
    variance = np.where(is_loss, variance, variance + (PHASE_PART * apart * e) ** 2)
    known = is_due & (s > 0) & (earlier[..., SECONDS] > 0.5 * evidence.sums[..., SECONDS])
    each = np.where(known, np.abs(b - expected) / np.sqrt(np.maximum(variance, FADED**2)), 0.0)
    z = each.max(axis=0)
    return z, np.where(z > 0, RESTART_WINDOWS[each.argmax(axis=0)], 1)


def _with_window(recent: Floats, window: Floats, tick: Ints, tick_s: float) -> Floats:
    """Return the recent windows with this one; windows shorter than a second are added up to one (T_1)."""
    begun = np.concatenate((recent[..., 3:], window), axis=-1)
    begins = np.floor((tick - 1) * tick_s / WINDOW_S) > np.floor((tick - 2) * tick_s / WINDOW_S)
    if begins.all():
        return begun
    added = recent.copy()
    added[..., -3:] += window
    return np.where(begins[..., None], begun, added)


def _tests(
    sums: Floats, recent: Floats, window: Floats, fade: float, tick_s: float
) -> tuple[Floats, Floats, Floats]:
    """Return a row for each test: the sums of its windows, the evidence before them, and `apart`.

    With few peers, all tests at once take a third of the time of single ones. The evidence before the windows
    is the sums less the windows' part of them. `apart` is the larger of two differences: that of the first
    window to the one after them, and that of the last window to the one before them. The later one of sample
    and report has the moments after the windows, and lacks their first moments. A single window without a
    later one is that of this tick alone, so that a change need not wait for the end of its second.
    """
    k = sums.shape[:-1]
    # A row for each figure: numpy takes several times as long for rows of three figures as for one of peers.
    known, now = _by_figure(sums), np.ascontiguousarray(_by_figure(window))
    by_window = np.ascontiguousarray(_by_figure(recent)).reshape(RECENT_WINDOWS, 3, *k)
    counts = by_window[:, REQUESTS] / np.maximum(by_window[:, SECONDS], FADED) * tick_s
    faded = _parts_of_sums(by_window, now, fade)
    tested, earlier = np.empty((3, len(CHANGE_TESTS), *k)), np.empty((4, len(CHANGE_TESTS), *k))
    apart = np.empty((len(CHANGE_TESTS), *k))
    at_last = np.abs(counts[-1] - counts[-2])
    for row, (windows, after) in enumerate(CHANGE_TESTS):
        end = RECENT_WINDOWS - after
        first = end - windows
        earlier[:, row] = known
        if first < RECENT_WINDOWS - 1:
            np.subtract(known[:3], faded[first], out=earlier[:3, row])
            np.add.reduce(by_window[first:end], axis=0, out=tested[:, row])
        else:
            tested[:, row] = now
        if after == 0:
            apart[row] = at_last
        else:
            apart[row] = np.maximum(
                np.abs(counts[first] - counts[-1]), np.abs(counts[first - 1] - counts[end - 1])
            )
    np.maximum(earlier, 0.0, out=earlier)
    return tested.transpose(1, 2, 3, 0), earlier.transpose(1, 2, 3, 0), apart


def _by_figure(table: Floats) -> Floats:
    """Return a table, m x k x n, as n x m x k."""
    return table.transpose(2, 0, 1)


def _parts_of_sums(by_window: Floats, now: Floats, fade: float) -> list[Floats]:
    """Return the part of the sums that comes from each window on, without this tick, 3 x m x k each.

    The last window counts whole.
    """
    in_sums = by_window * (fade**WINDOW_AGES)[:, None, None, None]
    in_sums[-1] -= now
    parts = [in_sums[-1]]
    for of_window in in_sums[-2::-1]:
        parts.append(parts[-1] + of_window)
    return parts[::-1]


def last_windows(recent: Floats, window: Floats, windows: Ints) -> tuple[Floats, Floats]:
    """Return the last `windows` of the recent windows, shaped as `recent`, and their sums, k x 3.

    A single one is that of this tick.
    """
    kept = np.arange(RECENT_WINDOWS) >= RECENT_WINDOWS - windows[..., None]
    by_window = recent.reshape(*windows.shape, RECENT_WINDOWS, 3) * kept[..., None]
    by_window[..., -1, :] = np.where(windows[..., None] == 1, window, by_window[..., -1, :])
    return by_window.reshape(recent.shape), by_window.sum(axis=-2)


def dispersion_after(inputs: Inputs, steady: Bools, recent: Floats, own: OwnLoad) -> Floats:
    """Return disp, m x 1: the scatter of the load of a count, in units of a Poisson's.

        disp = EWMA_beta of the mean of ((x_1 - x_0)/e)^2/(1/a_0 + 1/a_1),   x = (b - s w)/a

    0 and 1: the last window and this one; a, b, s: their requests, load seconds and seconds; e, w: see
    `split`. It is measured from one window to the next, so that a change of the server is not scatter. An
    outlier counts as h_hot sigma at most.
    """
    before, parameters = own.evidence.dispersion, inputs.parameters
    windows = recent[..., -6:-3], recent[..., -3:]
    steady = steady & (windows[0][..., REQUESTS] >= FEWEST_REQUESTS)
    if not steady.any():
        return before
    counts = [np.where(steady, each[..., REQUESTS], 1.0) for each in windows]
    costs = [
        (each[..., BUSY] - each[..., SECONDS] * own.w) / count
        for each, count in zip(windows, counts, strict=True)
    ]
    scatter = ((costs[1] - costs[0]) / own.e) ** 2 / (1.0 / counts[0] + 1.0 / counts[1])
    largest = parameters.h_hot**2 * before
    mean = quotient(summed(np.minimum(scatter, largest), steady), summed(steady), 0.0)
    part = min(1.0, parameters.beta * inputs.snapshots.tick_s)
    after = np.maximum(SMALLEST_DISPERSION, before + part * (mean - before))
    return np.where(anybody(steady), after, before)
