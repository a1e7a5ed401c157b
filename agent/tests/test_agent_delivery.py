"""The whole agent and a real Memcached: records arrive, through every kind of trouble."""

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from steelyard_protocol import rendezvous, sample_reader, signature
from steelyard_protocol.sample_record import SampleRecord

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import wait_until

from .process_scope import needs_process_scope

pytestmark = pytest.mark.integration

KEY = "steelyard:1:sample:web:server-1"

# A last sample is sent once: its put may take a quarter of a second at this interval, and 50 ms at 0.1 s.
PATIENT = ("--interval", "1")


def sample_in(memcached: Daemon) -> SampleRecord | None:
    """Return the present sample."""
    value = value_in(memcached)
    if value is None:
        return None
    decoded = sample_reader.decode(value)
    assert isinstance(decoded, SampleRecord), decoded
    return decoded


def sample_after(earlier: SampleRecord, memcached: Daemon) -> SampleRecord:
    """Return a sample of the same agent newer than `earlier`."""

    def newer() -> SampleRecord | None:
        record = sample_in(memcached)
        return record if record is not None and record.seq > earlier.seq else None

    record = wait_until(newer)
    assert record.boot == earlier.boot
    return record


def leaving_in(memcached: Daemon) -> SampleRecord | None:
    """Return the present sample, if it is a last one."""
    record = sample_in(memcached)
    return record if record is not None and record.leaving else None


def value_in(memcached: Daemon, key: str = KEY) -> bytes | None:
    """Return the present bytes."""
    client = Client(("127.0.0.1", memcached.port), connect_timeout=10, timeout=10)
    try:
        value: bytes | None = client.get(key)
    finally:
        client.close()
    return value


