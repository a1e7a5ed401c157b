"""Documents of the REST API for the tests of the command line."""

from typing import Any


def live(name: str = "server-1", **changes: Any) -> dict[str, Any]:
    """Return a peer's row of an overview."""
    return {
        "id": name,
        "address": "10.0.0.11:80",
        "weight": 267,
        "baseline": 333,
        "state": "up",
        "share": 0.267,
        "pin": None,
        "score": 0.62,
        "utilization": {"cpu": 0.42, "net": 0.02, "io": 0.0, "mem": None},
        "sample_age_s": 0.8,
        "silent": False,
        "leaving": False,
        "completed_per_tick": 812.0,
        "failed_per_tick": 0.0,
        "in_flight": 3.0,
        "waiting": 1.0,
        "open": 2.0,
        "latency_ms": 4.123,
        "why": "267: does 410 requests per busy second",
        "shadows": {"paper": 312.0},
        **changes,
    }


def unknown(name: str, **changes: Any) -> dict[str, Any]:
    """Return the row of a peer without any message."""
    nothing = dict.fromkeys(
        ("score", "utilization", "sample_age_s", "completed_per_tick", "failed_per_tick", "waiting", "open")
    )
    return live(name, **{**nothing, "silent": True, "latency_ms": None, "in_flight": 0.0, **changes})


def overview(*peers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return an overview."""
    rows = list(peers) or [
        live(),
        unknown("server-2", weight=733, share=0.733, address="[fd00::12]:80", pin=73.3),
        unknown("server-3", weight=333, share=0.0, state="drain"),
    ]
    return {
        "v": 1,
        "upstream": "web",
        "term": 3,
        "generation": 118,
        "issued_at_ms": 1790000000000,
        "law": "steelyard",
        "picker": "vnswrr2",
        "revision": 4,
        "alert": False,
        "thresholds": {"H": 0.3, "L": 0.4},
        "entropy_weights": {"cpu": 0.7, "net": 0.1, "io": 0.1, "mem": 0.1},
        "shadow_laws": ["paper"],
        "peers": rows,
        "load_balancers": {
            "edge-1": {"report_age_s": 0.4, "silent": False, "rung": "fresh", "order": [3, 118]},
            "edge-2": None,
        },
        "refused": {"now": {}, "count": {}},
        "degraded": [],
        **changes,
    }


def service(**changes: Any) -> dict[str, Any]:
    """Return a controller's own document."""
    return {
        "id": "edge-a-8081",
        "role": "leader",
        "term": 3,
        "leader": {"id": "edge-a-8081", "url": "http://10.0.0.5:8081"},
        "version": "0.1.0",
        "tick_s": 1.0,
        "state": "redis",
        "degraded": [],
        "uptime_s": 7512.0,
        **changes,
    }


def row(name: str = "web", **changes: Any) -> dict[str, Any]:
    """Return an upstream in the list."""
    return {
        "name": name,
        "law": "steelyard",
        "picker": "vnswrr2",
        "peers": 3,
        "revision": 4,
        "ready": True,
        "degraded": [],
        **changes,
    }
