"""Sources over real sockets, files and processes: slow, endless, redirecting or without an answer."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from steelyard_agent.indicators.declared import Source
from steelyard_agent.indicators.fetch import MOST_BYTES, fetch
from steelyard_agent.indicators.text_formats import SourceError

from testing import hostile_servers
from testing.daemons import free_port
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
SHORT_S = 0.3


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server that reads a request and answers by `answer`, until its client has left."""

    def serve(client: socket.socket) -> None:
        client.recv(65536)
        answer(client)

    with hostile_servers.serving(serve) as port:
        yield f"http://127.0.0.1:{port}/metrics?all"


def http(url: str, timeout_s: float = PATIENCE_S) -> str:
    return fetch(Source(kind="http", target=url, every_s=1.0), timeout_s, threading.Event())


def command(*words: str, timeout_s: float = PATIENCE_S, stop: threading.Event | None = None) -> str:
    return fetch(Source(kind="command", target=words, every_s=1.0), timeout_s, stop or threading.Event())


def drip(head: bytes) -> Callable[[socket.socket], None]:
    def answer(client: socket.socket) -> None:
        client.sendall(head)
        while True:
            client.sendall(b"x")
            time.sleep(SHORT_S / 10)

    return answer


def flood(client: socket.socket) -> None:
    client.sendall(HEAD)
    while True:
        client.sendall(b"x" * 65536)


def test_a_page_is_the_text_of_its_body() -> None:
    def answer(client: socket.socket) -> None:
        client.sendall(HEAD + 'a{b="\u00e9"} 1\n'.encode() + b"\xff")

    with serving(answer) as url:
        assert http(url) == 'a{b="\u00e9"} 1\n\ufffd'


def test_a_request_has_the_urls_path_and_query_and_asks_for_plain_text() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(http, f"http://127.0.0.1:{listener.getsockname()[1]}/a/b?c=d")
        client, _ = listener.accept()
        with client:
            client.settimeout(PATIENCE_S)
            request = b""
            while b"\r\n\r\n" not in request:
                request += client.recv(65536)
            client.sendall(HEAD + b"5")
        assert answer.result(PATIENCE_S) == "5"
    assert request.startswith(b"GET /a/b?c=d HTTP/1.1\r\n")
    assert b"Accept: text/plain;version=0.0.4" in request


@pytest.mark.parametrize("head", [b"", HEAD], ids=["in its header", "in its body"])
def test_a_byte_now_and_then_is_no_answer(head: bytes) -> None:
    with serving(drip(head)) as url, pytest.raises(SourceError, match=r"no answer within 0.3 s"):
        http(url, SHORT_S)


def test_an_endless_body_is_not_kept() -> None:
    with serving(flood) as url, pytest.raises(SourceError, match="it is longer than 1024 KiB: ask for less"):
        http(url)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "it answers 404: its path is another one"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "it answers 204"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
            "it answers 302, and redirections are not followed: give http://elsewhere/",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0-OpenSSH_9.2"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n", "got more than 100 headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n5", "IncompleteRead(1 bytes read, 8 more expected)"),
        (b"", "Remote end closed connection without response"),
    ],
)
def test_what_is_no_page_is_said(answer: bytes, message: str) -> None:
    with serving(lambda client: client.sendall(answer)) as url, pytest.raises(SourceError) as raised:
        http(url)
    assert str(raised.value) == message


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
def test_a_server_that_is_not_there_is_said(host: str) -> None:
    with pytest.raises(SourceError):
        http(f"http://{host}/")
    with pytest.raises(SourceError, match="Connection refused"):
        http(f"http://127.0.0.1:{free_port()}/")


def file(path: Path) -> str:
    return fetch(Source(kind="file", target=str(path), every_s=1.0), PATIENCE_S, threading.Event())


def test_a_file_is_its_text_unless_it_is_none_or_endless(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    path.write_text("5\n")
    assert file(path) == "5\n"
    path.write_bytes(b"5" * (MOST_BYTES + 1))
    with pytest.raises(SourceError, match="it is longer than 1024 KiB"):
        file(path)
    with pytest.raises(SourceError, match="No such file or directory"):
        file(tmp_path / "none")
    with pytest.raises(SourceError, match="it is not a regular file"):
        file(Path("/dev/zero"))
    with pytest.raises(SourceError, match="Is a directory"):
        file(tmp_path)


def test_a_pipe_that_nobody_writes_into_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="it is not a regular file"):
        file(tmp_path / "pipe")


def test_a_command_is_what_it_says_without_a_shell() -> None:
    assert command("echo", "$HOME", "5") == "$HOME 5\n"


def test_a_command_gets_none_of_the_agents_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_AGENT_KEY", "k" * 32)
    monkeypatch.setenv("PGUSER", "stats")
    assert command("sh", "-c", "echo ${STEELYARD_AGENT_KEY-none} $PGUSER") == "none stats\n"


def test_a_command_has_no_signal_blocked() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        assert command("grep", "SigBlk", "/proc/self/status").split() == ["SigBlk:", "0" * 16]
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(SourceError) as raised:
        command("sh", "-c", "echo 5; echo no such pool >&2; exit 3")
    assert str(raised.value) == "it ended with status 3: no such pool"
    with pytest.raises(SourceError, match="it ended with status -9"):
        command("sh", "-c", "kill -9 $$")
    with pytest.raises(SourceError, match="No such file or directory"):
        command("no-such-program-here")


def test_a_command_that_says_too_much_is_killed() -> None:
    with pytest.raises(SourceError, match="it is longer than 1024 KiB"):
        command("yes")
    # Its standard error is read on, so that it is not held up, and not kept.
    assert command("sh", "-c", "yes no | head -c 300000 >&2; echo 5") == "5\n"


@pytest.mark.parametrize("script", ["sleep 600", "exec >&- 2>&-; sleep 600"], ids=["silent", "closed"])
def test_a_command_that_does_not_end_is_no_answer(script: str) -> None:
    with pytest.raises(SourceError, match=r"no answer within 0.3 s"):
        command("sh", "-c", script, timeout_s=SHORT_S)


def test_a_command_is_killed_with_its_children(tmp_path: Path) -> None:
    numbers, stop = tmp_path / "numbers", threading.Event()
    script = f"sleep 600 & echo $$ $! > {numbers}.new; mv {numbers}.new {numbers}; sleep 600"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(command, "sh", "-c", script, timeout_s=600.0, stop=stop)
        wait_until(numbers.exists)
        stop.set()
        with pytest.raises(SourceError):
            asked.result(PATIENCE_S)
    for pid in numbers.read_text().split():
        wait_until(partial(has_ended, pid))


def has_ended(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in {"Z", "X"}  # its new parent may take its time
