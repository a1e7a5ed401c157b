"""An agent's ORCA value with the rate of requests added, which the agent cannot know. Pure.

    TEXT cpu_utilization=0.42,named_metrics.io=0.1,rps_fractional=118.5

Envoy's client_side_weighted_round_robin divides the rate by the utilization. It
refuses a report with a field that it does not know, so what is not exactly an
agent's value goes no further. (xds.data.orca.v3.OrcaLoadReport, as text.)
"""

import re

HEADER = "endpoint-load-metrics"

FIELDS = ("cpu_utilization", "mem_utilization", "named_metrics.net", "named_metrics.io")
"""Those of `steelyard_agent.orca`, whose package is not where this server is (a test compares them)."""

_PART = rf"(?:{'|'.join(map(re.escape, FIELDS))})=\d{{1,9}}(?:\.\d{{1,9}})?"
_VALUE = re.compile(rf"TEXT {_PART}(?:,{_PART})*")


def with_rate(text: str, rate_per_s: float | None) -> str | None:
    """Return the value in an agent's file with the rate added, if one is known; None if it is not one."""
    value = text.strip()
    if not _VALUE.fullmatch(value):
        return None
    return value if rate_per_s is None else f"{value},rps_fractional={rate_per_s:.3f}"
