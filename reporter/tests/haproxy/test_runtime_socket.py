"""A socket of another program, a hanging, dripping or forbidden one: a clear line within the deadline."""

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_protocol.deadline import Deadline
from steelyard_reporter.haproxy.runtime_socket import RuntimeSocket
from steelyard_reporter.haproxy.show_stat import HaproxyFault, Process

from testing.waiting import PATIENCE_S

from ..rows import info, stat
from ..sockets import Answer, saying, serving

NOBODY = 65534


def _fault(
    path: Path, answer: Answer, within_s: float = 0.3, clock: Callable[[], float] = time.monotonic
) -> str:
    with serving(path, answer), pytest.raises(HaproxyFault) as fault:
        _read(path, within_s, clock)
    return str(fault.value)


def _read(
    path: Path, within_s: float = PATIENCE_S, clock: Callable[[], float] = time.monotonic
) -> list[Process]:
    deadline = Deadline(clock)
    deadline.start(within_s)
    return RuntimeSocket(path, deadline).read(["web"])


def test_a_socket_that_hangs_costs_its_deadline(tmp_path: Path) -> None:
    def hang(connection: socket.socket, ended: threading.Event) -> None:  # noqa: ARG001
        ended.wait(PATIENCE_S)

    assert "has not answered in time" in _fault(tmp_path / "s", hang)


def test_a_socket_that_drips_costs_its_deadline_and_not_one_for_each_byte(tmp_path: Path) -> None:
    sent: list[bytes] = []

    def drip(connection: socket.socket, ended: threading.Event) -> None:
        while not ended.wait(0.02):
            connection.sendall(b"N")
            sent.append(b"N")

    # Each byte takes a third of the deadline.
    fault = _fault(tmp_path / "s", drip, PATIENCE_S, lambda: len(sent) * PATIENCE_S / 3)
    assert "has not answered in time" in fault


def test_another_program_s_socket_is_named(tmp_path: Path) -> None:
    assert "no runtime socket of HAProxy (it answers 'ERROR')" in _fault(
        tmp_path / "s", saying("ERROR\r\n"), PATIENCE_S
    )


def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    whole = f"{info()}\n\n{stat({'name': 's1'}, {'name': 's2'})}\n\n"
    with serving(tmp_path / "whole", saying(whole)):
        assert len(_read(tmp_path / "whole")) == 1
    cut = whole[: -len("p,100,\n\n")]
    assert "broke off" in _fault(tmp_path / "cut", saying(cut), PATIENCE_S)


def test_a_backend_that_a_frontend_of_its_name_hides_is_found_among_all(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(connection: socket.socket, ended: threading.Event) -> None:  # noqa: ARG001
        asked.append(connection.recv(1000).decode())
        rows = [{"name": "BACKEND", "type": 1}, {"name": "s1"}, {"name": "s2", "pxname": "shop"}]
        connection.sendall(f"{info()}\n\n{stat(*rows if ' -1 6 ' in asked[-1] else ())}\n\n".encode())

    deadline = Deadline(time.monotonic)
    deadline.start(PATIENCE_S)
    runtime = RuntimeSocket(tmp_path / "s", deadline)
    with serving(tmp_path / "s", answer):
        for _ in range(2):
            (process,) = runtime.read(["web"])
            assert list(process.servers["web"] or ()) == ["s1"]
    # Once known it is not asked for by its name again.
    assert [" web " in question for question in asked] == [True, False, False]


def test_a_worker_that_ends_between_two_questions_is_gone_and_no_fault(tmp_path: Path) -> None:
    def answer(connection: socket.socket, ended: threading.Event) -> None:  # noqa: ARG001
        asked = connection.recv(1000).decode()
        if asked.startswith("show info"):
            text = "Unknown command: 'show info'\n  show proc : ...\n\n"
        elif asked.startswith("show proc"):
            text = "# workers\n8 worker 0 0d 2.6\n# old workers\n7 worker 1 0d 2.6\n"
        elif asked.startswith("@!8 "):
            text = f"{info(pid=8)}\n\n{stat({'name': 's1'})}\n\n"
        else:
            text = "Can't find the target PID matching the prefix '@!7'\n"
        connection.sendall(text.encode())

    with serving(tmp_path / "s", answer):
        (process,) = _read(tmp_path / "s")
    assert process.pid == 8


def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HaproxyFault, match="is HAProxy running, with this `stats socket`"):
        _read(tmp_path / "none")


def test_a_host_that_has_no_possible_name_is_named() -> None:
    deadline = Deadline(time.monotonic)
    deadline.start(PATIENCE_S)
    with pytest.raises(HaproxyFault, match=r"a\.\.b:9999 does not answer"):
        RuntimeSocket(("a..b", 9999), deadline).ask("show info")


def test_of_a_host_s_addresses_the_one_where_haproxy_listens_is_found() -> None:
    deadline = Deadline(time.monotonic)
    deadline.start(PATIENCE_S)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        addresses = [("::1", port), ("127.0.0.1", port)]
        runtime = RuntimeSocket(("edge", port), deadline, lookup=lambda _: addresses)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"Name: HAProxy")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            assert runtime.ask("show info") == "Name: HAProxy"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def test_a_socket_that_may_not_be_opened_is_named_with_the_remedy(tmp_path: Path) -> None:
    with serving(tmp_path / "s", saying("")):
        (tmp_path / "s").chmod(0)
        # Root may open every socket.
        user = os.geteuid()
        os.seteuid(NOBODY if user == 0 else user)
        try:
            with pytest.raises(HaproxyFault, match="add it to the socket's group"):
                _read(tmp_path / "s")
        finally:
            os.seteuid(user)
