"""The end of a window by the receiver's clock: within a tick, whatever the sender's clock."""

from math import nan

from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.messages.sender_offset import ON_THE_WAY_S, SenderOffset

TICKS = st.sampled_from([0.5, 1.0, 2.0])
HOURS = st.floats(-1e5, 1e5)
UNIX_S = 1.8e9


def errors(
    tick_s: float, *, off_s: float, phase: float, delays: list[float], step_s: float = 0.0, drift: float = 0.0
) -> list[float]:
    """Return the error of each estimated end; the sender writes once a second.

    off_s: its clock less the receiver's, stepped by `step_s` in the middle.
    """
    known, errors_s, seen_before = None, [], set()
    ends = [1 + phase + n for n in range(len(delays))]
    for tick in range(1, int(len(delays) / tick_s) + 3):
        seen_s, last_read_s = tick * tick_s, (tick - 1) * tick_s
        there = [n for n, end_s in enumerate(ends) if last_read_s < end_s + delays[n] <= seen_s]
        if not there or there[-1] in seen_before:
            continue
        newest = there[-1]
        seen_before.add(newest)
        stepped_s = step_s if newest >= len(delays) // 2 else 0.0
        sent_s = UNIX_S + ends[newest] * (1 + drift) + off_s + stepped_s
        known = SenderOffset.of(sent_s, last_read_s=last_read_s, seen_s=seen_s, before=known)
        errors_s.append(float(known.received_s(sent_s, -UNIX_S)) - ends[newest])
    assert errors_s
    return errors_s


DELAYS = st.lists(st.floats(0.0, ON_THE_WAY_S / 2), min_size=20, max_size=60)


@given(TICKS, HOURS, st.floats(0, 1), DELAYS, HOURS, st.floats(-1e-4, 1e-4))
def test_no_clock_however_wrong_drifting_or_stepped_moves_an_end_by_more_than_a_tick(
    tick_s: float, off_s: float, phase: float, delays: list[float], step_s: float, drift: float
) -> None:
    errors_s = errors(tick_s, off_s=off_s, phase=phase, delays=delays, step_s=step_s, drift=drift)
    assert max(abs(each) for each in errors_s) <= tick_s + ON_THE_WAY_S


@given(TICKS, st.floats(0, 1), DELAYS)
def test_clocks_that_agree_are_believed(tick_s: float, phase: float, delays: list[float]) -> None:
    errors_s = errors(tick_s, off_s=0.0, phase=phase, delays=delays)
    assert max(abs(each) for each in errors_s) <= ON_THE_WAY_S


@given(TICKS, st.floats(1e3, 1e5), st.floats(0, 1))
def test_where_nothing_better_is_known_the_middle_is_at_most_half_a_tick_off(
    tick_s: float, off_s: float, phase: float
) -> None:
    errors_s = errors(tick_s, off_s=off_s, phase=phase, delays=[0.0] * 30)
    assert max(abs(each) for each in errors_s) <= tick_s / 2 + 1e-3


def test_a_sender_whose_phase_wanders_is_known_ever_better() -> None:
    known = None
    for n in range(1, 40):
        end_s = n - 0.5 + 0.45 * (-1) ** n  # Just after a tick and just before one, in turns.
        known = SenderOffset.of(end_s + 7200, last_read_s=n - 1.0, seen_s=float(n), before=known)
    assert known is not None
    assert known.high_s - known.low_s < 0.2
    assert abs(known.received_s(7300.0, nan) - 100.0) < 0.1
