"""The agent's costs, beside its targets: `make bench-agent`.

Real agents, as an operator runs them, deliver to a real Memcached: one for each
scope. All run at the same time, so that a noisy machine slows all of them alike. CPU
is the kernel's own count of each process's run time, in nanoseconds.

To finish in a minute instead of five, they tick ten times as fast as the default. The
figure is scaled: CPU at 1 s = CPU per tick / 1 s. `--interval 1 --seconds 300`
measures it unscaled: a sixth less on the machine of this benchmark's author.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import psutil
from pymemcache.client.base import Client
from steelyard_agent.readers.process import CPUCLOCK_SCHED
from steelyard_protocol import wire

sys.path.insert(0, str(Path(__file__).parents[2]))
from testing.daemons import free_port, memcached_in
from testing.hostile_servers import answering

TARGET_CPU = 0.005
"""Share of one core, at an interval of 1 s."""

TARGET_BYTES = 40_000_000

# Imports and the first list of the devices happen once, and are no part of a tick's cost.
WARM_UP_S = 3.0

CASES: Mapping[str, Sequence[str]] = {
    "host": ("--scope", "host"),
    "cgroup": ("--scope", "cgroup"),
    "process (this one)": ("--scope", "process", "--pid"),
    "host, signed, ORCA and HTTP": ("--scope", "host", "--key-file", "--orca"),
    "host, indicators": ("--scope", "host", "--config"),
}

PAGE = Path(__file__).parents[1] / "tests" / "fixtures" / "indicators" / "haproxy.prom"
"""630 lines, 45 kB: more than most applications have."""

INDICATORS = """
[[indicator]]
name = "connections"
preset = "haproxy"
port = {port}
[[indicator]]
name = "requests"
prometheus = "http://127.0.0.1:{port}/metrics"
metric = "haproxy_frontend_http_requests_total"
limit = 1000
[[indicator]]
name = "queue"
file = "{queue}"
limit = 10
[[indicator]]
name = "backlog"
preset = "gunicorn"
limit = 10
"""
"""Three sources, one of them a command every 5 s. Its own CPU is not counted, its start is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one agent: CPU seconds of each tick, and its largest resident memory."""

    ticks: int
    cpu_s: float
    resident_bytes: int

    @property
    def tick_s(self) -> float:
        """Return the CPU seconds of a tick; at an interval of 1 s they are the share of one core."""
        return self.cpu_s / self.ticks


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit status is 0 if every scope meets the targets."""
    parser = argparse.ArgumentParser(description="CPU and memory of the agent, by scope")
    parser.add_argument(
        "--interval", type=float, default=0.1, help="seconds between two samples (default: 0.1)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of wall time (default: 60)")
    chosen = parser.parse_args(arguments)
    costs = measured(chosen.interval, chosen.seconds)
    print(table(costs, chosen.interval, chosen.seconds))
    missed = [name for name, cost in costs.items() if not meets(cost)]
    if missed:
        print(f"\nmissed the target: {', '.join(missed)}")
    return 1 if missed else 0


def measured(interval_s: float, seconds: float) -> dict[str, Cost]:
    """Run an agent of each case, and return its cost after its start."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(memcached_in(folder)).address
        content = PAGE.read_bytes()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)
        page = stack.enter_context(answering(head + content))
        agents = {
            name: agent(stack, [*filled(flags, folder, page), "--peer", f"p{n}"], address, interval_s)
            for n, (name, flags) in enumerate(CASES.items())
        }
        client = stack.enter_context(closing(Client(address, connect_timeout=2, timeout=2)))
        pids = dict(enumerate(process.pid for process in agents.values()))
        return dict(zip(agents, costs_of(client, pids, seconds), strict=True))


def costs_of(client: Client, pids: Mapping[int, int], seconds: float) -> list[Cost]:
    """Return each agent's cost after its start; pids: of the agents, by their peers' numbers."""
    time.sleep(WARM_UP_S)
    before = [(seq(client, number), cpu_s(pid)) for number, pid in pids.items()]
    time.sleep(seconds)
    after = [(seq(client, number), cpu_s(pid)) for number, pid in pids.items()]
    return [
        Cost(ticks=last - first, cpu_s=now_s - then_s, resident_bytes=psutil.Process(pid).memory_info().rss)
        for pid, (first, then_s), (last, now_s) in zip(pids.values(), before, after, strict=True)
    ]


def meets(cost: Cost) -> bool:
    """Return whether an agent meets both targets."""
    return cost.tick_s < TARGET_CPU and cost.resident_bytes < TARGET_BYTES


def table(costs: Mapping[str, Cost], interval_s: float, seconds: float) -> str:
    """Return the costs as a Markdown table."""
    scaled = "as measured" if interval_s == 1.0 else f"scaled from one of {interval_s:g} s"
    rows = [
        f"Over {seconds:g} s; CPU at an interval of 1 s is {scaled}.",
        "",
        "| scope | ticks | CPU per tick, ms | CPU at 1 s, % of a core | resident, MB |",
        "|---|--:|--:|--:|--:|",
        *(
            f"| {name} | {cost.ticks} | {1000 * cost.tick_s:.2f} "
            f"| {100 * cost.tick_s:.3f} | {cost.resident_bytes / 1e6:.1f} |"
            for name, cost in costs.items()
        ),
        f"| target | | | under {100 * TARGET_CPU:g} | under {TARGET_BYTES / 1e6:g} |",
    ]
    return "\n".join(rows)


def agent(
    stack: ExitStack, flags: Sequence[str], address: str, interval_s: float
) -> "subprocess.Popen[bytes]":
    """Start an agent that ends with the stack."""
    command = [sys.executable, "-m", "steelyard_agent", "--memcached", address, *flags]
    process = subprocess.Popen([*command, "--interval", f"{interval_s:g}"], stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def filled(flags: Sequence[str], folder: Path, page: int) -> list[str]:
    """Return flags with the values of this run; `page` is the port of the page of metrics."""
    values = {
        "--config": lambda: str(indicators_in(folder, page)),
        "--pid": lambda: str(psutil.Process().pid),
        "--key-file": lambda: str(key_in(folder)),
        "--orca": lambda: f"{folder}/orca,:{free_port()}",
    }
    return [part for flag in flags for part in ([flag, values[flag]()] if flag in values else [flag])]


def key_in(folder: Path) -> Path:
    """Write a key; return its file."""
    file = folder / "key"
    file.write_bytes(b"k" * 32)
    file.chmod(0o600)
    return file


def indicators_in(folder: Path, page: int) -> Path:
    """Write a configuration with indicators; return its file."""
    file, queue = folder / "agent.toml", folder / "queue"
    queue.write_text("5\n")
    file.write_text(INDICATORS.format(port=page, queue=queue))
    return file


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, all its threads together."""
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)


def seq(client: Client, number: int) -> int:
    """Return the number of the newest sample of an agent."""
    value = client.get(wire.sample_key("web", f"p{number}"))
    if value is None:
        sys.exit(f"agent {number} sends nothing: it has ended, or this machine is too busy")
    return int(value.partition(b'"seq":')[2].partition(b",")[0])


if __name__ == "__main__":
    sys.exit(main())
