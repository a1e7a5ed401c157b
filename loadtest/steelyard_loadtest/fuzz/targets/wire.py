"""What lies in Memcached: samples, traffic reports, weight tables, and their signatures."""

import hashlib
import hmac
from collections.abc import Callable
from math import isfinite
from typing import Any, get_args

from steelyard_agent import record, signature, wire
from steelyard_agent.wire import Reason, Refused
from steelyard_controller.pipeline import traffic, weight_table

from steelyard_loadtest.fuzz.contract import Examples, examples
from steelyard_loadtest.fuzz.model import ACCEPTED, Target, require

KNOWN = frozenset(get_args(Reason))
LONGEST_DETAIL = 1000


def targets() -> tuple[Target, ...]:
    """Return the decoders of wire version 1."""
    signed = examples("signed")
    return (
        _target("sample", "an agent's sample, in Memcached", _sample, examples("sample")),
        _target("traffic", "a load balancer's traffic report, in Memcached", _traffic, examples("traffic")),
        _target("weight-table", "a weight table, as a new leader reads it back", _table, examples("weights")),
        Target(
            name="signature",
            about="a signed value, with the key and without",
            form="text",
            seeds=signed.all,
            judge=_signed(signed),
            network=True,
        ),
    )


def _target(name: str, about: str, judge: Callable[[bytes], str], found: Examples) -> Target:
    return Target(name=name, about=about, form="json", seeds=found.all, judge=judge, network=True)


def _reason(refused: Refused) -> str:
    require(refused.reason in KNOWN, f"the reason {refused.reason!r} is none of those that are counted")
    require(len(refused.detail) < LONGEST_DETAIL, f"the detail has {len(refused.detail)} characters")
    return refused.reason


def _sample(data: bytes) -> str:
    found = record.decode(data)
    if isinstance(found, Refused):
        return _reason(found)
    require(record.decode(record.encode(found)) == found, "it is another one after encoding and decoding")
    measured = [value for value in (*found.utilization, *found.capacity) if value is not None]
    require(all(isfinite(value) and value >= 0 for value in measured), "a figure is negative or not finite")
    return ACCEPTED


def _traffic(data: bytes) -> str:
    found = traffic.decode(data)
    if isinstance(found, Refused):
        return _reason(found)
    require(all(wire.is_name(peer) for peer in found.peers), "a peer's name is none")
    for row in found.peers.values():
        figures = (row.completed, row.failed, row.in_flight, row.latency_ms or 0)
        require(all(0 <= figure <= wire.MAX_INTEGER for figure in figures), "a figure is out of bounds")
    return ACCEPTED


def _table(data: bytes) -> str:
    found = weight_table.decode(data)
    if isinstance(found, Refused):
        return _reason(found)
    again = weight_table.decode(weight_table.to_json(found))
    require(again == found, "it is another one after encoding and decoding")
    require(all(peer.weight >= 1 for peer in found.peers), "a weight is below 1")
    return ACCEPTED


def _signed(found: Examples) -> Callable[[bytes], str]:
    texts = {value[65:] for value in found.accepted}

    def judge(data: bytes) -> str:
        without = signature.read(None, data, lambda text: text)
        if not isinstance(without, Refused):
            require(without == data and not _looks_signed(data), "without a key something was stripped")
        opened: Any = signature.read(found.key, data, lambda text: text)
        if isinstance(opened, Refused):
            return _reason(opened)
        # By the standard's other interface, so that a mistake of ours is not made twice.
        expected = hmac.new(found.key, opened, hashlib.sha256).hexdigest().encode() + b"." + opened
        require(data == expected, "a value was believed whose signature is another")
        require(opened in texts, "a text was believed that nobody has signed")
        return ACCEPTED

    return judge


def _looks_signed(data: bytes) -> bool:
    return len(data) > 64 and data[64:65] == b"." and all(byte in b"0123456789abcdef" for byte in data[:64])
