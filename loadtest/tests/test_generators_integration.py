"""Every generator with a small server: answers, failures, stalls, closed connections, no answer."""

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from steelyard_loadtest.generators import LOCUST_USERS, OPEN_LOOP, Job, Running, start
from steelyard_loadtest.generators.load import Recorded
from steelyard_loadtest.generators.wrk import Wrk
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.find_programs import find
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.measurements.trials import PERCENTILES, Outcome
from steelyard_loadtest.scenario.definition import Generator

from testing.answering_server import AnsweringServer
from testing.daemons import free_port
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

GENERATORS: tuple[Generator, ...] = ("locust", "open", "wrk")
STALL_AFTER_S, STALL_S = 1.0, 1.0
# Closed loops send as fast as they are answered, and would take a CPU from other tests.
PAUSE_S = 0.005


class Server(AnsweringServer):
    """Answers after PAUSE_S, as the path says.

    /fine    always
    /tenth   503 every tenth time
    /stall   after a pause, once
    /hang    no more after a second
    /close   never, but closes
    /once    once on each connection, and closes at the second

    A client that asks for it has the connection closed.
    """

    def __init__(self) -> None:
        self.answered = self.connections = 0
        self._first_s: float | None = None
        super().__init__()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: int) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1]
        self.connections += not answers
        await asyncio.sleep(PAUSE_S)
        if path == b"/close" or (path == b"/once" and answers):
            return False
        since_s = self._since_first_s()
        if path == b"/hang" and since_s >= STALL_AFTER_S:
            await self.over.wait()
        if path == b"/stall" and STALL_AFTER_S <= since_s < STALL_AFTER_S + STALL_S:
            await asyncio.sleep(STALL_AFTER_S + STALL_S - since_s)
        self.answered += 1
        bad = path == b"/tenth" and self.answered % 10 == 0
        status = b"503 Busy" if bad else b"200 OK"
        kept = b"connection: close" not in head.lower()
        connection = b"" if kept else b"Connection: close\r\n"
        writer.write(b"HTTP/1.1 %s\r\n%sContent-Length: 3\r\n\r\nok\n" % (status, connection))
        return kept

    def _since_first_s(self) -> float:
        now_s = time.monotonic()
        if self._first_s is None:
            self._first_s = now_s
        return now_s - self._first_s


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def programs() -> Programs:
    return find(None)


def finish(running: Running) -> Outcome:
    deadline_s = time.monotonic() + 3 * PATIENCE_S
    while not running.poll():
        assert time.monotonic() < deadline_s, "the generator did not end"
        time.sleep(0.02)
    return running.outcome()


def job(generator: Generator, url: str, programs: Programs, folder: Path, **changed: Any) -> Job:
    level, seconds = (50.0, 2.0) if generator == "open" else (2.0, 1.0)
    times: dict[str, Any] = {"level": level, "seconds": seconds, "warm_up_s": 0.3} | changed
    return Job(generator=generator, url=url, programs=programs, folder=folder, **times)


def at(outcome: Outcome, part: float) -> float:
    return next(quantile.ms for quantile in outcome.quantiles if quantile.part == part)


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_tenth_that_fails_is_counted_and_the_rest_measured(
    generator: Generator, server: Server, programs: Programs, tmp_path: Path
) -> None:
    running = start(job(generator, server.url("/tenth"), programs, tmp_path))
    assert running.began_s is None
    before_s = time.monotonic()
    outcome = finish(running)
    assert running.began_s is not None
    assert before_s <= running.began_s < time.monotonic()
    assert outcome.requests <= server.answered
    assert outcome.failures == sum(outcome.kinds.values())
    assert 0 < outcome.failures < outcome.requests / 2
    assert outcome.kinds.keys() <= {"503", "status 400 and above"}
    ms = [quantile.ms for quantile in outcome.quantiles]
    assert [quantile.part for quantile in outcome.quantiles] == list(PERCENTILES.values())
    assert outcome.min_ms is not None
    assert outcome.max_ms is not None
    assert outcome.min_ms <= ms[0] <= ms[-1] <= outcome.max_ms
    assert outcome.generator_cpu_utilization is not None
    assert outcome.generator_cpu_utilization > 0


def test_the_open_loop_spreads_its_requests_over_several_urls(
    server: Server, programs: Programs, tmp_path: Path
) -> None:
    other = Server()
    try:
        urls = f"{server.url('/fine')} {other.url('/fine')}"
        outcome = finish(start(job("open", urls, programs, tmp_path, warm_up_s=0.0)))
    finally:
        other.stop()
    assert (outcome.requests, outcome.failures) == (100, 0)
    assert server.answered + other.answered == 100
    assert min(server.answered, other.answered) > 20


def test_what_is_sent_in_the_warm_up_is_not_counted(
    server: Server, programs: Programs, tmp_path: Path
) -> None:
    outcome = finish(start(job("open", server.url("/fine"), programs, tmp_path, warm_up_s=1.0)))
    assert (outcome.requests, outcome.failures) == (100, 0)
    assert server.answered == 150


