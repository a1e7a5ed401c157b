"""Upstreams divided among installations: the load of each controller, of Memcached and of Redis.

    .venv/bin/python controller/benchmarks/bench_installations.py --size 1000x10 --installations 1 2

Real controllers share one Memcached and one Redis. Each leads an installation of its own, and an upstream
belongs to the first installation in its rendezvous order. Every sample and report is new at every tick. The
numbers of installations take turns for some rounds, and the ratios are to the first number.

CPU is counted for each tick, so that a busy machine, on which ticks are left out, changes it little.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

import psutil
import redis
from pymemcache.client.base import Client
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.redis_store import RedisStore
from steelyard_protocol import rendezvous, sample_record, traffic_report, wire
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport

sys.path.insert(0, str(Path(__file__).parents[2]))
from testing.daemons import Daemon, free_port, memcached_in, redis_in

# In one request to Redis: its script runs for a few milliseconds.
DECLARATIONS_AT_ONCE = 100

# The senders write this long before the tick, which is 0.1 s after a whole multiple of its period.
BEFORE_TICK_S = 0.2

# The sequence number and the time in the messages are replaced by others of equal length.
FIRST_SEQ, FIRST_MS = 1_000_000, 1_790_000_000_000

START_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A measurement: CPU in ms a tick by controller, ticks left out, and figures a second of the daemons."""

    controllers: Sequence[float]
    upstreams: Sequence[int]
    left_out: float
    memory_mb: Sequence[float]
    memcached: Mapping[str, float]
    redis: Mapping[str, float]


def main() -> int:
    """Print a row for each number of installations and round, and the ratios."""
    parser = argparse.ArgumentParser(description="Upstreams divided among installations, side by side.")
    parser.add_argument("--size", type=_size, default=(1000, 10, 1), help="upstreams x servers")
    parser.add_argument("--installations", type=int, nargs="+", default=[1, 2], help="numbers of them")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in turns")
    parser.add_argument("--seconds", type=float, default=20.0, help="measured time of each")
    parser.add_argument("--tick-s", type=float, default=1.0, help="the controllers' tick")
    options = parser.parse_args()
    loads: dict[int, list[Load]] = {number: [] for number in options.installations}
    for _ in range(options.rounds):
        for number in options.installations:
            load = measure(number, options.size, options.tick_s, options.seconds)
            loads[number].append(load)
            print(_row(number, load), flush=True)
    first = options.installations[0]
    for number in options.installations[1:]:
        print(f"\n{number} installations, relative to {first}; medians of the rounds:")
        for what, ratio in _ratios(loads[first], loads[number]).items():
            print(f"  {what:42} {ratio:.2f}")
    return 0


