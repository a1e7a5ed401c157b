"""Completion: what a shell asks at a TAB, and real shells at a terminal."""

import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing import warm_start
from testing.waiting import PATIENCE_S

from .cli_documents import live, overview, row
from .stub_controller import answering

BIN = Path(sys.executable).parent

WEB = overview(live("server-1"), live("server-2"), live("$(reboot)"))


@pytest.fixture(scope="module")
def controller() -> Iterator[str]:
    answers = {"/v1/upstreams": {"upstreams": [row("web")]}, "/v1/upstreams/web": WEB}
    with answering(answers) as url:
        yield url


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    return kept | {"PATH": f"{BIN}:{os.environ['PATH']}", **more}


# Their imports take most of a completion; real shells start the first one as installed.
FORKED = {
    "steelyard": "steelyard_controller.cli",
    "steelyard-controller": "steelyard_controller",
    "steelyard-agent": "steelyard_agent",
}


def completed(line: str, url: str) -> list[str]:
    """Return what the program answers to a shell: on descriptor 8, or in a file if the shell names one."""
    program = line.split()[0]
    asked = environment(
        _ARGCOMPLETE="1", _ARGCOMPLETE_SHELL="bash", _ARGCOMPLETE_SUPPRESS_SPACE="1",
        COMP_LINE=line, COMP_POINT=str(len(line)), IFS="\v", STEELYARD_URL=url,
    )  # fmt: skip
    if program in FORKED:
        asked["_ARGCOMPLETE_STDOUT_FILENAME"] = "/dev/stdout"
        ran = warm_start.run([sys.executable, "-m", FORKED[program]], env=asked)
    else:
        ran = subprocess.run(
            ["bash", "-c", '"$0" 8>&1 1>/dev/null </dev/null', program],
            capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=asked,
        )  # fmt: skip
    assert ran.stderr == ""
    return [word.strip() for word in ran.stdout.split("\v") if word.strip()]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("line", "words"),
    [
        # Names that no upstream or server may have stay out of the shell's line.
        ("steelyard explain ", ["web", "server-1", "server-2"]),
        ("steelyard drain web ", ["server-1", "server-2"]),
        ("steelyard state web server-1 ", ["up", "drain", "down", "backup"]),
        ("steelyard status ", ["web"]),
        ("steelyard replay --law pa", ["paper"]),
        ("steelyard-controller --derived-keys ", ["off", "accept", "require"]),
        ("steelyard-agent --scope ho", ["host"]),
        ("steelyard-reporter haproxy --set", ["--set-weights"]),
        ("steelyard-loadtest cluster ", ["up", "down", "status"]),
    ],
)
def test_completions(line: str, words: list[str], controller: str) -> None:
    assert completed(line, controller) == words


@pytest.mark.integration
def test_a_controller_that_is_away_slow_or_refuses_completes_nothing() -> None:
    assert completed("steelyard drain web ", "http://127.0.0.1:1") == []
    with answering({}, otherwise=401) as url:
        assert completed("steelyard drain web ", url) == []
    with socket.create_server(("127.0.0.1", 0)) as slow:
        port = slow.getsockname()[1]
        # One that sends a byte now and then never comes to its timeout.
        ended = threading.Event()

        def trickle() -> None:
            accepted, _ = slow.accept()
            with accepted:
                accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not ended.wait(0.2):
                    try:
                        accepted.sendall(b" ")
                    except OSError:
                        return

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        assert completed("steelyard drain web ", f"http://127.0.0.1:{port}") == []
        ended.set()


@pytest.mark.integration
def test_without_argcomplete_a_tab_starts_no_agent() -> None:
    code = "import sys; sys.modules['argcomplete'] = None; from steelyard_agent.__main__ import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=PATIENCE_S, capture_output=True,
        env=environment(_ARGCOMPLETE="1", COMP_LINE="steelyard-agent ", COMP_POINT="16"),
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, b"", b"")


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(steelyard completion bash)\n"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; source <(steelyard completion zsh)\n",
    ),
}


@pytest.mark.integration
@pytest.mark.parametrize("shell", SHELLS)
def test_a_real_shell_completes_at_a_tab(shell: str, controller: str, tmp_path: Path) -> None:
    command, switch_on = SHELLS[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} on this machine")
    terminal, its = pty.openpty()
    process = subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, start_new_session=True, cwd=tmp_path,
        env=environment(STEELYARD_URL=controller, TERM="dumb", HOME=str(tmp_path), INPUTRC="/dev/null"),
    )  # fmt: skip
    os.close(its)
    seen = ""

    def wait_for(text: str) -> None:
        nonlocal seen
        deadline = time.monotonic() + PATIENCE_S
        while text not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096).decode("utf-8", "replace")
        seen = seen.partition(text)[2]

    try:
        # The shell expands $((6*7)), so that the echo of the typed line is no answer.
        os.write(terminal, f"{switch_on}echo ready-$((6*7))\n".encode())
        wait_for("ready-42")
        os.write(terminal, b"steelyard dra\t")
        wait_for("drain ")
        os.write(terminal, b"w\t")
        wait_for("web ")
        os.write(terminal, b"server-2 --wa\t")
        wait_for("--wait")
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