def test_the_open_loop_sees_a_stall_and_the_closed_loop_does_not(programs: Programs, tmp_path: Path) -> None:
    tails = {}
    for generator in ("open", "locust"):
        server = Server()
        level = 50.0 if generator == "open" else 1.0
        what = job(generator, server.url("/stall"), programs, tmp_path, level=level, seconds=3.0)
        try:
            outcome = finish(start(what))
        finally:
            server.stop()
        assert outcome.failures == 0
        # Both had requests in the stall; a user that it held back sent no others meanwhile.
        assert outcome.max_ms is not None
        assert outcome.max_ms > 0.5 * STALL_S * 1000
        tails[generator] = at(outcome, 0.99)
    assert tails["open"] > 0.5 * STALL_S * 1000 > tails["locust"]


@pytest.mark.parametrize("generator", ["locust", "open"])
def test_a_port_where_nobody_listens_is_refused(
    generator: Generator, programs: Programs, tmp_path: Path
) -> None:
    outcome = finish(start(job(generator, f"http://127.0.0.1:{free_port()}/", programs, tmp_path)))
    assert outcome.requests == outcome.failures > 0
    assert outcome.kinds == {"refused": outcome.failures}
    assert (outcome.mean_ms, outcome.quantiles) == (None, ())


def test_wrk_without_a_server_is_an_error_with_its_words(programs: Programs, tmp_path: Path) -> None:
    running = start(job("wrk", f"http://127.0.0.1:{free_port()}/", programs, tmp_path))
    with pytest.raises(ProgramError, match=r"wrk ended with 1: unable to connect to 127\.0\.0\.1:\d+"):
        finish(running)


@pytest.mark.parametrize("own_connections", [True, False])
def test_wrk_keeps_its_connections_unless_each_request_is_to_have_its_own(
    own_connections: bool, server: Server, programs: Programs, tmp_path: Path
) -> None:
    what = job("wrk", server.url("/fine"), programs, tmp_path, warm_up_s=0.0, own_connections=own_connections)
    outcome = finish(start(what))
    assert outcome.failures == 0
    assert outcome.requests > 2
    if own_connections:
        # wrk ends while some of its requests, each on a connection, have no answer yet.
        assert 0 <= server.connections - server.answered <= what.level
    else:
        assert server.connections <= 3


@pytest.mark.parametrize("generator", ["locust", "open"])
def test_a_server_that_closes_without_an_answer_is_a_reset(
    generator: Generator, server: Server, programs: Programs, tmp_path: Path
) -> None:
    outcome = finish(start(job(generator, server.url("/close"), programs, tmp_path)))
    assert outcome.requests == outcome.failures > 0
    assert outcome.kinds == {"reset": outcome.failures}


def test_a_kept_connection_that_the_server_closed_meanwhile_is_no_failure(
    server: Server, programs: Programs, tmp_path: Path
) -> None:
    outcome = finish(start(job("open", server.url("/once"), programs, tmp_path)))
    assert (outcome.requests, outcome.failures) == (100, 0)


@pytest.mark.parametrize("program", [LOCUST_USERS, OPEN_LOOP], ids=["locust", "open"])
def test_what_is_under_way_at_the_end_and_stays_so_is_unanswered(
    program: Path, server: Server, programs: Programs, tmp_path: Path
) -> None:
    closed = program == LOCUST_USERS
    what = job("locust" if closed else "open", server.url("/hang"), programs, tmp_path, seconds=2.0)
    outcome = finish(Recorded(replace(what, finish_s=0.2), program, "the generator"))
    assert outcome.kinds == {"unanswered": outcome.failures}
    # Each of two users is held back by one; a constant rate goes on.
    assert outcome.failures == 2 if closed else outcome.failures > 20
    assert outcome.requests > outcome.failures
    assert outcome.quantiles


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_load_that_is_stopped_leaves_no_process(
    generator: Generator, server: Server, programs: Programs, tmp_path: Path
) -> None:
    running = start(job(generator, server.url("/fine"), programs, tmp_path, seconds=60.0, warm_up_s=0.0))
    assert not running.poll()
    running.stop()
    running.stop()
    assert running.poll()
    assert not _processes_with(str(tmp_path))
    with pytest.raises(ProgramError):
        running.outcome()


def _processes_with(text: str) -> list[str]:
    started = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in words:
                started.append(entry.name)
    return started


def test_a_program_that_hangs_at_its_end_is_killed(programs: Programs, tmp_path: Path) -> None:
    hanging = tmp_path / "wrk"
    hanging.write_text("#!/bin/sh\nexec sleep 601.5")
    hanging.chmod(0o700)
    hangs = replace(programs, wrk=str(hanging))
    running = Wrk(job("wrk", "http://127.0.0.1:1/", hangs, tmp_path, seconds=0.2), end_s=0.1)
    with pytest.raises(ProgramError, match="wrk did not end 0 s after its time"):
        finish(running)
    assert not _processes_with("sleep\x00601.5")


def test_a_generator_that_breaks_tells_its_last_words(programs: Programs, tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit('no more sockets')")
    what = job("open", "http://127.0.0.1:1/", programs, tmp_path)
    running = Recorded(what, program, "the generator open")
    with pytest.raises(ProgramError, match="the generator open ended with 1: no more sockets"):
        finish(running)
