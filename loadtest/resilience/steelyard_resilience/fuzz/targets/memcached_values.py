"""Values in Memcached: samples, reports, weight tables, the list of upstreams, and their signatures."""

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from math import isfinite
from typing import Any, cast, get_args

from steelyard_loadtest.machine.errors import SetupError
from steelyard_protocol import (
    sample_reader,
    sample_record,
    signature,
    table_chunks,
    traffic_report,
    upstream_list,
    weight_table,
    wire,
)
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.table_chunks import Manifest
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import Reason, Refused

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz.target import ACCEPTED, Target, judge_of, require, requiring

KNOWN = frozenset(get_args(Reason))
LONGEST_DETAIL = 1000


def contract(name: str) -> dict[str, Any]:
    """Return a format's file of docs/contract; raise SetupError without a checkout."""
    try:
        read: dict[str, Any] = json.loads((CHECKOUT / "docs" / "contract" / f"{name}.json").read_bytes())
    except OSError as error:
        raise SetupError(f"fuzzing needs a checkout of Steelyard: {error}") from None
    return read


def examples(name: str) -> list[bytes]:
    """Return the short examples of a format, the accepted ones first."""
    document = contract(name)
    texts = map(_text, (*document["accepted"], *document["refused"]))
    return [text for text in texts if len(text) < 8192]


def _text(example: dict[str, object]) -> bytes:
    if "manifest" in example:
        return "\n".join([str(example["manifest"]), *cast("list[str]", example["chunks"])]).encode()
    # An accepted example may be an object, and a signed one a value.
    value = next(example[given] for given in ("value", "head", "text") if given in example)
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def targets() -> tuple[Target, ...]:
    """Return the decoders of wire version 1."""
    sample = judge_of(
        sample_reader.decode,
        encode=sample_record.encode,
        reason=_reason,
        check=requiring(_is_measured, "a figure is negative or not finite"),
    )
    traffic = judge_of(traffic_report.decode, reason=_reason, check=_check_traffic)
    weighed = requiring(lambda read: all(peer.weight >= 1 for peer in read.peers), "a weight is below 1")
    table = judge_of(weight_table.decode, encode=weight_table.to_json, reason=_reason, check=weighed)
    joined = judge_of(_joined, encode=_in_chunks, reason=_reason, check=weighed)
    ordered = requiring(
        lambda read: all(map(wire.is_name, read.names)) and [*read.names] == sorted({*read.names}),
        "an upstream's name is invalid, or the names are not in order",
    )
    listed = judge_of(upstream_list.decode, encode=upstream_list.encode, reason=_reason, check=ordered)
    return (
        Target("sample", "an agent's sample, in Memcached", sample, examples("sample")),
        Target("traffic", "a load balancer's traffic report, in Memcached", traffic, examples("traffic")),
        Target("weight-table", "a weight table, as a new leader reads it back", table, examples("weights")),
        Target("table-chunks", "a manifest and its chunks, a line each", joined, examples("chunks")),
        Target(
            "upstream-list",
            "the list of upstreams, as a new leader reads it back",
            listed,
            examples("upstreams"),
        ),
        Target("signature", "a signed value, with the key and without", _signed(), examples("signed")),
    )


def _reason(decoded: object) -> str | None:
    if not isinstance(decoded, Refused):
        return None
    require(decoded.reason in KNOWN, f"{decoded.reason!r} is not among the counted reasons")
    require(len(decoded.detail) < LONGEST_DETAIL, f"the detail has {len(decoded.detail)} characters")
    return decoded.reason


def _is_measured(sample: SampleRecord) -> bool:
    figures = (*sample.utilization, *sample.capacity, *(value for _, value in sample.further))
    return all(isfinite(value) and value >= 0 for value in figures if value is not None)


def _check_traffic(report: TrafficReport) -> None:
    require(all(wire.is_name(peer) for peer in report.ids), "a peer's name is invalid")
    loads = [load for _, load in report.loads.values()]
    counts = (report.completed, report.failed, report.in_flight)
    columns = (*counts, report.latency_ms, report.latency_p50_ms)
    utilizations = [[load.utilization or 0, load.mem_utilization or 0] for load in loads]
    metrics = [name for load in loads for name in load.named_metrics]
    require(all(len(column) == len(report.ids) for column in columns), "a column is too short")
    require(all(map(wire.is_name, metrics)), "a metric's name is invalid")
    for column in (*columns, *utilizations):
        require(all(0 <= (each or 0) <= wire.MAX_INTEGER for each in column), "a figure is out of bounds")


def _joined(data: bytes) -> WeightTable | Refused:
    first, *texts = data.split(b"\n")
    manifest = table_chunks.decode(first)
    return table_chunks.join(manifest, texts) if isinstance(manifest, Manifest) else manifest


def _in_chunks(table: WeightTable) -> bytes:
    if table.digest is None:
        return weight_table.to_json(table)
    texts = table_chunks.split(table)
    return b"\n".join([table_chunks.encode_manifest(table, [*map(table_chunks.name_of, texts)]), *texts])


def _signed() -> Callable[[bytes], str]:
    document = contract("signed")
    key, texts = document["key"].encode(), {_text(each)[65:] for each in document["accepted"]}

    def judge(data: bytes) -> str:
        without = signature.read(None, data, lambda text: text)
        if not isinstance(without, Refused):
            looks_signed = re.match(rb"[0-9a-f]{64}\.", data)
            require(without == data and not looks_signed, "a reader without a key removed a part")
        opened: Any = signature.read(key, data, lambda text: text)
        refused = _reason(opened)
        if refused:
            return refused
        # hmac's other interface computes it, so that our own mistake would not repeat.
        expected = hmac.new(key, opened, hashlib.sha256).hexdigest().encode() + b"." + opened
        require(data == expected, "a value with a wrong signature was accepted")
        require(opened in texts, "a text without a signature of ours was accepted")
        return ACCEPTED

    return judge
