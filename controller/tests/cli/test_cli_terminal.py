"""`steelyard` at a terminal: a real pseudo-terminal, its size, its keys, and how it is left."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence

import pytest

from testing import warm_start
from testing.waiting import PATIENCE_S

from .test_cli_integration import Controller, running_in

pytestmark = pytest.mark.integration

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with running_in(tmp_path_factory.mktemp("controller")) as one:
        yield one


class Terminal:
    """A pseudo-terminal with a command in it; `seen` is all its output."""

    def __init__(self, rows: int, columns: int) -> None:
        self._mine, self._its = pty.openpty()
        self.seen = b""
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self._its)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, arguments: Sequence[str], **environment: str) -> None:
        kept = {
            name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}
        }
        self.process = warm_start.Popen(
            [sys.executable, "-m", "steelyard_controller.cli", *arguments],
            stdin=self._its, stdout=self._its, stderr=self._its,
            env={**kept, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment},
        )  # fmt: skip

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._mine, (rows, columns))

    def press(self, keys: bytes) -> None:
        os.write(self._mine, keys)

    def read_until(self, text: bytes, *, after: int = 0) -> int:
        """Wait until `text` appears behind `after`; return its end."""
        give_up_s = time.monotonic() + PATIENCE_S
        while (at := self.seen.find(text, after)) < 0:
            assert time.monotonic() < give_up_s, f"never wrote {text!r}: {self.seen!r}"
            ready, _, _ = select.select([self._mine], [], [], 0.1)
            if ready:
                self.seen += os.read(self._mine, 65536)
        return at + len(text)

    def ends_with(self) -> int:
        """Wait for the command's end, reading its output; return its exit status."""
        assert self.process is not None
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            ready, _, _ = select.select([self._mine], [], [], 0.05)
            if ready:
                self.seen += os.read(self._mine, 65536)
            elif self.process.poll() is not None:
                return self.process.returncode
            assert time.monotonic() < give_up_s, f"it does not end: {self.seen!r}"

    def attributes(self) -> list[object]:
        return list(termios.tcgetattr(self._its))

    def vanish(self) -> None:
        """Close the terminal, as if its window were gone."""
        os.close(self._mine)
        self._mine = os.open(os.devnull, os.O_RDWR)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        os.close(self._mine)
        os.close(self._its)


@contextlib.contextmanager
def terminal(rows: int = 24, columns: int = 80) -> Iterator[Terminal]:
    made = Terminal(rows, columns)
    try:
        yield made
    finally:
        made.close()


def test_watch_ends_in_order_when_its_terminal_is_gone(controller: Controller) -> None:
    with terminal() as window:
        window.start(["watch", "--url", controller.url])
        window.read_until(b"LATENCY ms")
        window.vanish()
        assert window.process is not None
        assert window.process.wait(PATIENCE_S) == 7


def test_watch_draws_follows_the_size_and_ends_with_q(controller: Controller) -> None:
    with terminal() as window:
        window.start(["watch", "--url", controller.url])
        window.read_until(ENTER)
        at = window.read_until(b"q or ctrl-C ends")
        at = window.read_until(b"LATENCY ms", after=at)
        window.resize(24, 40)
        assert window.process is not None
        window.process.send_signal(signal.SIGWINCH)
        # Drawn twice more: a screen of the old width may be under way.
        for _ in range(3):
            at = window.read_until(b"\x1b[H", after=at)
        end = window.read_until(b"\x1b[J", after=at)
        narrow = window.seen[at:end]
        assert b"LATENCY ms" not in narrow
        assert b"SHARE %" in narrow
        window.press(b"q")
        assert window.ends_with() == 0
        # The last screen stays, on the shell's page.
        assert b"SHARE %" in window.seen[window.seen.rindex(LEAVE) :]
        assert window.attributes() == window.before


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_the_terminal_is_left_as_it_was_when_a_signal_ends_watch(
    number: signal.Signals, status: int, controller: Controller
) -> None:
    with terminal() as window:
        window.start(["watch", "--url", controller.url])
        window.read_until(b"q or ctrl-C ends")
        assert window.attributes() != window.before
        assert window.process is not None
        window.process.send_signal(number)
        assert window.ends_with() == status
        assert LEAVE in window.seen
        assert b"Traceback" not in window.seen
        assert window.attributes() == window.before


def test_colours_at_a_terminal_and_none_with_no_color(controller: Controller) -> None:
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        with terminal(columns=60) as window:
            window.start(["status", "--url", controller.url], **environment)
            assert window.ends_with() == 0
            assert (b"\x1b[" in window.seen) is coloured
    with terminal(columns=40) as window:
        window.start(["weights", "--url", controller.url], NO_COLOR="1")
        assert window.ends_with() == 0
        assert max(len(line) for line in window.seen.decode().splitlines()) <= 40


def test_a_failure_at_a_terminal_is_a_line_too() -> None:
    with terminal() as window:
        window.start(["watch", "--url", "http://127.0.0.1:1"])
        assert window.ends_with() == 3
        assert ENTER not in window.seen
        assert window.seen.startswith(b"steelyard: no controller answers at http://127.0.0.1:1: ")
