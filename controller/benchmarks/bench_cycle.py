"""CPU time of the controller's whole ticks with a real Memcached, at several sizes.

    .venv/bin/python controller/benchmarks/bench_cycle.py [--ticks 5] [--redis] [--sizes 1000x10] [--nginx]

Every sample and report is new at every tick, the most work possible. With --nginx also what an
nginx without requests costs that serves these upstreams.
"""

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from pymemcache.client.base import Client
from steelyard_controller import garbage
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.faults import Faults
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.store.interface import Store
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_controller.store.redis_store import RedisStore
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.overview import overview
from steelyard_controller.tick.tick_loop import TickLoop
from steelyard_protocol import sample_record, traffic_report, wire
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport

sys.path.insert(0, str(Path(__file__).parents[2]))
import idle_nginx

from testing.daemons import memcached_in, redis_in

# Upstreams, servers of each, load balancers.
SIZES = (
    (1, 3, 1), (1, 100, 1), (1, 1000, 1), (1, 1000, 64), (100, 100, 1), (1, 10_000, 1), (1, 10_000, 16),
)  # fmt: skip


def main() -> int:
    """Print a row a size."""
    parser = argparse.ArgumentParser(description="CPU time of a tick, beside its parts.")
    parser.add_argument("--ticks", type=int, default=5, help="measured ticks a size (after one to warm up)")
    parser.add_argument("--redis", action="store_true", help="keep state in a real Redis, not in memory")
    parser.add_argument(
        "--sizes", nargs="+", type=_size, default=SIZES, help="upstreams x servers: 1000x10, 1x1000x64"
    )
    parser.add_argument("--nginx", action="store_true", help="measure an idle nginx beside it")
    options = parser.parse_args()
    gc.set_threshold(*garbage.THRESHOLDS)
    print(
        f"{'upstreams':>9} {'servers':>8} {'balancers':>9} {'CPU ms a tick':>14} {'us a server':>12}"
        f" {'elapsed ms':>11}"
    )
    for upstreams, peers, balancers in options.sizes:
        with ExitStack() as daemons:
            folder = Path(daemons.enter_context(tempfile.TemporaryDirectory()))
            memcached = daemons.enter_context(memcached_in(folder, "-m", "256"))
            pipeline = MemcachedPool(memcached.address)
            store: Store = MemoryStore()
            if options.redis:
                store = RedisStore(f"redis://{daemons.enter_context(redis_in(folder)).address}/0")
            size = (upstreams, peers, balancers)
            used = asyncio.run(_measure(size, options.ticks, memcached.port, pipeline, store))
            if options.nginx:
                print(idle_nginx.measure(upstreams, memcached.port, options.ticks), file=sys.stderr)
        cpu_ms, elapsed_ms = (1000 * statistics.median(column) for column in zip(*used, strict=True))
        count = upstreams * peers
        print(
            f"{upstreams:>9} {count:>8} {balancers:>9} {cpu_ms:>14.1f} {1000 * cpu_ms / count:>12.1f}"
            f" {elapsed_ms:>11.1f}",
            flush=True,
        )
    return 0


def _size(text: str) -> tuple[int, int, int]:
    upstreams, peers, balancers = map(int, f"{text}x1".split("x")[:3])
    return upstreams, peers, balancers


async def _measure(
    size: tuple[int, int, int], ticks: int, memcached_port: int, pipeline: MemcachedPool, store: Store
) -> list[tuple[float, float]]:
    upstreams, peers, balancers = size
    loop = TickLoop(
        pipeline=pipeline, store=store, tick_s=1.0, history_s=900, keys=Keyring(), faults=Faults()
    )
    draft = Lease(holder="bench", boot="1", url="", term=1)
    lease = await store.acquire(draft, lease_s=600, above=0, patient=False) or draft
    names = [f"upstream-{number}" for number in range(upstreams)]
    for name in names:
        loop.follow(name, Declaration(upstream=_upstream(peers, balancers)))
    # The controller keeps nothing about undeclared servers.
    await store.declare(lease, {name: loop.cycles[name].declaration for name in names})
    used = []
    for tick in range(ticks + 1):
        _fill(memcached_port, loop, names, tick)
        began = time.process_time(), time.monotonic()
        await loop.tick(float(tick), lease=lease, certain=lambda: True, addresses={})
        used.append((time.process_time() - began[0], time.monotonic() - began[1]))
        outcomes = [_checked(loop, name, peers, balancers) for name in names]
    began_s = time.process_time()
    overview(outcomes[-1], loop.cycles[names[-1]].declaration)
    print(f"# overview of {peers} servers: {1000 * (time.process_time() - began_s):.1f} ms", file=sys.stderr)
    pipeline.close()
    await store.close()
    return used[1:]


def _checked(loop: TickLoop, name: str, peers: int, balancers: int) -> Outcome:
    """Return an upstream's outcome; an incomplete tick is not a measurement."""
    outcome = loop.cycles[name].outcome
    if outcome is None or outcome.degraded:
        sys.exit(f"bench_cycle: the tick of {name} was incomplete: {outcome and outcome.degraded}")
    read = len(outcome.inbox.samples), len(outcome.inbox.reports)
    if read != (peers, balancers):
        sys.exit(f"bench_cycle: the tick of {name} read {read} samples and reports, not {(peers, balancers)}")
    return outcome


def _upstream(peers: int, balancers: int) -> Upstream:
    return Upstream(
        peers=[
            Peer(id=f"server-{number}", address=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:80")
            for number in range(1, peers + 1)
        ],
        load_balancers=[f"edge-{number}" for number in range(1, balancers + 1)],
    )


def _fill(port: int, loop: TickLoop, names: list[str], tick: int) -> None:
    client = Client(("127.0.0.1", port), no_delay=True)
    for name in names:
        upstream = loop.cycles[name].declaration.upstream
        ids = sorted(peer.id for peer in upstream.peers)
        client.set_many(
            {wire.sample_key(name, peer): _sample(name, peer, tick) for peer in ids}, noreply=True
        )
        count = len(ids)
        for lb in upstream.load_balancers:
            report = TrafficReport(
                upstream=name, lb=lb, boot="b", seq=tick, sent_at_ms=1_790_000_000_000 + 1000 * tick,
                interval_s=1.0, ids=ids, completed=[100 + row % 7 for row in range(count)],
                failed=[0] * count, in_flight=[2] * count, latency_ms=[4.1] * count,
            )  # fmt: skip
            client.set(wire.traffic_key(name, lb), traffic_report.encode(report), noreply=False)
    client.close()


def _sample(upstream: str, peer: str, tick: int) -> bytes:
    cpu = 0.2 + (hash(peer) % 60) / 100
    return sample_record.encode(
        SampleRecord(
            upstream=upstream, peer=peer, boot="b", seq=tick, taken_at_ms=1_790_000_000_000, interval_s=1.0,
            utilization=(cpu, 0.02, 0.01, 0.4), capacity=(2.0, 125e6, None, 2.0**31), scope="cgroup",
        )
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
