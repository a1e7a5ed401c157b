"""Values that somebody who can write to Memcached might put there. Pure.

A table that would steer names servers that are not there: if it were believed, requests would fail.
"""

import json

from steelyard_protocol import signature

NOWHERE = "192.0.2.{}:80"
"""Addresses that RFC 5737 reserves for documents: nobody answers there."""

WRONG_KEY = b"not the key of this cluster at all"

MEGABYTE = 1_000_000
"""Memcached's item size is 1 MiB with the item's head."""

HUGE = 10_000
"""Servers: what a table of 1 MB holds, and the design's limit."""

AHEAD = 1000
"""Generations: later than whatever nginx serves by then."""

EARLIER_RUN = "0e0e0e0e"
"""A boot is eight random hex digits."""

HOUR_MS = 3_600_000


def text_of(value: bytes) -> bytes:
    """Return the text of a signed value."""
    return value.partition(b".")[2]


def steering(text: bytes) -> bytes:
    """Return a table like this one, but later than it, whose servers are nowhere."""
    table = json.loads(text)
    table["generation"] += AHEAD
    for number, peer in enumerate(table["peers"], start=1):
        peer["address"] = NOWHERE.format(number)
    return _text(table)


def with_many_peers(text: bytes) -> bytes:
    """Return a table like this one, but later, with 10,000 servers: these, and others that are nowhere."""
    table = json.loads(text)
    table["generation"] += AHEAD
    for number in range(HUGE - len(table["peers"])):
        row = {"id": f"x{number}", "address": NOWHERE.format(1), "weight": 1, "baseline": 1, "state": "up"}
        table["peers"].append(row)
    return _text(table)


def signed_by_another(text: bytes) -> bytes:
    """Return a value that is signed with a key which is not the cluster's."""
    return signature.sign(WRONG_KEY, text)


def run_of(value: bytes) -> str:
    """Return which run of its sender wrote a signed sample or report."""
    boot: str = json.loads(text_of(value))["boot"]
    return boot


def of_an_hour_ago(text: bytes) -> bytes:
    """Return a report as an earlier run of its sender wrote it an hour ago."""
    report = json.loads(text)
    report["boot"], report["seq"] = EARLIER_RUN, report["seq"] + 1000
    report["sent_at_ms"] -= HOUR_MS
    return _text(report)


def _text(table: object) -> bytes:
    return json.dumps(table, separators=(",", ":")).encode()
