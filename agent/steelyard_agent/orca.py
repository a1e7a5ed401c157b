"""The sample as an ORCA endpoint-load-metrics value, which proxies and gRPC clients balance by. Pure.

    TEXT cpu_utilization=0.42,mem_utilization=0.31,named_metrics.net=0.02,named_metrics.io=0.1

(xds.data.orca.v3.OrcaLoadReport, in the text form of an HTTP header.) The
report has fields for CPU and memory; net and io are named metrics, because a
reader that does not know a field refuses the whole value, and all know those.
What was not measured is left out, where a reader takes it for "not reported".
"""

from steelyard_agent.record import INDICATORS, SampleRecord

HEADER = "endpoint-load-metrics"

FIELDS = {
    "cpu": "cpu_utilization",
    "mem": "mem_utilization",
    "net": "named_metrics.net",
    "io": "named_metrics.io",
}


def value(record: SampleRecord) -> str | None:
    """Return the header's value; None when nothing was measured, as an empty one is refused."""
    measured = dict(zip(INDICATORS, record.utilization, strict=True))
    values = ((field, measured[name]) for name, field in FIELDS.items())
    parts = [f"{field}={_plain(number)}" for field, number in values if number is not None]
    return f"TEXT {','.join(parts)}" if parts else None


def _plain(number: float) -> str:
    # Without an exponent, which not every parser reads.
    return f"{number:.6f}".rstrip("0").rstrip(".")
