"""Values that an attacker with access to Memcached might write. Pure.

A steering table names servers that do not exist: if nginx accepted it, requests would fail.
"""

import json

from steelyard_protocol import signature

NOWHERE = "192.0.2.{}:80"
"""Addresses reserved for documents (RFC 5737): no host answers there."""

WRONG_KEY = b"not the key of this cluster at all"

MEGABYTE = 1_000_000
"""Bytes; Memcached's largest item is 1 MiB with its head."""

HUGE = 10_000
"""Servers: a table of 1 MB holds as many, and the design's limit is the same."""

AHEAD = 1000
"""Generations: far later than nginx's table at that time."""

EARLIER_RUN = "0e0e0e0e"
"""A boot is eight random hex digits."""

HOUR_MS = 3_600_000


def text_of(value: bytes) -> bytes:
    """Return the text of a signed value."""
    return value.partition(b".")[2]


def steering(text: bytes) -> bytes:
    """Return a later table like this one, with servers that do not exist."""
    table = json.loads(text)
    table["generation"] += AHEAD
    for number, peer in enumerate(table["peers"], start=1):
        peer["address"] = NOWHERE.format(number)
    return _text(table)


def with_many_peers(text: bytes) -> bytes:
    """Return a later table like this one, with 10,000 servers: these, and others that do not exist."""
    table = json.loads(text)
    table["generation"] += AHEAD
    for number in range(HUGE - len(table["peers"])):
        row = {"id": f"x{number}", "address": NOWHERE.format(1), "weight": 1, "baseline": 1, "state": "up"}
        table["peers"].append(row)
    return _text(table)


def signed_by_another(text: bytes) -> bytes:
    """Return a value signed with another key than the cluster's."""
    return signature.sign(WRONG_KEY, text)


def run_of(value: bytes) -> str:
    """Return the boot id of a signed sample or report: the run of its sender."""
    boot: str = json.loads(text_of(value))["boot"]
    return boot


def of_an_hour_ago(text: bytes) -> bytes:
    """Return a report of an earlier run of its sender, from an hour ago."""
    report = json.loads(text)
    report["boot"], report["seq"] = EARLIER_RUN, report["seq"] + 1000
    report["sent_at_ms"] -= HOUR_MS
    return _text(report)


def _text(table: object) -> bytes:
    return json.dumps(table, separators=(",", ":")).encode()
