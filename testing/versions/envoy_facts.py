"""Facts about one Envoy on which the guides rely, seen on that Envoy without a controller.

Each entry of FACTS is a function of an Envoy's path and a folder. It returns the rows of the page's table.
"""

import base64
import contextlib
import json
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
from steelyard_controller.xds.xds_messages import EDS_TYPE, LoadStatsRequest, LoadStatsResponse

from testing.daemons import free_port
from testing.versions.envoy_rig import HOSTS, TYPES, Edge, Servers, at, envoy, servers
from testing.waiting import wait_until

# A change of weights this long before a drain keeps Envoy's window of a second open.
CHANGE_BEFORE_DRAIN_S = 0.1
WATCHED_S = 1.6

LONG_REQUESTS = 8
LRS_WINDOWS = 5


def _endpoints(port: int, weights: tuple[int, int], health: tuple[str, str] = ("UNKNOWN", "UNKNOWN")) -> Any:  # noqa: ANN401
    return [
        {
            "lb_endpoints": [
                {
                    "endpoint": {"address": at(host, port)},
                    "health_status": state,
                    "load_balancing_weight": weight,
                }
                for host, weight, state in zip(HOSTS, weights, health, strict=True)
            ]
        }
    ]


def _static(name: str, port: int, **more: Any) -> Any:  # noqa: ANN401
    assignment = {"cluster_name": name, "endpoints": _endpoints(port, (1, 1))}
    return {"name": name, "connect_timeout": "1s", "load_assignment": assignment, **more}


def _drained_ms(program: str, folder: Path, window: str | None) -> tuple[int, int]:
    """Return the requests that a drained server gets, and until when, if its weight has just changed."""
    file = folder / "endpoints.json"

    def write(weights: tuple[int, int], health: tuple[str, str] = ("UNKNOWN", "UNKNOWN")) -> None:
        resource = {
            "@type": EDS_TYPE,
            "cluster_name": "web",
            "endpoints": _endpoints(web.port, weights, health),
        }
        new = folder / "new.json"
        new.write_text(json.dumps({"resources": [resource]}))
        new.rename(file)

    with servers() as web:
        write((10, 10))
        source = {"resource_api_version": "V3", "path_config_source": {"path": str(file)}}
        cluster: Any = {"name": "web", "type": "EDS", "eds_cluster_config": {"eds_config": source}}
        if window is not None:
            cluster["common_lb_config"] = {"update_merge_window": window}
        with envoy(program, folder, [cluster]) as edge:
            wait_until(lambda: len(edge.hosts("web")) == len(HOSTS))
            connection = edge.connect()
            for _ in range(20):
                edge.get(connection)
            # Later than any window of Envoy's own start.
            time.sleep(1.5)
            write((10, 11))
            time.sleep(CHANGE_BEFORE_DRAIN_S)
            write((10, 11), ("DRAINING", "UNKNOWN"))
            wait_until(lambda: edge.hosts("web")[0]["health_status"]["eds_health_status"] == "DRAINING")
            begun_s, count, last_s = time.monotonic(), 0, 0.0
            while (now_s := time.monotonic() - begun_s) < WATCHED_S:
                if edge.get(connection) == "0":
                    count, last_s = count + 1, now_s
                time.sleep(0.005)
            connection.close()
    return count, round(1000 * last_s)


def _drain(program: str, folder: Path) -> dict[str, str]:
    seen = {
        "": _drained_ms(program, folder, None),
        ", with `update_merge_window: 0s`": _drained_ms(program, folder, "0s"),
    }
    return {name: f"{count}, until {ms} ms" if count else "0" for name, (count, ms) in seen.items()}


def _lrs(program: str, folder: Path) -> dict[str, str]:
    """Let 8 requests wait for five reports, then end; one report later, send 4 more."""
    with _reporting(program, folder) as (edge, web, messages):
        web.held.clear()
        clients = [threading.Thread(target=lambda: edge.get(edge.connect())) for _ in range(LONG_REQUESTS)]
        for client in clients:
            client.start()
        wait_until(lambda: web.waiting.total() == LONG_REQUESTS)
        reports = [messages.get(timeout=30) for _ in range(LRS_WINDOWS)]
        seen = [_total(each, "total_requests_in_progress") for each in reports]
        web.held.set()
        for client in clients:
            client.join()
        reports += [messages.get(timeout=30) for _ in range(2)]
        ended = sum(_total(each, "total_successful_requests") for each in reports)
        connection = edge.connect()
        for _ in HOSTS * 2:
            edge.get(connection)
        reports = [messages.get(timeout=30) for _ in range(2)]
    after = sum(_total(each, "total_successful_requests") for each in reports)
    return {
        "open requests in its five reports": " ".join(map(str, seen)),
        "completed ones in the reports at their end": str(ended),
        "completed ones after 4 short requests more": str(after),
    }


