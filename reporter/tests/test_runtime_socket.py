"""A socket that is no HAProxy's, hangs, drips or may not be opened: a clear line within the deadline."""

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from steelyard_protocol.deadline import Deadline
from steelyard_reporter.haproxy.runtime_socket import RuntimeSocket
from steelyard_reporter.haproxy.statistics import HaproxyFault

from conftest import PATIENCE_S

from .rows import info, stat

NOBODY = 65534


@contextmanager
def _serving(path: Path, answer: Callable[[socket.socket, threading.Event], None]) -> Iterator[None]:
    """Listen at `path`, and do this with each connection until the block ends."""
    ended, connections = threading.Event(), []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connections.append(connection)
                    with suppress(OSError):
                        answer(connection, ended)
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def _fault(
    path: Path, answer: Callable[[socket.socket, threading.Event], None], within_s: float = 0.3
) -> str:
    with _serving(path, answer), pytest.raises(HaproxyFault) as fault:
        _read(path, within_s)
    return str(fault.value)


def _read(path: Path, within_s: float = PATIENCE_S) -> list[object]:
    deadline = Deadline(time.monotonic)
    deadline.start(within_s)
    return list(RuntimeSocket(path, deadline).read(["web"]))


def _saying(text: str) -> Callable[[socket.socket, threading.Event], None]:
    def say(connection: socket.socket, ended: threading.Event) -> None:  # noqa: ARG001
        connection.recv(1000)
        connection.sendall(text.encode())

    return say


def test_a_socket_that_hangs_costs_its_deadline(tmp_path: Path) -> None:
    def hang(connection: socket.socket, ended: threading.Event) -> None:  # noqa: ARG001
        ended.wait(PATIENCE_S)

    assert "has not answered in time" in _fault(tmp_path / "s", hang)


def test_a_socket_that_drips_costs_its_deadline_and_not_one_for_each_byte(tmp_path: Path) -> None:
    sent = itertools.count()

    def drip(connection: socket.socket, ended: threading.Event) -> None:
        while not ended.wait(0.02):
            connection.sendall(b"N")
            next(sent)

    assert "has not answered in time" in _fault(tmp_path / "s", drip)
    assert next(sent) > 1


def test_another_program_s_socket_is_named(tmp_path: Path) -> None:
    assert "no runtime socket of HAProxy's (it says 'ERROR')" in _fault(
        tmp_path / "s", _saying("ERROR\r\n"), PATIENCE_S
    )


def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    whole = f"{info()}\n\n{stat({'name': 's1'}, {'name': 's2'})}\n\n"
    with _serving(tmp_path / "whole", _saying(whole)):
        assert len(_read(tmp_path / "whole")) == 1
    cut = whole[: -len("p,100,\n\n")]
    assert "broke off" in _fault(tmp_path / "cut", _saying(cut), PATIENCE_S)


def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HaproxyFault, match="is HAProxy running, with this `stats socket`"):
        _read(tmp_path / "none")


def test_a_host_that_has_no_possible_name_is_named() -> None:
    deadline = Deadline(time.monotonic)
    deadline.start(PATIENCE_S)
    with pytest.raises(HaproxyFault, match=r"a\.\.b:9999 does not answer"):
        RuntimeSocket(("a..b", 9999), deadline).ask("show info")


def test_a_socket_that_may_not_be_opened_is_named_with_the_remedy(tmp_path: Path) -> None:
    with _serving(tmp_path / "s", _saying("")):
        (tmp_path / "s").chmod(0)
        # Root may open every socket.
        user = os.geteuid()
        os.seteuid(NOBODY if user == 0 else user)
        try:
            with pytest.raises(HaproxyFault, match="add it to the socket's group"):
                _read(tmp_path / "s")
        finally:
            os.seteuid(user)
