"""docs/reference/api.md is true: every command of the page is run, and its answer compared."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.daemons import Daemon
from testing.waiting import PATIENCE_S

from ..processes import Controller, controller
from .serving import ADMIN

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "api.md"
ANYTHING = "…"


def commands() -> Iterator[tuple[str, str]]:
    """Yield each command of the page, and the text below it."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            # A command goes on while a quote is open.
            until = next(n for n in range(1, len(lines) + 1) if "\n".join(lines[:n]).count("'") % 2 == 0)
            yield "\n".join(lines[:until]), "\n".join(lines[until:])


def agrees(expected: str, answer: str) -> bool:
    """Return whether an answer is the expected one, with the mark for any text."""
    pattern = ".*?".join(re.escape(part) for part in expected.strip().split(ANYTHING))
    return re.fullmatch(pattern, answer.replace("\r", "").strip(), re.DOTALL) is not None


def test_the_page_has_commands_and_the_mark_means_any_text() -> None:
    assert len(list(commands())) > 15
    assert agrees("a…c", "abbc")
    assert not agrees("a…c", "abb")
    assert not agrees("a.c", "abc")


@pytest.mark.integration
def test_every_command_answers_what_the_page_says(
    tmp_path: Path, memcached: Daemon, redis_server: Daemon
) -> None:
    token = tmp_path / "admin.token"
    token.write_text(f"{ADMIN}\n")
    token.chmod(0o600)
    flags = [
        "--memcached", memcached.address, "--state-url", f"redis://{redis_server.address}/0",
        "--admin-token-file", str(token),
    ]  # fmt: skip
    with controller(tmp_path, *flags) as leader:
        leader.wait("leader")
        with controller(tmp_path, *flags) as standby:
            standby.wait("standby")
            for command, expected in commands():
                answer = run(command, leader, standby)
                until = time.monotonic() + PATIENCE_S
                # A change shows in the totals and weights of the next tick.
                while " -X " not in command and not agrees(expected, answer) and time.monotonic() < until:
                    time.sleep(0.1)
                    answer = run(command, leader, standby)
                assert agrees(expected, answer), f"$ {command}\n{answer}\nthe page says:\n{expected}"


def run(command: str, leader: Controller, standby: Controller) -> str:
    """Return a command's output."""
    here = command.replace("localhost:8081", leader.url.removeprefix("http://"))
    here = here.replace("localhost:8082", standby.url.removeprefix("http://"))
    environment = {"TOKEN": f"Authorization: Bearer {ADMIN}", "JSON": "Content-Type: application/json"}
    ran = subprocess.run(
        ["bash", "-c", here],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.stdout + ran.stderr
