"""The comparisons: known work, and the agent's figures for it.

I/O only. Each case is a call that returns a row; `python -m agent.tests.truth` prints
them and agent/tests/truth/test_agent_truth.py asserts them.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from steelyard_protocol import sample_reader, sample_record
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.wire import Refused

from . import cgroups, counts, known_work, networks, stress
from .truth_table import Row

# Thirty of the kernel's quota periods: over that time stress-ng keeps its load to a point.
CPU_INTERVAL_S = 3.0
# Our own pacing is even over far less.
INTERVAL_S = 1.0
# Memory is a gauge, read at the end of the interval.
GAUGE_INTERVAL_S = 0.1

MIB = 1024 * 1024
LIMIT_BYTES, HELD_BYTES, CACHED_BYTES = 1024 * MIB, 384 * MIB, 256 * MIB
LINK_BYTES_PER_S, SENT_BYTES_PER_S = 12_500_000, 4_500_000
CALLS_PER_S, WRITES_PER_S, WRITE_BYTES = 500, 200, 4096
# Out of step with the kernel, which counts a disk's busy time in jiffies of 1 to 10 ms.
LONG_WRITES_PER_S, LONG_WRITE_BYTES = 47, 4 * MIB


def cpu_in_cgroup(
    percent: int, *, cores: float, workers: int = 1, nested: bool = False, with_host: bool = False
) -> Row:
    """Load a percentage of a quota, `nested` in a group inside the one with the quota.

    Beyond 100 the kernel throttles, and the agent reads 100 %. with_host: another agent reads the host
    meanwhile.
    """
    of_a_core = min(100, round(percent * cores / workers))
    with ExitStack() as stack:
        group = stack.enter_context(cgroups.limited(cores=cores))
        if nested:
            group = stack.enter_context(group.nested())
        _, ran = stack.enter_context(stress.cpu(of_a_core, workers=workers, prefix=group.prefix))
        agent = _begin("cgroup", interval_s=CPU_INTERVAL_S, prefix=group.prefix)
        # Not in the group, because its start would use up the quota; /proc/stat is the same there.
        host = _begin("host", interval_s=CPU_INTERVAL_S) if with_host else None
        taken = _sample(agent)
        return Row(
            work=f"stress-ng for {percent} %: {workers} x {of_a_core} % of a core",
            limit=f"a quota of {cores:g} cores" + (", the parent's" if nested else ""),
            scope="cgroup",
            known=_meanwhile(ran.cores, taken) / cores,
            read=_column(taken, "cpu"),
            host=None if host is None else _utilization(host, "cpu"),
        )


def cpu_of_process(percent: int, *, cores: float) -> Row:
    """Load a percentage of a core and read the process from outside, against a given limit."""
    with stress.cpu(percent) as (pid, ran):
        flags = ("--pid", str(pid), "--cpu-limit", f"{cores:g}")
        taken = _sample(_begin("process", *flags, interval_s=CPU_INTERVAL_S))
        known = _meanwhile(ran.cores, taken) / cores
    return Row(
        work=f"stress-ng for {percent} %: 1 x {percent} % of a core",
        limit=f"`--cpu-limit {cores:g}`",
        scope="process",
        known=known,
        read=_column(taken, "cpu"),
    )


def _meanwhile(rate: Callable[[float, float], float], taken: SampleRecord) -> float:
    """Return a rate in the interval of a sample, without the agent's start."""
    end_s = taken.taken_at_ms / 1000
    return rate(end_s - taken.interval_s, end_s)


def memory_in_cgroup() -> Row:
    """Hold memory under a limit."""
    work = f"{HELD_BYTES // MIB} MiB held"
    return _memory_row(work, HELD_BYTES / LIMIT_BYTES, ["hold", "0"], ["hold", str(HELD_BYTES)])


def cache_in_cgroup(folder: Path) -> Row:
    """Write a file, whose pages stay in the cache: the kernel reclaims them, so they are not in use."""
    work = f"{CACHED_BYTES // MIB} MiB of a file in the page cache"
    written = ["cache", str(folder / "cached")]
    return _memory_row(work, 0.0, [*written, "0"], [*written, str(CACHED_BYTES)])


def _memory_row(work: str, known: float, nothing: Sequence[str], something: Sequence[str]) -> Row:
    """Read the base use of the agent and Python, doing `nothing`, and subtract it."""
    with cgroups.limited(memory_bytes=LIMIT_BYTES) as group:
        empty, full = (_memory_with(group, script) for script in (nothing, something))
    return Row(
        work=work,
        limit=f"a limit of {LIMIT_BYTES // MIB} MiB",
        scope="cgroup",
        known=known,
        read=None if empty is None or full is None else full - empty,
    )


