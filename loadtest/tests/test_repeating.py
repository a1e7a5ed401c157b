"""Repeated work beside other work."""

from threading import Event

import pytest
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.repeating import repeating

PATIENCE_S = 10.0


def test_it_goes_on_until_it_is_stopped_whatever_fails_meanwhile() -> None:
    done, thrice = [0], Event()

    def work() -> None:
        done[0] += 1
        if done[0] == 1:
            raise ConnectionResetError("once")
        if done[0] == 3:
            thrice.set()

    with repeating(work, interval_s=0.001):
        assert thrice.wait(PATIENCE_S)
    after = done[0]
    Event().wait(0.02)  # twenty more, if it went on
    assert done[0] == after


def test_work_that_never_succeeded_is_an_error_with_its_reason() -> None:
    tried = Event()

    def work() -> None:
        tried.set()
        raise ProgramError("memcached does not store it")

    never = pytest.raises(ProgramError, match="never succeeded: memcached does not store it")
    with never, repeating(work, interval_s=0.001):
        assert tried.wait(PATIENCE_S)


def test_a_mistake_in_the_work_ends_it_and_is_raised_at_the_end() -> None:
    tried = [0]

    def work() -> None:
        tried[0] += 1
        raise KeyError("server-9")

    with pytest.raises(KeyError, match="server-9"), repeating(work, interval_s=0.001):
        Event().wait(0.02)  # twenty more, if it went on
    assert tried == [1]
