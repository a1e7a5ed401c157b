"""What the ns-3 study published: its table of latencies.

Pure. R. Roblak, *ns-3 Load Balancer Simulation* (github.com/rroblak/envoy-peak-ewma), README,
"Latency Results (ms)": one run of each algorithm.
"""

from types import MappingProxyType

COLUMNS = ("min_ms", "avg_ms", "p50_ms", "p75_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "stddev_ms")

PUBLISHED = MappingProxyType(
    {
        "wrr": (5.0, 9.592, 5.0, 5.0, 24.0, 50.0, 50.0, 59.0, 13.5393),
        "lr": (5.0, 8.924, 5.0, 5.0, 5.0, 50.0, 50.0, 63.0, 12.6056),
        "random": (5.0, 9.614, 5.0, 5.0, 23.0, 50.0, 50.0, 55.0, 13.5226),
        "ringhash": (5.0, 9.370, 5.0, 5.0, 13.0, 50.0, 50.0, 63.0, 13.2148),
        "maglev": (5.0, 8.713, 5.0, 5.0, 5.0, 50.0, 50.0, 60.0, 12.2602),
        "peakewma": (5.0, 5.145, 5.0, 5.0, 5.0, 5.0, 7.0, 63.0, 2.0591),
    }
)
"""Algorithm -> the nine columns, in the order of `COLUMNS`."""
