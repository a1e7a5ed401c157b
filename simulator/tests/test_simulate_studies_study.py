"""Many runs at once: in order, whatever the number of processes; and the bar."""

import io
import os
import signal
from dataclasses import dataclass

import pytest
from steelyard_loadtest.machine.errors import SetupError
from steelyard_simulator.model import Balancing, Case, Draw, PeriodicClients, RunResult, Server, Work
from steelyard_simulator.studies.measures import Figures
from steelyard_simulator.studies.study import simulated


@dataclass(frozen=True)
class Requests:
    """So many requests, of a server that takes a millisecond for each."""

    number: int

    def case(self) -> Case:
        clients = PeriodicClients(clients=1, interval_s=0.01, requests=self.number)
        return Case(
            servers=(Server(),), clients=clients, work=Work(cpu=Draw(mean_s=0.001, shape="constant")),
            duration_s=1.0, balancing=Balancing(law=None, picker="wrr"),
        )  # fmt: skip


class Refused(Requests):
    def case(self) -> Case:
        raise ValueError("three")


class Killed(Requests):
    def case(self) -> Case:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().case()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def served(_case: Case, result: RunResult) -> Figures:
    return {"served": result.served}


def of(trials: list[Requests], jobs: int, stream: io.StringIO | None = None) -> list[list[Figures]]:
    work = [(trial, seed) for trial in trials for seed in (1, 2)]
    return [*simulated(work, served, jobs=jobs, title="runs", stream=stream or io.StringIO()).values()]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_are_in_the_order_of_the_work(jobs: int) -> None:
    found = of([Requests(number) for number in (7, 1, 5, 3)], jobs)
    assert found == [[{"served": number}] * 2 for number in (7, 1, 5, 3)]


def test_nothing_to_do_is_done() -> None:
    assert of([], 4) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_one_of_them_is_raised(jobs: int) -> None:
    with pytest.raises(ValueError, match="three"):
        of([Requests(1), Requests(2), Refused(3), Requests(4)], jobs)


def test_a_process_that_is_killed_is_explained() -> None:
    with pytest.raises(SetupError, match="try a smaller --jobs"):
        of([Requests(1), Killed(2), Requests(3)], 2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_terminal_sees_a_bar_that_goes_away(jobs: int) -> None:
    screen = Terminal()
    of([Requests(1), Requests(2)], jobs, screen)
    drawn = screen.getvalue()
    assert "runs 0/4" in drawn
    assert "runs 4/4" in drawn
    assert drawn.rindex("runs 4/4") < drawn.rindex("\x1b[2K")


def test_a_file_sees_how_far_it_is_no_bar_and_how_fast_the_model_was() -> None:
    log = io.StringIO()
    of([Requests(1), Requests(2)], 1, log)
    first, last = log.getvalue().splitlines()
    assert first == "runs 0/4"
    assert last.endswith(" events/s")
