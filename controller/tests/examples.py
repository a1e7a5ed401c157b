"""Messages for the tests, as agents and load balancers write them, and a tick that reads them."""

import json
from collections.abc import Mapping
from typing import Any

from steelyard_controller.messages.inbox import RefusalChange
from steelyard_controller.tick import batch
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome
from steelyard_protocol import sample_record
from steelyard_protocol.sample_record import SampleRecord


def sample(
    peer: str = "a", *, seq: int = 1, boot: str = "b1", cpu: float | None = 0.5, **changes: Any
) -> bytes:
    """Return a sample of upstream `web`."""
    fields: dict[str, Any] = {
        "upstream": "web",
        "peer": peer,
        "boot": boot,
        "seq": seq,
        "taken_at_ms": 0,
        "interval_s": 1.0,
        "utilization": (cpu, 0.1, 0.0, 0.3),
        "capacity": (2.0, 1.0, 1.0, 1.0),
        "scope": "host",
    }
    return sample_record.encode(SampleRecord(**{**fields, **changes}))


def report(
    lb: str = "edge-1",
    *,
    seq: int = 1,
    boot: str = "n1",
    sent_at_ms: int = 0,
    interval_s: float = 1.0,
    zone: str | None = None,
    **peers: tuple[Any, ...],
) -> bytes:
    """Return a traffic report of upstream `web`: completed, failed, in flight and latency in ms, by peer.

    The latency is the mean. A fifth figure is the median, a sixth the load reported by the peer itself.
    """
    names = ("completed", "failed", "in_flight", "latency_ms", "latency_p50_ms")
    rows = [(*row, None) if len(row) == 4 else row for row in peers.values()]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return json.dumps(
        {
            "v": 1,
            "upstream": "web",
            "lb": lb,
            "boot": boot,
            "seq": seq,
            "sent_at_ms": sent_at_ms,
            "interval_s": interval_s,
            **({} if zone is None else {"zone": zone}),
            "ids": list(peers),
            **columns,
            "loads": {peer: row[5] for peer, row in peers.items() if len(row) == 6},
        }
    ).encode()


def advance(
    cycle: Cycle,
    values: Mapping[str, bytes] | None,
    *,
    now_s: float,
    term: int,
    issued_at_ms: int,
    addresses: Mapping[str, str],
) -> tuple[Outcome, list[RefusalChange]]:
    """Do one tick of an upstream alone; return its outcome and log lines, or raise its error."""
    (ended,), _ = batch.advance(
        [cycle], values, now_s=now_s, term=term, issued_at_ms=issued_at_ms, addresses={cycle.name: addresses}
    )
    if isinstance(ended, Exception):
        raise ended
    return ended
