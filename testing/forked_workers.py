"""A plugin of pytest: runs tests in forks of a process that has imported and collected them once.

    python -m pytest -p testing.forked_workers --forks 3 ...

    pytest, which collects --- fork, a range of tests each ---> workers, which steal from each other
          ^--------------- a pipe from each: reports ---------------'

Workers of pytest-xdist would each import and collect all tests of their run, in 2 to 4 s of CPU time. The
environment of a worker has the variables that it would have with xdist.

A worker takes tests from the front of its range. Once that is empty, it takes the back half of the largest
range. It takes the next test of its range before it runs one, because pytest keeps fixtures that both use.
"""

import atexit
import mmap
import os
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

FORK = get_context("fork")

REPORT, FAILURE, END = "report", "failure", "end"
"""Kinds of a worker's messages: a test's report, the worker's own traceback, the end of its tests."""

NONE = -1
"""No test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--forks", type=int, default=0, metavar="N", help="run tests in N forks of this process")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forks, if the option asks for them."""
    count = min(session.config.getoption("forks"), len(session.items))
    if count < 1 or session.config.option.collectonly or session.testsfailed:
        return None  # pytest's own loop
    ranges = Ranges(len(session.items), count)
    # The workers' temporary folders are inside.
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    workers: dict[Connection, _Worker] = {}
    try:
        for number in range(count):
            ours, its = FORK.Pipe(duplex=False)
            with warnings.catch_warnings():
                # Python 3.12 warns if there are threads, and numpy's library may have some.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                _run_in_fork(session, ranges, number, count, its, [ours, *workers])
            its.close()
            workers[ours] = _Worker(pid, number)
        _gather(session, ranges, workers)
    finally:
        for pipe, worker in workers.items():
            pipe.close()
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGINT)
            os.waitpid(worker.pid, 0)
    return True


class Ranges:
    """A range of tests that none has taken yet for each worker, and those taken last; in shared memory."""

    def __init__(self, tests: int, workers: int) -> None:
        numbers = memoryview(mmap.mmap(-1, 4 * 4 * workers)).cast("i")
        self._first, self._end, self._running, self._next = (
            numbers[column * workers : (column + 1) * workers] for column in range(4)
        )
        self._lock = FORK.Lock()
        for worker in range(workers):
            self._first[worker] = tests * worker // workers
            self._end[worker] = tests * (worker + 1) // workers
            self._running[worker] = self._next[worker] = NONE

    def take(self, worker: int) -> tuple[int, int] | None:
        """Return the test that a worker runs now, and the next one or NONE; None if no test is left."""
        with self._lock:
            if self._next[worker] == NONE:
                if self._first[worker] == self._end[worker]:
                    self._steal(worker)
                self._take_next(worker)
            self._running[worker] = self._next[worker]
            self._take_next(worker)
            running = self._running[worker]
            return None if running == NONE else (running, self._next[worker])

    def taken(self, worker: int) -> list[int]:
        """Return the tests that a worker has taken last: the running one, and the next one."""
        return [test for test in (self._running[worker], self._next[worker]) if test != NONE]

    def _take_next(self, worker: int) -> None:
        self._next[worker] = NONE
        if self._first[worker] < self._end[worker]:
            self._next[worker] = self._first[worker]
            self._first[worker] += 1

    def _steal(self, worker: int) -> None:
        left = [end - first for first, end in zip(self._first, self._end, strict=True)]
        richest = left.index(max(left))
        middle = self._end[richest] - (left[richest] + 1) // 2
        self._first[worker], self._end[worker] = middle, self._end[richest]
        self._end[richest] = middle


@dataclass
class _Worker:
    pid: int
    number: int
    ended: bool = False


def _gather(session: pytest.Session, ranges: Ranges, workers: dict[Connection, _Worker]) -> None:
    """Pass the workers' reports on to pytest until all workers have ended."""
    hook = session.config.hook
    while workers:
        for pipe in wait([*workers]):
            assert isinstance(pipe, Connection)
            try:
                kind, content = pipe.recv()
            except EOFError:
                worker = workers.pop(pipe)
                pipe.close()
                _, status = os.waitpid(worker.pid, 0)
                if not worker.ended:
                    for test in ranges.taken(worker.number):
                        _report_lost(session.items[test], os.waitstatus_to_exitcode(status))
                continue
            if kind == END:
                workers[pipe].ended = True
            elif kind == FAILURE:
                raise RuntimeError(f"a worker failed:\n{content}")
            else:
                report = hook.pytest_report_from_serializable(config=session.config, data=content)
                hook.pytest_runtest_logreport(report=report)
                if report.when == "teardown":
                    hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)


def _report_lost(item: pytest.Item, status: int) -> None:
    item.config.hook.pytest_runtest_logreport(
        report=pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"its worker ended with status {status} in this test or in the one before",
            when="call",
        )
    )


def _run_in_fork(
    session: pytest.Session,
    ranges: Ranges,
    number: int,
    count: int,
    pipe: Connection,
    others: list[Connection],
) -> NoReturn:
    """Be a worker: run tests, and end."""
    try:
        try:
            for other in others:
                other.close()
            _prepare(session.config, number, count, pipe)
            _run(session, ranges, number)
            pipe.send((END, None))
        except BaseException:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C, pytest sends another one
            with suppress(OSError):
                pipe.send((FAILURE, traceback.format_exc()))
            session._setupstate.teardown_exact(None)
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def _prepare(config: pytest.Config, number: int, count: int, pipe: Connection) -> None:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getppid()))
    os.environ |= {
        "PYTEST_XDIST_TESTRUNUID": run,
        "PYTEST_XDIST_WORKER": f"gw{number}",
        "PYTEST_XDIST_WORKER_COUNT": str(count),
    }
    folders = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._exit_stack.pop_all()  # the parent cleans up
    folders._basetemp = folders.getbasetemp() / f"gw{number}"
    folders._basetemp.mkdir(mode=0o700)
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    # Forks would all write to the same files, at one position.
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    terminal._tw = type(terminal._tw)(Path(os.devnull).open("w"))  # noqa: SIM115
    config.pluginmanager.register(_Reports(config, pipe))


def _run(session: pytest.Session, ranges: Ranges, number: int) -> None:
    while (taken := ranges.take(number)) and not (session.shouldfail or session.shouldstop):
        item, following = (None if test == NONE else session.items[test] for test in taken)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


class _Reports:
    """The plugin of a worker that sends its reports."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config, self._pipe = config, pipe

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        content = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send((REPORT, content))
