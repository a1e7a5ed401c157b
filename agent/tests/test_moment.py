"""Values that several readers share for a moment."""

import pytest
from steelyard_agent.moment import MOMENT_S, Moment


def test_what_is_read_at_one_moment_is_read_once_and_at_the_next_again() -> None:
    moment, numbers = Moment(), iter(range(10))
    moment.at(100.0)
    assert [moment.read("memory", numbers.__next__) for _ in range(2)] == [0, 0]
    moment.at(100.0 + MOMENT_S / 2)
    assert moment.read("memory", numbers.__next__) == 0
    moment.at(100.0 + 2 * MOMENT_S)
    assert moment.read("memory", numbers.__next__) == 1
    moment.at(99.0)  # a clock that stepped back
    assert moment.read("memory", numbers.__next__) == 2


def test_what_could_not_be_read_is_tried_again() -> None:
    moment = Moment()
    moment.at(100.0)

    def fail() -> int:
        raise OSError

    with pytest.raises(OSError, match=r"^$"):
        moment.read("cores", fail)
    assert moment.read("cores", lambda: 4) == 4


def test_a_reader_alone_keeps_nothing() -> None:
    moment, numbers = Moment(span_s=0.0), iter(range(10))
    for expected in (0, 1):
        moment.at(100.0)
        assert moment.read("memory", numbers.__next__) == expected