@contextmanager
def running(memcached: Daemon, *flags: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with running_on([memcached.address], *flags, log=log) as agent:
        yield agent


@contextmanager
def running_on(servers: Sequence[str], *flags: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [
        sys.executable, "-m", "steelyard_agent", "--upstream", "web", "--peer", "server-1",
        "--memcached", ",".join(servers), "--interval", "0.1", "--scope", "host", *flags,
    ]  # fmt: skip
    with log.open("wb") as stderr, warm_start.Popen(command, stderr=stderr) as agent:
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
        first = wait_until(lambda: sample_in(memcached))
        assert (first.upstream, first.peer, first.scope, first.leaving) == ("web", "server-1", "host", False)
        assert first.utilization[0] is not None
        assert first.utilization[3] is not None
        sample_after(sample_after(first, memcached), memcached)


def test_a_memcached_that_is_killed_and_restarted_gets_samples_again(
    memcached: Daemon, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with running(memcached, log=log) as agent:
        first = wait_until(lambda: sample_in(memcached))
        memcached.kill()
        wait_until(lambda: "takes no samples" in log.read_text())
        time.sleep(0.5)  # several more samples are dropped, in silence
        memcached.start()
        sample_after(first, memcached)
        wait_until(lambda: "is back" in log.read_text())
        agent.terminate()
        assert agent.wait() == 0
    logged = [line.split(" ", 3)[3] for line in log.read_text().splitlines()]
    name = f"Memcached at 127.0.0.1:{memcached.port}"
    away, back = logged[1:-1:2], logged[2:-1:2]  # several times if a busy machine lets a put time out
    assert len(away) == len(back) > 0, logged
    assert all(line.startswith(f"{name} takes no samples (") for line in away), logged
    assert set(back) == {f"{name} is back: samples arrive again"}, logged


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_leaving_sample(memcached: Daemon, tmp_path: Path, sent: signal.Signals) -> None:
    with running(memcached, *PATIENT, log=tmp_path / "log") as agent:
        first = wait_until(lambda: sample_in(memcached))
        agent.send_signal(sent)
        last = wait_until(lambda: leaving_in(memcached))  # looked for at once: it lives for three seconds
        assert (last.boot, last.seq > first.seq) == (first.boot, True)
        assert agent.wait() == 0


@needs_process_scope
def test_a_process_is_followed_through_its_pid_file(memcached: Daemon, tmp_path: Path) -> None:
    pid_file, log = tmp_path / "app.pid", tmp_path / "log"
    with running(memcached, "--scope", "process", "--pid-file", str(pid_file), log=log):
        wait_until(lambda: "is not there: no samples until it is there" in log.read_text())
        assert sample_in(memcached) is None
        with sleeper() as app:
            pid_file.write_text(f"{app.pid}\n")
            first = wait_until(lambda: sample_in(memcached))
            assert first.scope == "process"
            assert first.utilization[1] is None
            assert first.utilization[0] is not None
        wait_until(lambda: sample_in(memcached) is None)  # nothing was sent for a whole TTL
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
        value = wait_until(lambda: value_in(memcached))
        assert isinstance(signature.read(b"k" * 32, value, sample_reader.decode), SampleRecord)
    warned = f"every user of this machine can read the key in {key}: chmod o-r {key}" in log.read_text()
    assert warned == (mode == 0o644)


def test_samples_go_to_the_next_server_of_a_pool_while_one_is_dead(memcached: Daemon, tmp_path: Path) -> None:
    # A pool of this server and of a dead one, which the key prefers: as after a crash.
    port = free_port()
    while rendezvous.order([f"127.0.0.1:{port}", memcached.address], KEY)[0] == memcached.address:
        port = free_port()
    log = tmp_path / "log"
    servers = [memcached.address, f"127.0.0.1:{port}"]
    with running_on(servers, *PATIENT, log=log):
        sample_after(wait_until(lambda: sample_in(memcached)), memcached)
        logged = f"Memcached at 127.0.0.1:{port} takes no samples ([Errno 111] Connection refused): "
        assert log.read_text().count(f"{logged}{memcached.address} takes them meanwhile") == 1


def test_an_agent_that_was_stopped_for_longer_than_an_interval_goes_on(
    memcached: Daemon, tmp_path: Path
) -> None:
    with running(memcached, log=tmp_path / "log") as agent:
        for _ in range(5):  # it may have been stopped outside of its wait
            before = wait_until(lambda: sample_in(memcached))
            agent.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            agent.send_signal(signal.SIGCONT)
            after = sample_after(sample_after(before, memcached), memcached)
            assert not after.leaving
            assert agent.poll() is None


def test_sighup_takes_up_new_settings_and_goes_on_counting(memcached: Daemon, tmp_path: Path) -> None:
    file, log = tmp_path / "agent.toml", tmp_path / "log"
    file.write_text("cpu_limit = 2\n")
    with running(memcached, "--config", str(file), log=log) as agent:
        first = wait_until(lambda: sample_in(memcached))
        assert first.capacity[0] == 2.0
        file.write_text("cpu_limit = 4\n")
        agent.send_signal(signal.SIGHUP)

        def changed() -> SampleRecord | None:
            record = sample_in(memcached)
            return record if record is not None and record.capacity[0] == 4.0 else None

        record = wait_until(changed)
        assert record.boot == first.boot
        assert record.seq > first.seq


def test_sighup_with_a_mistake_says_so_and_changes_nothing(memcached: Daemon, tmp_path: Path) -> None:
    file, log = tmp_path / "agent.toml", tmp_path / "log"
    file.write_text("cpu_limit = 2\n")
    with running(memcached, "--config", str(file), log=log) as agent:
        wait_until(lambda: sample_in(memcached))
        file.write_text("cpu_limt = 4\n")
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: "the previous ones stay" in log.read_text())
        assert (
            f"the previous ones stay: {file}, line 1: cpu_limt is no setting: write cpu_limit"
            in log.read_text()
        )
        before = wait_until(lambda: sample_in(memcached))
        assert sample_after(before, memcached).capacity[0] == 2.0
        agent.send_signal(signal.SIGHUP)
        agent.terminate()
        assert agent.wait() == 0


def test_sighup_under_another_name_leaves_under_the_old_one(memcached: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('peer = "server-1"\n')
    command = [
        sys.executable, "-m", "steelyard_agent", "--config", str(file), "--memcached", memcached.address,
        "--scope", "host", *PATIENT,
    ]  # fmt: skip
    with warm_start.Popen(command) as agent:
        try:
            wait_until(lambda: sample_in(memcached))
            file.write_text('peer = "server-2"\n')
            agent.send_signal(signal.SIGHUP)
            last = wait_until(lambda: leaving_in(memcached))
            assert last.peer == "server-1"
            wait_until(lambda: value_in(memcached, KEY.replace("server-1", "server-2")))
        finally:
            agent.kill()


def test_orca_is_shown_in_a_file_and_over_http_and_is_gone_afterwards(
    memcached: Daemon, tmp_path: Path
) -> None:
    file, port = tmp_path / "orca", free_port()

    def page(name: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=20) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError:  # 503: no sample yet
            return None
        except urllib.error.URLError:  # not listening yet
            return None

    with running(memcached, "--orca", f"{file},:{port}", log=tmp_path / "log") as agent:
        wait_until(lambda: sample_in(memcached))
        assert wait_until(lambda: page("orca")).startswith("TEXT cpu_utilization=")
        assert 'steelyard_agent_utilization{indicator="cpu"}' in (page("metrics") or "")
        up = f'steelyard_agent_memcached_up{{server="{memcached.address}"}} 1'
        wait_until(lambda: up in (page("metrics") or ""))  # but after a put that timed out
        assert file.read_text().startswith("TEXT cpu_utilization=")
        agent.send_signal(signal.SIGHUP)  # the port is kept
        assert page("orca")
        agent.terminate()
        assert agent.wait() == 0
    assert not file.exists()
    assert page("orca") is None


def test_a_port_that_is_taken_is_one_line_and_exits_2(memcached: Daemon, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(memcached, "--orca", memcached.address, log=log) as agent:
        assert agent.wait() == 2
    logged = f"steelyard-agent: --orca: {memcached.address} cannot be listened on: Address already in use\n"
    assert log.read_text() == logged
