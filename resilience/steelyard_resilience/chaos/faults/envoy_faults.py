"""An Envoy that refuses what it is told (I/O)."""

import queue

import grpc
from google.protobuf.message import Message
from steelyard_controller.xds.xds_messages import EDS_TYPE, DiscoveryRequest, DiscoveryResponse

from steelyard_resilience.chaos.fault import Lasting, action
from steelyard_resilience.chaos.faults.cluster_state import leader
from steelyard_resilience.stage.hosts import UPSTREAM, XDS_PORT
from steelyard_resilience.stage.stage import Stage

STREAM = "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints"

REFUSAL = "of a fault: no such endpoints"


@action
def refuse_endpoints(*, stage: Stage) -> Lasting:
    """Be one more Envoy, which refuses (NACK) whatever endpoints the leader has."""
    leading = leader(stage)
    said: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    said.put(DiscoveryRequest(node={"id": "refusing"}, resource_names=[UPSTREAM], type_url=EDS_TYPE))
    with grpc.insecure_channel(f"{stage.addresses[leading]}:{XDS_PORT}") as channel:
        stream = channel.stream_stream(
            STREAM, DiscoveryRequest.SerializeToString, DiscoveryResponse.FromString
        )(iter(said.get, None), wait_for_ready=True)
        nonce = next(stream).nonce
        said.put(DiscoveryRequest(type_url=EDS_TYPE, response_nonce=nonce, error_detail={"message": REFUSAL}))

        def check() -> str | None:
            causes = str((stage.readiness(leading) or {}).get("degraded"))
            return None if REFUSAL in causes else f"{leading} does not say what Envoy refuses: {causes}"

        yield check
        stream.cancel()
        said.put(None)
