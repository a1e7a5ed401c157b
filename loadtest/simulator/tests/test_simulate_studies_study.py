"""Many runs at once: in order, whatever the number of processes; and the bar."""

import io
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from steelyard_loadtest.machine.errors import SetupError
from steelyard_simulator.model import Balancing, Case, Draw, PeriodicClients, RunResult, Server, Work
from steelyard_simulator.studies.measures import Figures
from steelyard_simulator.studies.study import simulated

from testing.waiting import wait_until


@dataclass(frozen=True)
class Requests:
    """A number of requests to a server that takes a millisecond for each."""

    number: int

    def case(self) -> Case:
        clients = PeriodicClients(clients=1, interval_s=0.01, requests=self.number)
        return Case(
            servers=(Server(),), clients=clients, work=Work(cpu=Draw(mean_s=0.001, shape="constant")),
            duration_s=1.0, balancing=Balancing(law=None, picker="wrr"),
        )  # fmt: skip


@dataclass(frozen=True)
class Long(Requests):
    """A run that lasts until the log says that it is under way."""

    noticed: Path

    def case(self) -> Case:
        wait_until(self.noticed.exists, "a line of the log")
        return super().case()


class Refused(Requests):
    def case(self) -> Case:
        raise ValueError("three")


class Killed(Requests):
    def case(self) -> Case:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().case()


class Log(io.StringIO):
    """A log that touches a file when it says that runs are under way."""

    def __init__(self, noticed: Path) -> None:
        super().__init__()
        self._noticed = noticed

    def write(self, text: str) -> int:
        if "under way" in text:
            self._noticed.touch()
        return super().write(text)


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


def test_a_log_has_how_far_it_is_and_how_fast_the_model_was() -> None:
    log = io.StringIO()
    of([Requests(1), Requests(2)], 1, log)
    first, last = log.getvalue().splitlines()
    assert first == "runs 0/4"
    assert last.endswith(" events/s")


def test_a_file_sees_that_a_long_run_is_under_way_and_those_that_ended_after_it_began(tmp_path: Path) -> None:
    noticed = tmp_path / "noticed"
    log = Log(noticed)
    work: list[tuple[Requests, int]] = [(Long(1, noticed), 1), (Requests(2), 1)]
    runs = simulated(work, served, jobs=2, title="runs", stream=log, beat_s=0.2)
    assert [*runs.values()] == [[{"served": 1}], [{"served": 2}]]
    assert "under way, none has ended for" in log.getvalue()
