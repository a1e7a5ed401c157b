"""Python's calls in a tick: some for each upstream, none for each of its servers."""

import sys
from collections import Counter
from types import FrameType

from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.tick import batch
from steelyard_controller.tick.cycle import Cycle
from steelyard_protocol import traffic_report, wire
from steelyard_protocol.traffic_report import TrafficReport

from ..examples import sample

UPSTREAMS = [f"up-{number}" for number in range(6)]


def _calls(servers: int) -> Counter[str]:
    """Return the calls of the eighth tick of six upstreams: those of Python's functions, and of C's."""
    ids = [f"s{number}" for number in range(servers)]
    peers = [Peer(id=each, address=f"10.0.0.{number}:80") for number, each in enumerate(ids, 1)]
    cycles = [Cycle(name, Declaration(upstream=Upstream(peers=peers)), tick_s=1.0) for name in UPSTREAMS]
    counts: Counter[str] = Counter()

    def count(_frame: FrameType, event: str, _function: object) -> None:
        counts[event] += 1

    for tick in range(1, 9):
        values = {
            wire.sample_key(name, each): sample(each, upstream=name, seq=tick, taken_at_ms=1000 * tick)
            for name in UPSTREAMS
            for each in ids
        }
        for name in UPSTREAMS:
            report = TrafficReport(
                upstream=name, lb="edge-1", boot="n1", seq=tick, sent_at_ms=1000 * tick, interval_s=1.0,
                ids=ids, completed=[50] * servers, failed=[0] * servers, in_flight=[1] * servers,
                latency_ms=[4.0] * servers,
            )  # fmt: skip
            values[wire.traffic_key(name, "edge-1")] = traffic_report.encode(report)
        sys.setprofile(count if tick == 8 else None)
        try:
            ended, fault = batch.advance(
                cycles, values, now_s=float(tick), term=1, issued_at_ms=1000 * tick, addresses={}
            )
        finally:
            sys.setprofile(None)
        assert fault is None
        assert not [each for each in ended if isinstance(each, Exception)]
    return counts


def test_a_tick_makes_no_call_of_python_for_each_server() -> None:
    few, many = _calls(20), _calls(40)
    assert many["call"] == few["call"]
    # It calls functions in C to look up a value, read a sample, and look at what is read.
    assert many["c_call"] - few["c_call"] <= 4 * 20 * len(UPSTREAMS)
