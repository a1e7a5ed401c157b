"""The command alone: its output, and its exit status."""

import json
import subprocess
import sys

import pytest
from steelyard_protocol import sample_reader
from steelyard_protocol.sample_record import SampleRecord

from testing import warm_start

from .process_scope import needs_process_scope

pytestmark = pytest.mark.integration


def test_a_key_file_that_is_not_there_is_one_line_and_exits_2() -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--key-file", "/nowhere/key"]
    ran = warm_start.run(command)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "steelyard-agent: the key file /nowhere/key cannot be read: No such file or directory\n"
    )


def test_once_prints_one_sample_and_needs_no_memcached() -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--once", "--interval", "0.1", "--peer", "server-1"]
    printed = subprocess.run(
        [*command, "--memcached", "127.0.0.1:1"], capture_output=True, check=True, text=True
    )
    assert isinstance(sample_reader.decode(printed.stdout.encode()), SampleRecord)
    assert json.dumps(json.loads(printed.stdout), indent=2) + "\n" == printed.stdout
    assert printed.stderr == ""


@needs_process_scope
def test_once_on_a_process_that_is_not_there_says_so_and_exits_1() -> None:
    command = [
        sys.executable,
        "-m",
        "steelyard_agent",
        "--once",
        "--scope",
        "process",
        "--pid-file",
        "/nowhere/x",
    ]
    ran = warm_start.run(command)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "PID file /nowhere/x is not there" in ran.stderr


def test_a_wrong_flag_is_one_line_and_exits_2() -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--interval", "soon"]
    ran = warm_start.run(command)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "steelyard-agent: --interval is 'soon': give seconds within 0.1..60\n"


def test_explain_prints_every_indicator_and_where_it_comes_from() -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--explain", "--interval", "0.1", "--scope", "host"]
    printed = warm_start.run(command)
    assert printed.returncode == 0
    rows = {line.split()[0]: line for line in printed.stdout.splitlines() if line[:1].strip()}
    assert {"scope", "cpu", "net", "io", "mem"} <= rows.keys()
    assert "/proc/stat" in rows["cpu"]
    assert printed.stderr == ""


def test_without_grpcio_the_flag_says_what_to_install() -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--orca-grpc", ":9812"]
    ran = warm_start.run(command, before="sys.modules['grpc'] = None")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(
        "steelyard-agent: --orca-grpc needs grpcio and protobuf (pip install 'steelyard-agent[grpc]'): "
    )
    assert ran.stderr.count("\n") == 1


def test_the_agent_does_without_msgspec_which_takes_7_mb() -> None:
    program = (
        "import pkgutil, sys, steelyard_agent as ours\n"
        "for each in pkgutil.walk_packages(ours.__path__, 'steelyard_agent.'): __import__(each.name)\n"
        "sys.exit('msgspec' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
