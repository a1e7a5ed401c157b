"""ORCA load reports: a server's load in the terms that gRPC and Envoy balance by. Pure.

A load report is a mapping of fields, named as in the text form of an HTTP header:

    endpoint-load-metrics: TEXT cpu_utilization=0.42,mem_utilization=0.31,named_metrics.net=0.02

(xds.data.orca.v3.OrcaLoadReport of github.com/cncf/xds.) It has fields for CPU and
memory. All other indicators are named metrics: a reader of text refuses the whole
value for an unknown field, and all readers know named metrics.

An agent cannot measure some figures, the rate of requests first. An application can
add them in its own load report; a measured figure overrides a reported one.
"""

import re
from collections.abc import Mapping
from math import isfinite

from steelyard_protocol.sample_record import INDICATORS, SampleRecord

HEADER = "endpoint-load-metrics"

UTILIZATIONS = ("cpu_utilization", "mem_utilization", "application_utilization")
RATES = ("rps_fractional", "eps")
NAMED_METRICS_PREFIX = "named_metrics."

FIELDS = {
    "cpu": "cpu_utilization",
    "mem": "mem_utilization",
    "net": "named_metrics.net",
    "io": "named_metrics.io",
}

LONGEST_BYTES = 2048
"""Bytes read of an application's load report: it goes on into headers, for which nginx has 4096."""

# As openresty/steelyard/lib/steelyard/core/orca.lua has them.
MAX_UTILIZATION = 64.0
MAX_VALUE = 1e15

_NAMED = re.compile(r"named_metrics\.[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?")

LoadReport = Mapping[str, float]


def measured(record: SampleRecord) -> dict[str, float]:
    """Return the load report of a sample, without the figures that could not be measured."""
    values = dict(zip(INDICATORS, record.utilization, strict=True))
    fields = [(field, values[name]) for name, field in FIELDS.items()]
    fields += [(f"{NAMED_METRICS_PREFIX}{name}", value) for name, value in record.further]
    return {field: value for field, value in fields if value is not None}


def utilizations(record: SampleRecord) -> dict[str, float]:
    """Return the indicators without a field of their own, by name; within 0..1, as in ORCA's map."""
    ours = measured(record)
    return {
        field.removeprefix(NAMED_METRICS_PREFIX): min(ours[field], 1.0)
        for field in ours
        if field.startswith(NAMED_METRICS_PREFIX)
    }


def joined(record: SampleRecord, application: LoadReport) -> dict[str, float]:
    """Return the joint load report of a sample and of the application; empty if both are."""
    ours = measured(record)
    return {**ours, **{field: value for field, value in application.items() if field not in ours}}


def text(report: LoadReport) -> str | None:
    """Return the value of a header; None for an empty load report, as an empty value is refused."""
    parts = [f"{field}={_plain(number)}" for field, number in report.items()]
    return f"TEXT {','.join(parts)}" if parts else None


def parse(value: str) -> dict[str, float]:
    """Return the load report in the text form of a header; raise `ValueError` with the mistake."""
    form, _, rest = value.strip().partition(" ")
    if form != "TEXT":
        raise ValueError('it does not begin with "TEXT "')
    report: dict[str, float] = {}
    for part in rest.split(","):
        field, _, number = (word.strip() for word in part.partition("="))
        if field not in (*UTILIZATIONS, *RATES) and not _NAMED.fullmatch(field):
            known = ", ".join((*UTILIZATIONS, *RATES))
            raise ValueError(f"{field[:80]!r} is no field: there are {known} and named_metrics.NAME")
        if field in report:
            raise ValueError(f"{field} is there twice")
        most = MAX_UTILIZATION if field in UTILIZATIONS else MAX_VALUE
        figure = float(number) if _NUMBER.fullmatch(number) else -1.0
        if not (isfinite(figure) and 0 <= figure <= most):
            raise ValueError(f"{field} is {number[:40]!r}: give a number within 0..{most:g}")
        report[field] = figure
    return report


def _plain(number: float) -> str:
    # Without an exponent, which not every parser reads.
    return f"{number:.6f}".rstrip("0").rstrip(".")
