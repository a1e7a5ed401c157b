"""The whole agent and a real Memcached: records arrive, through every kind of trouble."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from pymemcache.client.base import Client
from steelyard_agent import record, signature
from steelyard_agent.record import SampleRecord

from conftest import Daemon

pytestmark = pytest.mark.integration

KEY = "steelyard:1:sample:web:server-1"
T = TypeVar("T")


def eventually(look: Callable[[], T | None], *, timeout_s: float = 20.0) -> T:
    """Return the first thing that `look` finds."""
    give_up_s = time.monotonic() + timeout_s
    while time.monotonic() < give_up_s:
        found = look()
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def sample_in(memcached: Daemon) -> SampleRecord | None:
    """Return the sample that lies there now."""
    value = value_in(memcached)
    if value is None:
        return None
    decoded = record.decode(value)
    assert isinstance(decoded, SampleRecord), decoded
    return decoded


def sample_after(earlier: SampleRecord, memcached: Daemon) -> SampleRecord:
    """Return a sample that is newer than `earlier`, of the same agent."""

    def newer() -> SampleRecord | None:
        found = sample_in(memcached)
        return found if found is not None and found.seq > earlier.seq else None

    found = eventually(newer)
    assert found.boot == earlier.boot
    return found


def value_in(memcached: Daemon) -> bytes | None:
    """Return the bytes that lie there now."""
    client = Client(("127.0.0.1", memcached.port), connect_timeout=1, timeout=1)
    try:
        value: bytes | None = client.get(KEY)
    finally:
        client.close()
    return value


@contextmanager
def running(memcached: Daemon, *flags: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [
        sys.executable, "-m", "steelyard_agent", "--upstream", "web", "--peer", "server-1",
        "--memcached", f"127.0.0.1:{memcached.port}", "--interval", "0.1", *flags,
    ]  # fmt: skip
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as agent:
        try:
            yield agent
        finally:
            agent.kill()


@contextmanager
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_records_arrive_and_seq_rises(memcached: Daemon, tmp_path: Path) -> None:
    with running(memcached, log=tmp_path / "log"):
        first = eventually(lambda: sample_in(memcached))
        assert (first.upstream, first.peer, first.scope, first.leaving) == ("web", "server-1", "host", False)
        assert first.utilization[0] is not None
        assert first.utilization[3] is not None
        sample_after(sample_after(first, memcached), memcached)


def test_a_memcached_that_is_killed_and_restarted_gets_samples_again(
    memcached: Daemon, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with running(memcached, log=log) as agent:
        first = eventually(lambda: sample_in(memcached))
        memcached.kill()
        eventually(lambda: "takes no samples" in log.read_text() or None)
        time.sleep(0.5)  # several more samples are dropped, in silence
        memcached.start()
        sample_after(first, memcached)
        eventually(lambda: "is back" in log.read_text() or None)
        agent.terminate()
        assert agent.wait() == 0
    said = [line.split(" ", 3)[3] for line in log.read_text().splitlines()]
    name = f"Memcached at 127.0.0.1:{memcached.port}"
    assert len(said) == 4, said
    assert said[1].startswith(f"{name} takes no samples (")
    assert said[2] == f"{name} is back: samples arrive again"


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_leaving_sample(memcached: Daemon, tmp_path: Path, sent: signal.Signals) -> None:
    with running(memcached, log=tmp_path / "log") as agent:
        first = eventually(lambda: sample_in(memcached))
        agent.send_signal(sent)
        assert agent.wait() == 0
        last = sample_after(first, memcached)
        assert last.leaving


def test_a_process_is_followed_through_its_pid_file(memcached: Daemon, tmp_path: Path) -> None:
    pid_file, log = tmp_path / "app.pid", tmp_path / "log"
    with running(memcached, "--scope", "process", "--pid-file", str(pid_file), log=log):
        eventually(lambda: "is not there: no samples until it is there" in log.read_text() or None)
        assert sample_in(memcached) is None
        with sleeper() as app:
            pid_file.write_text(f"{app.pid}\n")
            first = eventually(lambda: sample_in(memcached))
            assert first.scope == "process"
            assert first.utilization[1] is None
            assert first.utilization[0] is not None
        eventually(lambda: sample_in(memcached) is None or None)  # nothing was sent for a whole TTL
        with sleeper() as app:
            pid_file.write_text(f"{app.pid}\n")
            sample_after(first, memcached)
        assert "which was restarted" in log.read_text()


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_with_a_key_file_samples_are_signed_and_an_open_file_is_warned_of(
    memcached: Daemon, tmp_path: Path, mode: int
) -> None:
    key, log = tmp_path / "key", tmp_path / "log"
    key.write_bytes(b"k" * 32 + b"\n")
    key.chmod(mode)
    with running(memcached, "--key-file", str(key), log=log):
        value = eventually(lambda: value_in(memcached))
        assert isinstance(signature.read(b"k" * 32, value, record.decode), SampleRecord)
    warned = f"every user of this machine can read the key in {key}: chmod o-r {key}" in log.read_text()
    assert warned == (mode == 0o644)


def test_a_key_file_that_is_not_there_is_one_line_and_exits_2() -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--key-file", "/nowhere/key"]
    ran = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "steelyard-agent: the key file /nowhere/key cannot be read: No such file or directory\n"
    )


def test_once_prints_one_sample_and_needs_no_memcached() -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--once", "--interval", "0.1", "--peer", "server-1"]
    printed = subprocess.run(
        [*command, "--memcached", "127.0.0.1:1"], capture_output=True, check=True, text=True
    )
    assert isinstance(record.decode(printed.stdout.encode()), SampleRecord)
    assert json.dumps(json.loads(printed.stdout), indent=2) + "\n" == printed.stdout
    assert printed.stderr == ""


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
    ran = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "PID file /nowhere/x is not there" in ran.stderr


def test_a_wrong_flag_is_one_line_and_exits_2() -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--interval", "soon"]
    ran = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "steelyard-agent: --interval is 'soon': give seconds within 0.1..60\n"
