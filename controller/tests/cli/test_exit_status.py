"""The exit status of every subcommand, held to the table of --help and of docs/reference/exit-status.md."""

import argparse
import io
import os
import re
import shlex
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from steelyard_controller import flags
from steelyard_controller.cli import main
from steelyard_controller.cli.command_help import EXAMPLES, STATUSES
from steelyard_controller.cli.exit_status import MEANINGS, Exit
from steelyard_controller.cli.subcommands import _parser as parser_of
from steelyard_protocol import console_program

from .cli_documents import live, overview, row, service
from .stub_controller import answering

PAGE = (Path(__file__).parents[3] / "docs/reference/exit-status.md").read_text()

# A right command line of each subcommand; FILE is a file that `apply` takes.
COMMANDS = {
    "status": "status web",
    "upstreams": "upstreams",
    "weights": "weights web",
    "explain": "explain web a",
    "history": "history web",
    "audit": "audit web",
    "page": "page",
    "watch": "watch web --count 1",
    "drain": "drain web a",
    "undrain": "undrain web a",
    "state": "state web a down",
    "pin": "pin web a 5",
    "unpin": "unpin web a",
    "apply": "apply FILE",
    "save": "save web",
    "keys": "keys agents",
    "laws": "laws",
    "replay": "replay --law static",
    "completion": "completion bash",
}

NUMBERS = (
    "status --limit", "audit --limit", "audit --before", "history --seconds", "history --step",
    "watch --count", "pin web a", "upstreams --timeout", "replay --law static --set H=",
)  # fmt: skip

NO_NUMBERS = ("", "nan", "inf", "-inf", "1e999", "-5", "1_0", "٣", "５", "0x5", "abc", "9" * 5000)

CHANGING = ("drain", "undrain", "state", "pin", "unpin", "apply")

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line; errors must be one line."""
    for name in ("STEELYARD_URL", "STEELYARD_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STEELYARD_KEY", "k" * 32)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "upstreams.yaml"
    file.write_text("upstreams: {web: {peers: [{id: a, address: '10.0.0.1:80'}]}}")
    monkeypatch.setattr("sys.stdin", io.StringIO())

    def run(line: str, url: str, *more: str) -> int:
        capsys.readouterr()
        words = [str(file) if word == "FILE" else word for word in shlex.split(line)]
        connected = [] if words[0] in {"keys", "laws", "replay", "completion"} else ["--url", url]
        try:
            status = int(main([*words, *more, *connected]))
        except SystemExit as ended:
            status = int(ended.code or 0)
        else:
            err = capsys.readouterr().err
            assert len(err.splitlines()) == (0 if status in {0, Exit.INTERRUPTED} else 1), err
        assert status in STATUSES[words[0]], (line, status)
        return status

    return run


def subcommands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (each for each in parser_of()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(found.choices)


def test_every_subcommand_has_its_statuses_and_its_examples_and_the_page_has_them() -> None:
    known = set(subcommands())
    assert known == set(STATUSES) == set(EXAMPLES) == set(COMMANDS)
    columns = [int(status) for status in MEANINGS]
    rows = dict(re.findall(r"^\| `([a-z]+)` (\|.*)$", PAGE, re.MULTILINE))
    assert set(rows) == known
    for name, statuses in STATUSES.items():
        fields = [field.strip() for field in rows[name].split("|")[1:-1]]
        assert [at for at, field in zip(columns, fields, strict=True) if field == "x"] == sorted(statuses)
    for status, meaning in (*MEANINGS.items(), *flags.STATUSES.items()):
        assert f"| {status:d} | {meaning} |" in PAGE
    assert (int(Exit.OUTPUT_LOST), int(Exit.INTERRUPTED)) == (
        console_program.OUTPUT_LOST, console_program.INTERRUPTED
    )  # fmt: skip


def test_every_example_is_a_right_command_line() -> None:
    for name, examples in EXAMPLES.items():
        for example in examples:
            (command, *words) = shlex.split(re.sub(r"^source <\((.*)\)", r"\1", example), comments=True)
            words = words[: words.index("<")] if "<" in words else words
            assert command == "steelyard"
            assert parser_of().parse_args(words).run is not None
        assert example in subcommands()[name].format_help()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command_line_is_2(name: str, run: Run) -> None:
    assert run(COMMANDS[name], "http://127.0.0.1:1", "--nonsense") == 2
    if Exit.UNREACHABLE in STATUSES[name]:
        assert run(COMMANDS[name], "not a URL") == 2
        assert run(COMMANDS[name], "http://127.0.0.1:1", "--token-file", "/nowhere") == 2


@pytest.mark.parametrize("flag", NUMBERS)
def test_a_wrong_number_is_2(flag: str, run: Run) -> None:
    for text in NO_NUMBERS:
        line, more = (flag[:-2], (f"H={text}",)) if flag.endswith("H=") else (flag, (text,))
        if flag.endswith("H=") and text in {"-5"}:
            continue  # within the bounds of no law, and refused by it
        if " --" in flag and not flag.endswith("H="):
            words = flag.split()
            line, more = " ".join(words[:-1]), (f"{words[-1]}={text}",)
        assert run(line, "http://127.0.0.1:1", *more) == 2, (flag, text)


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_controller_it_is_3_or_0_if_none_is_asked(name: str, run: Run) -> None:
    asks = Exit.UNREACHABLE in STATUSES[name]
    assert run(COMMANDS[name], "http://127.0.0.1:1") == (3 if asks else 0)


PEER = {"id": "a", "address": "10.0.0.1:80", "state": "up", "pin": None, "baseline": 1.0}

ANSWERS: dict[str, Any] = {
    "GET /v1/service": service(),
    "/v1/upstreams": {"upstreams": [row("web")]},
    "GET /v1/upstreams/web": overview(live("a")),
    "GET /v1/upstreams/web/peers/a": PEER | {"state": "drain"},
    "GET /v1/upstreams/web/declaration": {"peers": []},
}


@pytest.mark.parametrize(
    ("http", "reads", "changes"),
    [(401, 4, 4), (403, 4, 4), (404, 5, 5), (422, 2, 6), (429, 3, 3), (502, 3, 3), (503, 3, 3), (412, 0, 6)],
)
def test_a_refusal_of_the_controller_has_its_status(http: int, reads: int, changes: int, run: Run) -> None:
    with answering({}, otherwise=http) as url, answering(ANSWERS, otherwise=http) as changing:
        for name, line in COMMANDS.items():
            expected = changes if name in CHANGING else reads
            # No status without a request; nor one that the controller never answers to this command.
            if expected and {Exit.UNREACHABLE, expected} <= set(STATUSES[name]):
                assert run(line, changing if name in CHANGING else url) == expected, (name, http)


@pytest.mark.parametrize("name", [name for name in COMMANDS if Exit.UNREACHABLE in STATUSES[name]])
def test_ctrl_c_while_it_waits_for_the_controller_is_130(name: str, run: Run) -> None:
    ended = threading.Event()

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        ended.wait(5)

    with answering({}, before=interrupt) as url:
        assert run(COMMANDS[name], url) == 130
        ended.set()
