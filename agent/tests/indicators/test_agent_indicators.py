"""The whole agent with an application's own indicators: sent, shown, lost, found again, reloaded."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from steelyard_protocol import sample_reader
from steelyard_protocol.sample_record import SampleRecord

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

WRITTEN = Path(__file__).parents[1] / "fixtures" / "indicators"


@contextmanager
def running(memcached: Daemon, config: Path, log: Path, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [
        sys.executable, "-m", "steelyard_agent", "--config", str(config), "--peer", "server-1",
        "--memcached", memcached.address, "--interval", "0.5", "--scope", "host", *flags,
    ]  # fmt: skip
    with log.open("wb") as stderr, warm_start.Popen(command, stderr=stderr) as agent:
        try:
            yield agent
        finally:
            agent.kill()


def further_in(memcached: Daemon, wanted: dict[str, float | None]) -> Callable[[], SampleRecord | None]:
    def look() -> SampleRecord | None:
        client = Client(("127.0.0.1", memcached.port), connect_timeout=PATIENCE_S, timeout=PATIENCE_S)
        try:
            value = client.get("steelyard:1:sample:web:server-1")
        finally:
            client.close()
        decoded = None if value is None else sample_reader.decode(value)
        assert decoded is None or isinstance(decoded, SampleRecord), decoded
        return decoded if decoded is not None and dict(decoded.further) == wanted else None

    return look


def of_file(name: str, path: Path, limit: int) -> str:
    return f'[[indicator]]\nname = "{name}"\nfile = "{path}"\nlimit = {limit}\nevery = 1\n'


def test_indicators_are_sent_lost_alone_found_again_and_reloaded(memcached: Daemon, tmp_path: Path) -> None:
    config, log, queue, pool = tmp_path / "a.toml", tmp_path / "log", tmp_path / "queue", tmp_path / "pool"
    queue.write_text("5\n")
    pool.write_text("8\n")
    with socket.create_server(("127.0.0.1", 0)) as mute:  # it never accepts: its clients wait
        dead = f'prometheus = "http://127.0.0.1:{mute.getsockname()[1]}/metrics"\nmetric = "a"\nlimit = 1\n'
        config.write_text(
            of_file("queue", queue, 10) + f'[[indicator]]\nname = "dead"\n{dead}' + of_file("pool", pool, 4)
        )
        with running(memcached, config, log) as agent:
            wait_until(further_in(memcached, {"queue": 0.5, "dead": None, "pool": 2.0}))
            queue.unlink()
            lost = wait_until(further_in(memcached, {"queue": None, "dead": None, "pool": 2.0}))
            assert lost.utilization[0] is not None
            queue.write_text("2\n")
            wait_until(further_in(memcached, {"queue": 0.2, "dead": None, "pool": 2.0}))
            gone = f"the indicator queue cannot be read: {queue}: No such file or directory; it is null until"
            wait_until(lambda: "the indicator dead cannot be read" in log.read_text())
            assert gone in log.read_text()
            assert "the indicator queue can be read again" in log.read_text()

            config.write_text(of_file("queue", queue, 0))
            agent.send_signal(signal.SIGHUP)
            wait_until(lambda: "the previous ones stay" in log.read_text())
            wrong = f"the previous ones stay: {config}: [[indicator]] 1 (queue): limit is the amount of 100 %"
            assert wrong in log.read_text()

            config.write_text(of_file("queue", queue, 4))
            agent.send_signal(signal.SIGHUP)
            wait_until(further_in(memcached, {"queue": 0.5}))
            agent.terminate()
            assert agent.wait() == 0


def page(port: int, path: str, holding: str) -> Callable[[], str | None]:
    def look() -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE_S) as answer:
                text = str(answer.read().decode())
        except urllib.error.URLError:  # not listening yet, or no sample yet
            return None
        return text if holding in text else None

    return look


def test_prometheus_finds_them_at_the_agent(memcached: Daemon, tmp_path: Path) -> None:
    config, queue, port = tmp_path / "a.toml", tmp_path / "queue", free_port()
    queue.write_text("5\n")
    config.write_text(of_file("queue", queue, 10))
    with running(memcached, config, tmp_path / "log", "--orca", f":{port}"):
        text = wait_until(page(port, "metrics", 'steelyard_agent_utilization{indicator="queue"} 0.5\n'))
        assert 'steelyard_agent_utilization{indicator="cpu"}' in text


def test_a_rate_is_shown_in_the_load_report_and_sent_nowhere(memcached: Daemon, tmp_path: Path) -> None:
    config, own_report, rate, port = tmp_path / "a.toml", tmp_path / "report", tmp_path / "rate", free_port()
    own_report.write_text("TEXT rps_fractional=5,application_utilization=0.7\n")
    rate.write_text("118.5\n")
    config.write_text(f'orca_app = "{own_report}"\n[rps_fractional]\nfile = "{rate}"\nrate = false\n')
    flags = ("--memcached", "none", "--orca", f":{port}")
    with running(memcached, config, tmp_path / "log", *flags) as agent:
        report = wait_until(page(port, "orca", "rps_fractional=118.5"))
        assert "application_utilization=0.7" in report
        assert "rps_fractional=5" not in report
        # No Memcached, and no log line about it.
        assert 'samples_total{result="dropped"} 0\n' in wait_until(page(port, "metrics", "samples_total"))
        rate.unlink()
        lost = wait_until(page(port, "orca", "rps_fractional=5"))
        assert "118.5" not in lost
        agent.terminate()
        assert agent.wait() == 0
    assert "every 0.5 s, sent nowhere" in (tmp_path / "log").read_text()
    rate.write_text("118.5\n")
    config.write_text(config.read_text().replace("[rps", 'memcached = "none"\norca = ":1"\n[rps'))
    (line,) = [line for line in printed(config, "--explain").splitlines() if line.startswith("rps_")]
    assert line.split() == ["rps_fractional", "118.5", "118.5", "/s", "-", str(rate)]


def printed(config: Path, flag: str) -> str:
    command = [sys.executable, "-m", "steelyard_agent", "--config", str(config), "--scope", "host", flag]
    ran = warm_start.run([*command, "--interval", "0.2"])
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_explain_shows_raw_values_the_limit_and_why_one_is_null(tmp_path: Path) -> None:
    config = tmp_path / "a.toml"
    page, queue = WRITTEN / "haproxy.prom", tmp_path / "queue"
    config.write_text(
        f'[[indicator]]\nname = "conns"\npreset = "haproxy"\nfile = "{page}"\n' + of_file("queue", queue, 10)
    )
    lines = [line.split() for line in printed(config, "--explain").splitlines()]
    at = next(number for number, line in enumerate(lines) if line[0] == "conns")
    assert lines[at:] == [
        ["conns", "2.0%", "4", "200", str(page)],
        ["haproxy_process_current_connections"],
        ["limit:", "haproxy_process_max_connections"],
        ["queue", "null", "-", "-", str(queue)],
        ["limit", "=", "10"],
        ["No", "such", "file", "or", "directory"],
    ]
    assert json.loads(printed(config, "--once"))["further"] == {"conns": 0.02, "queue": None}
