"""The host scope without Linux: no /proc, no /sys, none of Python's Linux-only functions.

A stand-in, not the platforms: psutil's real answers there have not been seen.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from steelyard_protocol import sample_reader
from steelyard_protocol.sample_record import SampleRecord

STAND_IN = Path(__file__).parent / "stand_ins" / "other_platform.py"

# The busy time that each of the stand-in's readings adds, and its number of cores.
STEP_S, CORES = 0.4, 4

PLATFORMS = pytest.mark.parametrize("platform", ["darwin", "freebsd14", "win32"])


def command(platform: str, *flags: str) -> list[str]:
    always = ["--peer", "server-1", "--interval", "0.1"]
    return [sys.executable, "-I", str(STAND_IN), platform, *always, *flags]


def run(platform: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(platform, *flags), capture_output=True, check=False, text=True)


@PLATFORMS
def test_a_sample_is_taken_of_what_the_platform_counts(platform: str) -> None:
    ran = run(platform, "--once")
    assert ran.stderr == ""
    taken = sample_reader.decode(ran.stdout.encode())
    assert isinstance(taken, SampleRecord)
    cpu, net, io, mem = taken.utilization
    assert cpu is not None
    assert cpu * CORES * taken.interval_s == pytest.approx(STEP_S, abs=0.01)
    assert (net, mem) == (0.0, 0.25)
    assert io == (0.0 if platform == "freebsd14" else None)
    assert taken.capacity[:2] == (CORES, 125_000_000)
    assert taken.scope == "host"


@PLATFORMS
def test_explain_says_what_the_platform_lacks(platform: str) -> None:
    ran = run(platform, "--explain")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"host (sure), but untested here: {platform} is not Linux" in ran.stdout
    assert f"{platform} does not count pressure" in ran.stdout
    assert (f"{platform} does not count how long a disk is busy" in ran.stdout) == (platform != "freebsd14")
    assert "em0, the larger of received and sent" in ran.stdout
    assert "/proc" not in ran.stdout


@pytest.mark.parametrize("scope", [["cgroup"], ["process", "--pid", "1"]], ids=["cgroup", "process"])
def test_what_only_linux_has_is_refused_with_one_line(scope: list[str]) -> None:
    ran = run("win32", "--once", "--scope", *scope)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"steelyard-agent: --scope {scope[0]} needs Linux, and this is win32: use --scope host\n"
    )


def test_the_loop_runs_and_a_signal_ends_it() -> None:
    with subprocess.Popen(
        command("win32", "--memcached", "127.0.0.1:1"), stderr=subprocess.PIPE, text=True
    ) as agent:
        assert agent.stderr is not None
        try:
            lines = [agent.stderr.readline() for _ in range(2)]
            agent.terminate()
            lines += agent.stderr.readlines()
            assert agent.wait() == 0
        finally:
            agent.kill()
    assert "sampling web/server-1 (scope host)" in lines[0]
    assert "takes no samples" in lines[1]
    assert "stopped by a signal" in lines[-1]
