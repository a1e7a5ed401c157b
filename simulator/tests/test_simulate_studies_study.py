"""Many runs at once: in order, whatever the number of processes; and the bar."""

import io
import os
import signal

import pytest
from steelyard_loadtest.machine.errors import SetupError
from steelyard_simulator.studies.study import mapped


def square(number: int) -> int:
    return number * number


def refuse_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_are_in_the_order_of_the_arguments(jobs: int) -> None:
    assert mapped(square, range(7), jobs=jobs) == [0, 1, 4, 9, 16, 25, 36]


def test_nothing_to_do_is_done() -> None:
    assert mapped(square, [], jobs=4) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_one_of_them_is_raised(jobs: int) -> None:
    with pytest.raises(ValueError, match="three"):
        mapped(refuse_three, range(5), jobs=jobs)


def test_a_process_that_is_killed_is_explained() -> None:
    with pytest.raises(SetupError, match="try a smaller --jobs"):
        mapped(die, range(4), jobs=2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_terminal_sees_a_bar_that_goes_away(jobs: int) -> None:
    screen = Terminal()
    mapped(square, range(4), jobs=jobs, title="squares", stream=screen)
    drawn = screen.getvalue()
    assert "squares 0/4" in drawn
    assert "squares 4/4" in drawn
    assert drawn.rindex("squares 4/4") < drawn.rindex("\x1b[2K")


def test_a_file_sees_how_far_it_is_and_no_bar() -> None:
    log = io.StringIO()
    mapped(square, range(4), jobs=1, title="squares", stream=log)
    assert log.getvalue() == "squares 0/4\n"
