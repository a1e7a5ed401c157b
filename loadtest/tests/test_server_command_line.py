"""Refused command lines of the demo server: status 2 and a reason, before it opens anything."""

import os
from pathlib import Path

import pytest
from steelyard_loadtest.server.__main__ import main


@pytest.mark.parametrize(
    ("flag", "value", "why"),
    [
        ("--name", "", "1 to 64 letters"),
        ("--name", ".x", "the first no mark"),
        ("--name", "server 1", "1 to 64 letters"),
        ("--name", "server-1\r\nX-Other: 1", "1 to 64 letters"),
        ("--name", "x" * 65, "1 to 64 letters"),
        ("--port", "65536", "a whole number of port from 0 to 65535"),
        ("--port", "-1", "a whole number of port"),
        ("--port", "http", "a whole number of port"),
        ("--port", "²", "a whole number of port"),
        ("--cpu-limit", "0", "a number of cores from 0.05"),
        ("--cpu-limit", "0.049", "a number of cores from 0.05"),
        ("--cpu-limit", "nan", "a number of cores"),
        ("--cpu-limit", "half", "a number of cores"),
        ("--cpu-limit", str((os.cpu_count() or 1) + 1), "(this machine's)"),
        ("--delay-ms", "-1", "a number of milliseconds from 0 to 60000"),
        ("--delay-ms", "60001", "a number of milliseconds"),
        ("--delay-ms", "soon", "a number of milliseconds"),
        ("--disk-ops", "0", "a number of operations a second from 0.1 to 5000"),
        ("--disk-ops", "inf", "a number of operations a second"),
        ("--workers", "0", "a whole number of workers from 1 to 9999"),
        ("--workers", "ten", "a whole number of workers"),
    ],
)
def test_a_wrong_value_is_status_2_and_says_what_is_right(
    flag: str, value: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {"--name": "server-1", "--port": "0"}
    arguments = [text for pair in (right | {flag: value}).items() for text in pair]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert flag in said
    assert why in said


def test_a_count_file_that_cannot_be_written_is_one_line_and_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nowhere" / "count"
    assert main(["--name", "server-1", "--port", "0", "--count-file", str(file)]) == 1
    assert capsys.readouterr().err == f"server-1: the count file {file}: No such file or directory\n"


@pytest.mark.parametrize("arguments", [["--name", "server-1"], ["--port", "0"]])
def test_name_and_port_have_no_default(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "required" in capsys.readouterr().err