@contextlib.contextmanager
def _reporting(program: str, folder: Path) -> Iterator[tuple[Edge, Servers, SimpleQueue[bytes]]]:
    """Run servers, and an Envoy whose LRS reports arrive in the queue."""
    messages: SimpleQueue[bytes] = SimpleQueue()

    def handle(requests: Iterator[bytes], _: object) -> Iterator[bytes]:
        next(requests)
        response = LoadStatsResponse(send_all_clusters=True, report_endpoint_granularity=True)
        response.load_reporting_interval.FromMilliseconds(1000)
        yield response.SerializeToString()
        for request in requests:
            messages.put(request)

    service, port = grpc.server(futures.ThreadPoolExecutor(4)), free_port()
    method = {"StreamLoadStats": grpc.stream_stream_rpc_method_handler(handle)}
    name = "envoy.service.load_stats.v3.LoadReportingService"
    service.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, method),))
    service.add_insecure_port(f"127.0.0.1:{port}")
    service.start()
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    http2: dict[str, Any] = {"explicit_http_config": {"http2_protocol_options": {}}}
    reports = {
        "name": "reports",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": "reports",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": at("127.0.0.1", port)}}]}],
        },
        "typed_extension_protocol_options": {options: {"@type": f"type.googleapis.com/{options}", **http2}},
    }
    grpc_services = [{"envoy_grpc": {"cluster_name": "reports"}}]
    lrs = {"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": grpc_services}
    manager = {"load_stats_config": lrs}
    try:
        with (
            servers() as web,
            envoy(program, folder, [_static("web", web.port)], [reports], cluster_manager=manager) as edge,
        ):
            messages.get(timeout=30)
            yield edge, web, messages
    finally:
        service.stop(0)


def _total(message: bytes, field: str) -> int:
    return sum(
        getattr(endpoint, field)
        for cluster in LoadStatsRequest.FromString(message).cluster_stats
        if cluster.cluster_name == "web"
        for locality in cluster.upstream_locality_stats
        for endpoint in locality.upstream_endpoint_stats
    )


def _out_of_band(program: str, folder: Path) -> dict[str, str]:
    """Ask Envoy whether it accepts agent/examples/envoy.yaml with its lines for out-of-band reports."""
    text = (Path(__file__).parents[2] / "agent" / "examples" / "envoy.yaml").read_text(encoding="utf-8")
    for name in ("enable_oob_load_report", "oob_reporting_period", "oob_reporting_config"):
        text = text.replace(f"# {name}", name)
    path = folder / "oob.yaml"
    path.write_text(text)
    command = [program, "-c", str(path), "--mode", "validate", "--log-level", "error"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or "oob_" in said or "enable_oob" in said, said
    return {"": "no" if done.returncode else "yes"}


# A report with a field of two bytes: its length is no multiple of three, so base64 pads it.
def _binary(cpu: float) -> str:
    message = b"\x09" + struct.pack("<d", cpu) + b"\x31" + struct.pack("<d", 100) + b"\x18\x01"
    return base64.b64encode(message).decode()


# Two servers' reports, and the policy's settings.
ORCA: dict[str, tuple[tuple[str, str], dict[str, Any]]] = {
    "base64, padded": ((f"BIN {_binary(0.2)}", f"BIN {_binary(0.8)}"), {}),
    "base64, not padded": ((f"BIN {_binary(0.2).rstrip('=')}", f"BIN {_binary(0.8).rstrip('=')}"), {}),
    "`utilization.x` in TEXT": (
        ("TEXT rps_fractional=100,utilization.x=0.2", "TEXT rps_fractional=100,utilization.x=0.8"),
        {"metric_names_for_computing_utilization": ["utilization.x"]},
    ),
    "application_utilization .8 and .2, named metric .2 and .8": (
        (
            "TEXT rps_fractional=100,application_utilization=0.8,named_metrics.x=0.2",
            "TEXT rps_fractional=100,application_utilization=0.2,named_metrics.x=0.8",
        ),
        {"metric_names_for_computing_utilization": ["named_metrics.x"]},
    ),
    "equal, the second one with errors": (
        ("TEXT rps_fractional=100,cpu_utilization=0.2", "TEXT rps_fractional=100,cpu_utilization=0.2,eps=60"),
        {},
    ),
    "the same, `error_utilization_penalty: 1`": (
        ("TEXT rps_fractional=100,cpu_utilization=0.2", "TEXT rps_fractional=100,cpu_utilization=0.2,eps=60"),
        {"error_utilization_penalty": 1},
    ),
}


def _orca(program: str, folder: Path) -> dict[str, str]:

    def headers(path: str, number: int) -> Mapping[str, str]:
        return {"endpoint-load-metrics": reports[int(path.split("/")[1].removeprefix("case-"))][number]}

    reports = [values for values, _ in ORCA.values()]
    policy = "client_side_weighted_round_robin"
    kind = f"{TYPES}load_balancing_policies.{policy}.v3.ClientSideWeightedRoundRobin"
    with servers(headers) as web:
        clusters = [
            _static(
                f"case-{number}",
                web.port,
                load_balancing_policy={
                    "policies": [
                        {
                            "typed_extension_config": {
                                "name": f"envoy.load_balancing_policies.{policy}",
                                "typed_config": {
                                    "@type": kind,
                                    "blackout_period": "0.1s",
                                    "weight_update_period": "0.2s",
                                    **more,
                                },
                            }
                        }
                    ]
                },
            )
            for number, (_, more) in enumerate(ORCA.values())
        ]
        with envoy(program, folder, clusters) as edge:
            connection = edge.connect()
            for _ in range(6):
                for cluster in clusters:
                    for _ in range(6):
                        edge.get(connection, f"/{cluster['name']}/")
                time.sleep(0.3)
            connection.close()
            weights = [[host["weight"] for host in edge.hosts(each["name"])] for each in clusters]
    return {name: f"{first} : {second}" for name, (first, second) in zip(ORCA, weights, strict=True)}


OUT_OF_BAND = "out-of-band ORCA is accepted"

FACTS: Mapping[str, Callable[[str, Path], dict[str, str]]] = {
    "requests to a server after Envoy knows that it is drained": _drain,
    "8 long requests: ": _lrs,
    OUT_OF_BAND: _out_of_band,
    "ORCA, weights of two servers: ": _orca,
}