def measure(installations: int, size: tuple[int, int, int], tick_s: float, seconds: float) -> Load:
    """Run this many installations, and measure them."""
    names = [f"part-{number}" for number in range(1, installations + 1)]
    parts: dict[str, list[str]] = {name: [] for name in names}
    for number in range(size[0]):
        parts[rendezvous.order(names, f"upstream-{number}")[0]].append(f"upstream-{number}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        memcached = stack.enter_context(memcached_in(folder, "-m", "1024"))
        store = stack.enter_context(redis_in(folder))
        asyncio.run(_declare(store, parts, size))
        stack.enter_context(_senders(memcached.port, parts, size, tick_s))
        running = [stack.enter_context(_controller(folder, name, memcached, store, tick_s)) for name in names]
        for _, port in running:
            _wait_led(port)
        time.sleep(3 * tick_s)  # The first ticks also resume.
        return _measured(running, list(parts.values()), memcached, store, tick_s, seconds)


async def _declare(daemon: Daemon, parts: Mapping[str, Sequence[str]], size: tuple[int, int, int]) -> None:
    peers = [
        Peer(id=f"server-{number}", address=f"10.0.{number // 250}.{1 + number % 250}:80")
        for number in range(1, size[1] + 1)
    ]
    balancers = [f"edge-{number}" for number in range(1, size[2] + 1)]
    declaration = Declaration(upstream=Upstream(peers=peers, load_balancers=balancers))
    for installation, upstreams in parts.items():
        store = RedisStore(f"redis://{daemon.address}/0", installation=installation, timeout_s=10.0)
        draft = Lease(holder="bench", boot="1", url="", term=1)
        lease = await store.acquire(draft, lease_s=60, above=0, patient=False) or draft
        for at in range(0, len(upstreams), DECLARATIONS_AT_ONCE):
            some = upstreams[at : at + DECLARATIONS_AT_ONCE]
            await store.declare(lease, dict.fromkeys(some, declaration))
        await store.release(lease)
        await store.close()


@contextmanager
def _controller(
    folder: Path, installation: str, memcached: Daemon, store: Daemon, tick_s: float
) -> Iterator[tuple[psutil.Process, int]]:
    port = free_port()
    command = [
        sys.executable, "-m", "steelyard_controller", "--installation", installation, "--id", installation,
        "--memcached", memcached.address, "--state-url", f"redis://{store.address}/0",
        "--api-port", str(port), "--tick-s", str(tick_s), "--lease-s", "10",
    ]  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    with (folder / f"{installation}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=kept)
    try:
        yield psutil.Process(process.pid), port
    finally:
        process.kill()
        process.wait()


def _wait_led(port: int) -> None:
    """Wait until a controller leads and each of its upstreams has had a tick."""
    give_up_s = time.monotonic() + START_S
    while time.monotonic() < give_up_s:
        time.sleep(1.0)
        with contextlib.suppress(OSError):  # It does not listen yet, or it is not ready: 503.
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10).close()
            return
    sys.exit("bench_installations: a controller did not lead all its upstreams in time")


def _generation(port: int, upstream: str) -> int:
    """Return the number of an upstream's last table: each tick publishes one."""
    url = f"http://127.0.0.1:{port}/v1/upstreams/{upstream}/weights"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return int(json.load(answer)["generation"])


def _measured(
    running: Sequence[tuple[psutil.Process, int]],
    parts: Sequence[Sequence[str]],
    memcached: Daemon,
    store: Daemon,
    tick_s: float,
    seconds: float,
) -> Load:
    client, by_hand = Client(("127.0.0.1", memcached.port)), redis.Redis(port=store.port)
    processes = [process for process, _ in running]

    def now() -> tuple[float, dict[str, float], dict[str, float], list[float], list[int]]:
        generations = [_generation(port, part[0]) for (_, port), part in zip(running, parts, strict=True)]
        used = [_cpu(process) for process in processes]
        return time.monotonic(), _counts(client), _commands(by_hand), used, generations

    _wait_between_ticks(tick_s)
    before = now()
    time.sleep(seconds)
    _wait_between_ticks(tick_s)
    after = now()
    client.close()
    by_hand.close()
    took_s = after[0] - before[0]
    ticks = [max(1, new - old) for new, old in zip(after[4], before[4], strict=True)]
    return Load(
        controllers=[
            1000 * (new - old) / count for new, old, count in zip(after[3], before[3], ticks, strict=True)
        ],
        upstreams=[len(part) for part in parts],
        left_out=max(0.0, 1 - sum(ticks) * tick_s / (took_s * len(ticks))),
        memory_mb=[process.memory_info().rss / 1e6 for process in processes],
        memcached={name: (after[1][name] - old) / took_s for name, old in before[1].items()},
        redis={name: (after[2][name] - old) / took_s for name, old in before[2].items()},
    )


def _wait_between_ticks(tick_s: float) -> None:
    """Wait for the middle between two ticks, so that whole ticks are measured."""
    time.sleep(tick_s - (time.time() - 0.6 * tick_s) % tick_s)


def _cpu(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def _counts(client: Client) -> dict[str, float]:
    stats = client.stats()
    return {
        "keys read": float(stats[b"cmd_get"]),
        "keys written": float(stats[b"cmd_set"]),
        "MB in": float(stats[b"bytes_read"]) / 1e6,
        "MB out": float(stats[b"bytes_written"]) / 1e6,
        "CPU ms": 1000 * (float(stats[b"rusage_user"]) + float(stats[b"rusage_system"])),
    }


def _commands(client: "redis.Redis") -> dict[str, float]:
    info = client.info()
    return {
        "commands": float(info["total_commands_processed"]),
        "MB in": float(info["total_net_input_bytes"]) / 1e6,
        "MB out": float(info["total_net_output_bytes"]) / 1e6,
        "CPU ms": 1000 * (float(info["used_cpu_user"]) + float(info["used_cpu_sys"])),
    }


@contextmanager
def _senders(
    port: int, parts: Mapping[str, Sequence[str]], size: tuple[int, int, int], tick_s: float
) -> Iterator[None]:
    """Write a new sample of each server and a new report of each upstream before each tick."""
    stop = multiprocessing.Event()
    upstreams = [name for part in parts.values() for name in part]
    process = multiprocessing.Process(target=_send, args=(port, upstreams, size, tick_s, stop))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join()


def _send(
    port: int, upstreams: Sequence[str], size: tuple[int, int, int], tick_s: float, stop: Event
) -> None:
    text = b"".join(_requests(name, *size[1:]) for name in upstreams)
    client = Client(("127.0.0.1", port), no_delay=True)
    client.version()  # It connects.
    seq = FIRST_SEQ
    while not stop.is_set():
        time.sleep(tick_s - (time.time() + BEFORE_TICK_S) % tick_s)
        seq += 1
        now_ms = round(1000 * time.time())
        numbered = text.replace(b":%d" % FIRST_SEQ, b":%d" % seq).replace(b"%d" % FIRST_MS, b"%d" % now_ms)
        client.sock.sendall(numbered)
    client.close()


def _requests(upstream: str, peers: int, balancers: int) -> bytes:
    """Return the requests to Memcached that write an upstream's messages."""
    ids = sorted(f"server-{number}" for number in range(1, peers + 1))
    values = {wire.sample_key(upstream, peer): _sample(upstream, peer) for peer in ids}
    for number in range(1, balancers + 1):
        values[wire.traffic_key(upstream, f"edge-{number}")] = _report(upstream, f"edge-{number}", ids)
    return b"".join(
        b"set %s 0 60 %d noreply\r\n%s\r\n" % (key.encode(), len(value), value)
        for key, value in values.items()
    )


def _sample(upstream: str, peer: str) -> bytes:
    cpu = 0.2 + (hash(peer) % 60) / 100
    return sample_record.encode(
        SampleRecord(
            upstream=upstream, peer=peer, boot="b", seq=FIRST_SEQ, taken_at_ms=FIRST_MS, interval_s=1.0,
            utilization=(cpu, 0.02, 0.01, 0.4), capacity=(2.0, 125e6, None, 2.0**31), scope="cgroup",
        )
    )  # fmt: skip


def _report(upstream: str, lb: str, ids: Sequence[str]) -> bytes:
    count = len(ids)
    return traffic_report.encode(
        TrafficReport(
            upstream=upstream, lb=lb, boot="b", seq=FIRST_SEQ, sent_at_ms=FIRST_MS, interval_s=1.0, ids=ids,
            completed=[100 + row % 7 for row in range(count)], failed=[0] * count, in_flight=[2] * count,
            latency_ms=[4.1] * count,
        )
    )  # fmt: skip


def _size(text: str) -> tuple[int, int, int]:
    upstreams, peers, balancers = map(int, f"{text}x1".split("x")[:3])
    return upstreams, peers, balancers


def _row(number: int, load: Load) -> str:
    each = " + ".join(f"{cpu:.0f}" for cpu in load.controllers)
    memory = " + ".join(f"{mb:.0f}" for mb in load.memory_mb)
    return (
        f"{number} installations of {' + '.join(map(str, load.upstreams))} upstreams: {each} ms CPU a tick, "
        f"{100 * load.left_out:.0f} % of the ticks left out, {memory} MB\n"
        f"   Memcached a second: {_figures(load.memcached)}\n"
        f"   Redis a second: {_figures(load.redis)}"
    )


def _figures(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{what} {figure:,.2f}" for what, figure in figures.items())


def _ratios(before: Sequence[Load], after: Sequence[Load]) -> dict[str, float]:
    """Return the ratio of the medians of each figure."""
    figures: dict[str, Callable[[Load], float]] = {
        "CPU of all controllers": lambda load: sum(load.controllers),
        "CPU of the busiest controller": lambda load: max(load.controllers),
    }
    figures |= {f"Memcached: {name}": _of_memcached(name) for name in before[0].memcached}
    figures |= {f"Redis: {name}": _of_redis(name) for name in before[0].redis}
    return {
        what: statistics.median(map(of, after)) / max(1e-9, statistics.median(map(of, before)))
        for what, of in figures.items()
    }


def _of_memcached(figure: str) -> Callable[[Load], float]:
    return lambda load: load.memcached[figure]


def _of_redis(figure: str) -> Callable[[Load], float]:
    return lambda load: load.redis[figure]


if __name__ == "__main__":
    sys.exit(main())
