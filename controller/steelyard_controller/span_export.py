"""Sends spans to an OTLP collector, by OpenTelemetry's SDK and its variables (I/O, in the SDK's thread).

A finished span goes into the SDK's queue. Spans that do not fit there, or that the collector refuses, are
dropped. Needs the extra `otel`.
"""

import logging
import threading
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from steelyard_controller.faults import Faults

# The longest wait for a collector that hangs; the SDK would wait for half a minute.
CLOSE_S = 2.0


class SpanExport:
    """Makes the tracers of one controller and sends their spans; raises ValueError for a bad variable."""

    def __init__(self, *, id: str, version: str) -> None:
        # These faults are separate, because a controller without spans is not degraded.
        faults = Faults()
        own = {"service.name": "steelyard-controller", "service.version": version, "service.instance.id": id}
        self.provider = TracerProvider(
            # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
            resource=Resource.create(own).merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
        )
        self.provider.add_span_processor(BatchSpanProcessor(_Exporter(faults)))
        # Until here, the SDK's messages are about its variables, and go to the log.
        sdk_log = logging.getLogger("opentelemetry")
        sdk_log.propagate = False
        sdk_log.addHandler(_Noting(faults))

    def close(self) -> None:
        """Send the remaining spans, within `CLOSE_S`."""
        ending = threading.Thread(target=self.provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_S)


class _Noting(logging.Handler):
    """Notes the SDK's log messages as faults: the SDK logs each batch, a fault is logged once."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(logging.WARNING)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        # A full queue is a fault of its own, which a delivered batch does not end.
        part = "spans" if record.name.startswith("opentelemetry.exporter") else record.name
        self._faults.note(part, f"{record.getMessage().rstrip('.')}; spans that are not taken are dropped")


class _Exporter(OTLPSpanExporter):
    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        if result is SpanExportResult.SUCCESS:
            self._faults.note("spans", None)
        return result
