"""A comparison of Python's and Lua's readings of a weight table. Pure.

Both read values in Memcached, and must accept and refuse the same ones. `known` explains a harmless
difference. It proves the explanation: it repairs what Python alone refuses, and compares again.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from steelyard_protocol import peer_address, weight_table
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import Refused

# Beyond this depth one of them gives up first: Python's parser by its stack, lua-cjson at 1000.
DEEP = 900

STRICTER = "1.0, 1. or 1e2 for a whole number, a duplicate member, or a long number or no UTF-8 unused"
"""The inputs that Python alone refuses. Both use the last of duplicate members."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")


def python_reading(data: bytes) -> tuple[str, dict[str, Any] | None]:
    """Return Python's outcome and reading, in the form of the Lua specs' fuzz_targets.lua."""
    table = weight_table.decode(data)
    return (table.reason, None) if isinstance(table, Refused) else ("accepted", _as_lua_shows_it(table))


def difference(data: bytes, lua: Mapping[str, Any]) -> str | None:
    """Return the difference of the two on an input; None if they agree or only give different reasons."""
    outcome, value = python_reading(data)
    if "accepted" not in (outcome, lua["outcome"]):
        return None
    if outcome != lua["outcome"]:
        return f"Python: {outcome}, Lua: {lua['outcome']}"
    if value != _tidy(lua["value"]):
        return f"both accept it, and read it differently: {value} and {_tidy(lua['value'])}"
    return None


def known(data: bytes, lua: Mapping[str, Any]) -> str | None:
    """Return the name of a harmless difference; None for an unknown one."""
    if _depth(data) > DEEP:
        return f"nested more than {DEEP} deep"
    return STRICTER if difference(_mended(data), lua) is None else None


def _mended(data: bytes) -> bytes:
    """Return a text repaired for Python, by the list of STRICTER."""
    text = _whole(re.sub(rb"[0-9]{4300,}", b"1", data).decode("utf-8", "replace"))
    try:
        return json.dumps(json.loads(text)).encode()
    except (ValueError, RecursionError):
        return text.encode()


def _whole(text: str) -> str:
    """Write 1.0, 1. and 1e2 outside strings as whole numbers: lua-cjson does not distinguish them."""
    parts, end = list[str](), 0
    for string in _STRING.finditer(text):
        parts += [_NUMBER.sub(_as_whole, text[end : string.start()]), string[0]]
        end = string.end()
    return "".join([*parts, _NUMBER.sub(_as_whole, text[end:])])


def _as_whole(number: re.Match[str]) -> str:
    text = number[0].replace(".e", "e").replace(".E", "e")
    value = float(text)
    return str(int(value)) if abs(value) <= 2**53 and value == int(value) else text


def _depth(data: bytes) -> int:
    deepest = depth = 0
    for byte in data:
        depth += (byte in b"[{") - (byte in b"]}")
        deepest = max(deepest, depth)
    return deepest


def _as_lua_shows_it(table: WeightTable) -> dict[str, Any]:
    peers = sorted(table.peers, key=lambda peer: peer.id)
    check = table.check and dict(table.check)
    if check and check["statuses"] is None and check["grpc_service"] is None:
        check["statuses"] = range(200, 400)
    return _tidy(
        {
            "upstream": table.upstream, "term": table.term, "generation": table.generation,
            "law": table.law, "issued_at_ms": table.issued_at_ms, "picker": table.picker,
            "hash_key": table.hash_key, "max_conns": table.max_conns, "check": check,
            "peers": [[peer.id, peer.address, peer.weight, peer.baseline, peer.state] for peer in peers],
        }
    )  # fmt: skip


def _tidy(shown: Mapping[str, Any]) -> dict[str, Any]:
    # Lua omits absent members, and writes numbers with 14 digits.
    return {key: _tidy_value(key, value) for key, value in shown.items() if value is not None}


def _tidy_value(key: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if key == "check":
        return _tidy(value)
    if key == "peers":  # Lua writes an address like nginx, Python keeps its text
        return [[name, peer_address.join(*peer_address.split(at)), *others] for name, at, *others in value]
    if key == "statuses":  # in Lua's form: `200-399, 404`
        ranges = [part.split("-") for part in value.split(", ")] if isinstance(value, str) else []
        words = [range(int(ends[0]), int(ends[-1]) + 1) for ends in ranges]
        return sorted({status for word in words or [value] for status in word})
    return float(f"{value:.14g}") if isinstance(value, int | float) else value
