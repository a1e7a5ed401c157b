"""Ticks of half a second, one and two on real daemons: weights move although senders send each second."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from steelyard_protocol import weight_table, wire
from steelyard_protocol.weight_table import WeightTable

from testing.daemons import Daemon
from testing.meanwhile import meanwhile
from testing.waiting import wait_until

from ..examples import report, sample
from ..processes import LOCAL, Controller, controller

pytestmark = pytest.mark.integration

WEB = """upstreams:
  web:
    load_balancers: [edge-1]
    peers:
      - {id: a, address: '10.0.0.1:80', baseline: 1}
      - {id: b, address: '10.0.0.2:80', baseline: 1}
"""

HOURS_OFF_S = -7200.0


def sending(
    memcached: Daemon, interval_s: float, phase_s: float, messages: Callable[[int], dict[str, bytes]]
) -> AbstractContextManager[None]:
    """Put messages into Memcached once an interval, at a phase of the wall clock, as senders do."""

    def send(stop: threading.Event) -> None:
        client = Client(("127.0.0.1", memcached.port))
        for seq in itertools.count(1):
            if stop.wait((phase_s - time.time()) % interval_s):
                break
            for key, value in messages(seq).items():
                client.set(key, value, noreply=False)
            stop.wait(interval_s / 2)
        client.close()

    return meanwhile(send)


def agents(clock_s: float, interval_s: float = 1.0) -> Callable[[int], dict[str, bytes]]:
    """Return samples of a busy server and an idle one."""
    return lambda seq: {
        wire.sample_key("web", peer): sample(
            peer, seq=seq, cpu=cpu, taken_at_ms=_now_ms(clock_s), interval_s=interval_s
        )
        for peer, cpu in (("a", 0.9), ("b", 0.3))
    }


def nginx(clock_s: float) -> Callable[[int], dict[str, bytes]]:
    """Return reports with this many requests at both servers."""
    row = (100, 0, 1, 5.0)
    return lambda seq: {
        wire.traffic_key("web", "edge-1"): report(seq=seq, sent_at_ms=_now_ms(clock_s), a=row, b=row)
    }


def _now_ms(clock_s: float) -> int:
    return int((time.time() + clock_s) * 1000)


@contextmanager
def ticking(memcached: Daemon, redis: Daemon, folder: Path, tick_s: float) -> Iterator[Controller]:
    """Yield a leading controller with this tick."""
    config = folder / "controller.yaml"
    config.write_text(WEB)
    with controller(
        folder,
        "--tick-s", str(tick_s),
        "--config", str(config),
        "--memcached", f"127.0.0.1:{memcached.port}",
        "--state-url", f"redis://127.0.0.1:{redis.port}/0",
    ) as started:  # fmt: skip
        started.wait("leader")
        yield started


def weights(memcached: Daemon) -> dict[str, int]:
    """Return the published weights."""
    client = Client(("127.0.0.1", memcached.port))
    value = client.get(wire.weights_key("web"))
    client.close()
    table = weight_table.decode(value) if value is not None else None
    return {peer.id: peer.weight for peer in table.peers} if isinstance(table, WeightTable) else {}


@pytest.mark.parametrize(("tick_s", "clock_s"), [(0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (1.0, HOURS_OFF_S)])
def test_weights_move_at_every_length_of_the_tick(
    memcached: Daemon, redis_server: Daemon, tmp_path: Path, tick_s: float, clock_s: float
) -> None:
    with (
        sending(memcached, 1.0, 0.0, agents(clock_s)),
        sending(memcached, 1.0, 0.4, nginx(0.0)),
        ticking(memcached, redis_server, tmp_path, tick_s) as led,
    ):
        wait_until(
            lambda: (weight := weights(memcached)) and weight["b"] > 1.5 * weight["a"],
            "a move of the weights",
        )
        wait_until(lambda: "pairing" not in LOCAL.get(f"{led.url}/readyz").text, "well paired")


def test_where_no_pairs_are_found_readiness_says_so_and_names_the_remedy(
    memcached: Daemon, redis_server: Daemon, tmp_path: Path
) -> None:
    """Samples of a tenth of a second with a report every three seconds."""
    with (
        sending(memcached, 0.1, 0.0, agents(0.0, 0.1)),
        sending(memcached, 3.0, 0.0, nginx(0.0)),
        ticking(memcached, redis_server, tmp_path, 0.1) as led,
    ):
        wait_until(lambda: "report_interval_s" in LOCAL.get(f"{led.url}/readyz").text, "the fault")
