"""Runs the agent for one sample, somewhere: in a cgroup, in a network namespace. I/O only."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from steelyard_protocol import sample_reader, sample_record
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.wire import Refused


def begin(scope: str, *flags: str, interval_s: float, prefix: Sequence[str] = ()) -> "subprocess.Popen[str]":
    """Start an agent that takes one sample and ends."""
    command = [
        *prefix, sys.executable, "-m", "steelyard_agent", "--once", "--peer", "truth",
        "--scope", scope, "--interval", f"{interval_s:g}", *flags,
    ]  # fmt: skip
    # Neither a setting of whoever runs this nor a folder that could be taken for the package.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean, cwd=Path(__file__).parent)


def sample(agent: "subprocess.Popen[str]") -> SampleRecord:
    """Wait for the agent's end; return its sample."""
    text, _ = agent.communicate()
    if agent.returncode:
        raise RuntimeError(f"the agent ended with status {agent.returncode}: {agent.args!r}")
    decoded = sample_reader.decode(text.encode())
    if isinstance(decoded, Refused):
        raise RuntimeError(f"the agent printed what no controller takes: {decoded}")
    return decoded


def column(taken: SampleRecord, indicator: str) -> float | None:
    """Return one of a sample's utilizations."""
    return taken.utilization[sample_record.INDICATORS.index(indicator)]


def utilization(agent: "subprocess.Popen[str]", indicator: str) -> float | None:
    """Wait for the agent's sample; return one of its utilizations."""
    return column(sample(agent), indicator)