def _memory_with(group: cgroups.Group, script: Sequence[str]) -> float | None:
    with known_work.script(*script, prefix=group.prefix):
        agent = _begin("cgroup", interval_s=GAUGE_INTERVAL_S, prefix=group.prefix)
        return _utilization(agent, "mem")


def network(scope: str, *, receiving: bool) -> Row:
    """Send at a known rate from one network namespace to another; read it at either end."""
    with ExitStack() as stack:
        sender, receiver = stack.enter_context(networks.cable())
        inside = stack.enter_context(cgroups.limited()).prefix if scope == "cgroup" else ()
        to = (networks.BROADCAST, str(SENT_BYTES_PER_S))
        with known_work.script("send", *to, prefix=[*inside, *sender]) as work:
            end = receiver if receiving else sender
            flags = ("--net-capacity", str(LINK_BYTES_PER_S))
            agent = _begin(scope, *flags, interval_s=INTERVAL_S, prefix=[*inside, *end])
            taken = _sample(agent)
    return Row(
        work=f"{'receiving' if receiving else 'sending'} {SENT_BYTES_PER_S / 1e6:g} MB/s over veth",
        limit=f"`--net-capacity {LINK_BYTES_PER_S}`",
        scope=scope,
        known=_meanwhile(partial(counts.rate, work.seen), taken) / LINK_BYTES_PER_S,
        read=_column(taken, "net"),
    )


def network_of_unknown_speed() -> float | None:
    """Return the agent's figure for a virtual NIC with no capacity given: it should be None."""
    with networks.cable() as (_, end):
        return _utilization(_begin("host", interval_s=GAUGE_INTERVAL_S, prefix=end), "net")


def writes(scope: str, folder: Path) -> Row:
    """Write at a known rate and read it as operations against a given capacity."""
    prefix: Sequence[str] = ()
    with ExitStack() as stack:
        if scope == "cgroup":
            group = stack.enter_context(cgroups.limited())
            cgroups.count_io(group)
            prefix = group.prefix
        with _writing(folder, WRITES_PER_S, WRITE_BYTES, prefix) as work:
            target = ("--pid", str(work.process.pid)) if scope == "process" else ()
            flags = ("--io-capacity", str(CALLS_PER_S), *target)
            agent = _begin(scope, *flags, interval_s=INTERVAL_S, prefix=prefix)
            taken = _sample(agent)
    return Row(
        work=f"{WRITES_PER_S} writes/s of {WRITE_BYTES // 1024} kB, past the page cache",
        limit=f"`--io-capacity {CALLS_PER_S}`",
        scope=scope,
        known=_meanwhile(partial(counts.rate, work.seen), taken) / CALLS_PER_S,
        read=_column(taken, "io"),
    )


def disk_busy(folder: Path) -> Row:
    """Write at a known rate and read how long the disk was busy; the writer timed how long it waited."""
    with _writing(folder, LONG_WRITES_PER_S, LONG_WRITE_BYTES, ()) as work:
        read = _utilization(_begin("host", interval_s=CPU_INTERVAL_S), "io")
    return Row(
        work=f"{LONG_WRITES_PER_S} writes/s of {LONG_WRITE_BYTES // MIB} MB, past the page cache",
        limit="the disk always busy",
        scope="host",
        known=work.report["busy"],
        read=read,
    )


def _writing(
    folder: Path, per_s: int, size: int, prefix: Sequence[str]
) -> AbstractContextManager[known_work.Work]:
    return known_work.script("write", str(folder / "written"), str(per_s), str(size), prefix=prefix)


def _begin(scope: str, *flags: str, interval_s: float, prefix: Sequence[str] = ()) -> "subprocess.Popen[str]":
    """Start an agent for one sample."""
    command = [
        *prefix, sys.executable, "-m", "steelyard_agent", "--once", "--peer", "truth",
        "--scope", scope, "--interval", f"{interval_s:g}", *flags,
    ]  # fmt: skip
    # Without settings of the caller, and without a folder that could be taken for the package.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean, cwd=Path(__file__).parent)


def _sample(agent: "subprocess.Popen[str]") -> SampleRecord:
    """Wait for the agent's end; return its sample."""
    text, _ = agent.communicate()
    if agent.returncode:
        raise RuntimeError(f"the agent ended with status {agent.returncode}: {agent.args!r}")
    decoded = sample_reader.decode(text.encode())
    if isinstance(decoded, Refused):
        raise RuntimeError(f"the agent printed a record that no controller accepts: {decoded}")
    return decoded


def _column(taken: SampleRecord, indicator: str) -> float | None:
    """Return one of a sample's utilizations."""
    return taken.utilization[sample_record.INDICATORS.index(indicator)]


def _utilization(agent: "subprocess.Popen[str]", indicator: str) -> float | None:
    """Wait for the agent's sample; return one of its utilizations."""
    return _column(_sample(agent), indicator)
