"""Real controller processes for tests, each behind its own proxies, under a steady load."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymemcache.client.base import Client
from steelyard_protocol import weight_table, wire
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import weights_key

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import wait_until

from .examples import report, sample
from .proxies import Proxy, Recorder, Write, Writes

TICK_S = 0.1
LEASE_S = 1.0

_PEERS = ", ".join(
    f"{{id: {name}, address: '10.0.0.{n}:80', baseline: 1}}" for n, name in enumerate("abc", 1)
)
CONFIG = f"upstreams: {{web: {{peers: [{_PEERS}]}}}}\n"


@dataclass
class Controller:
    """A controller process; `memcached` and `redis` stand between it and the daemons."""

    id: str
    port: int
    log: Path
    command: list[str]
    memcached: Recorder
    redis: Proxy
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = warm_start.Popen(self.command, stdout=log, stderr=log, env=_environment())
        wait_until(lambda: self.get("/healthz") is not None or self.process.poll() is not None, "a start")  # type: ignore[union-attr]

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> int:
        """Kill it, if it still is there, and return its exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.kill()
        return self.process.wait()

    def get(self, path: str) -> Any:
        """Return its API's answer; None: there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def says(self, text: str) -> bool:
        """Return whether its log has the text."""
        return text in self.log.read_text()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}


class Cluster:
    """Controllers on one Memcached and one Redis, and a steady load on three servers; a is busy."""

    def __init__(self, memcached: Daemon, redis: Daemon, folder: Path, stack: ExitStack) -> None:
        self.writes = Writes()
        self._memcached, self._redis, self._folder, self._stack = memcached, redis, folder, stack
        self._seq = 0
        self._stop = threading.Event()
        load = threading.Thread(target=self._load)
        load.start()
        stack.callback(load.join)
        stack.callback(self._stop.set)

    def controller(self, id: str, *flags: str, config: str = CONFIG) -> Controller:
        """Start a controller."""
        recorder = Recorder(self._memcached.port, id, self.writes)
        redis = Proxy(self._redis.port)
        self._stack.callback(recorder.close)
        self._stack.callback(redis.close)
        port, file = free_port(), self._folder / f"{id}.yaml"
        file.write_text(config)
        command = [
            sys.executable, "-m", "steelyard_controller", "--config", str(file), "--id", id,
            "--memcached", recorder.address, "--state-url", f"redis://{redis.address}/0",
            "--api-port", str(port), "--tick-s", str(TICK_S), "--lease-s", str(LEASE_S), *flags,
        ]  # fmt: skip
        controller = Controller(id, port, self._folder / f"{id}.log", command, recorder, redis)
        self._stack.callback(lambda: controller.process is not None and controller.end())
        controller.start()
        return controller

    def leads(self, *others: Controller) -> Controller:
        """Return the controller that publishes now, and wait until there is one."""
        names = {each.id: each for each in others}
        before = len(self.writes.all)
        wait_until(lambda: any(w.stored and w.writer in names for w in self.writes.all[before:]), "leading")
        return names[self.writes.stored[-1].writer]

    def ticks(self, count: int, of: Controller) -> None:
        """Wait until a controller has published this many more tables."""
        before = len(self.writes.of(of.id))
        wait_until(lambda: len(self.writes.of(of.id)) >= before + count, f"{count} ticks of {of.id}")

    def table(self) -> WeightTable:
        """Return the contents of Memcached."""
        client = Client(("127.0.0.1", self._memcached.port))
        table = weight_table.decode(client.get(weights_key("web")))
        client.close()
        assert isinstance(table, WeightTable)
        return table

    def _load(self) -> None:
        while not self._stop.wait(TICK_S):
            self._seq += 1
            values = {
                wire.sample_key("web", peer): sample(
                    peer, seq=self._seq, cpu=0.9 if peer == "a" else 0.3, interval_s=TICK_S
                )
                for peer in "abc"
            }
            row = (10, 0, 1, 5.0)
            values[wire.traffic_key("web", "edge-1")] = report(
                seq=self._seq, interval_s=TICK_S, a=row, b=row, c=row
            )
            client = Client(("127.0.0.1", self._memcached.port), connect_timeout=1, timeout=1)
            try:
                client.set_many(values, noreply=False)
            except OSError:
                pass
            finally:
                client.close()


@contextmanager
def cluster(memcached: Daemon, redis: Daemon, folder: Path) -> Iterator[Cluster]:
    """Yield a cluster without controllers; all its processes end with the block."""
    with ExitStack() as stack:
        yield Cluster(memcached, redis, folder, stack)


def has_one_writer(writes: list[Write]) -> None:
    """Fail unless the order of the tables only rises, and each term is one controller's."""
    orders = [write.order for write in writes]
    assert orders == sorted(set(orders))
    assert len({(write.table.term, write.writer) for write in writes}) == len({w.table.term for w in writes})


def shares(write: Write) -> list[float]:
    """Return the shares of the servers in a table."""
    total = sum(peer.weight for peer in write.table.peers)
    return [peer.weight / total for peer in write.table.peers]


def moved(writes: list[Write]) -> float:
    """Return the largest relative change of a share since the table before the first."""
    before = shares(writes[0])
    return max(
        abs(share / old - 1) for write in writes for share, old in zip(shares(write), before, strict=True)
    )


def learnt(them: Cluster, leader: Controller) -> None:
    """Wait until the weights have followed the load and no longer change."""

    def stands() -> bool:
        recent = them.writes.stored[-15:]
        return len(recent) == 15 and shares(recent[-1])[0] < 0.2 and moved(recent) < 0.02

    wait_until(stands, "learning")
    assert them.writes.stored[-1].writer == leader.id
