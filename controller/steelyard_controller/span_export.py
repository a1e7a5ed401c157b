"""Sends spans to an OTLP collector, by OpenTelemetry's SDK and as its variables say (I/O, in its thread).

Whoever ends a span puts it into the SDK's queue and goes on; what does not fit, or is not taken, is dropped.
Needs the extra `otel`.
"""

import logging
import threading
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from steelyard_controller.faults import Faults

# A collector that hangs is waited for no longer; the SDK would for half a minute.
CLOSE_S = 2.0


class SpanExport:
    """Makes the tracers of one controller, whose spans it sends; raises ValueError for a variable's value."""

    def __init__(self, *, id: str, version: str) -> None:
        # Of its own: without spans, nothing that a controller is for is degraded.
        faults = Faults()
        own = {"service.name": "steelyard-controller", "service.version": version, "service.instance.id": id}
        self.provider = TracerProvider(
            # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word.
            resource=Resource.create(own).merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
        )
        self.provider.add_span_processor(BatchSpanProcessor(_Exporter(faults)))
        # What it has said so far is about its variables.
        sdk_log = logging.getLogger("opentelemetry")
        sdk_log.propagate = False
        sdk_log.addHandler(_Noting(faults))

    def close(self) -> None:
        """Send what is left, for `CLOSE_S` at the most."""
        ending = threading.Thread(target=self.provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_S)


class _Noting(logging.Handler):
    """Notes what the SDK logs as a fault: it does so for each batch, and a fault is logged once."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(logging.WARNING)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        # A queue that is full is no matter of a batch that arrives; it is said once.
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
