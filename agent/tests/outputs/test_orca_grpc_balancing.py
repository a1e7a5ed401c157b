"""gRPC's weighted_round_robin fed by agents' streams through nginx (docs/reference/agent.md)."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest
from steelyard_agent.outputs.metrics import Status
from steelyard_agent.outputs.orca_grpc_server import OrcaGrpcServer
from steelyard_protocol.sample_record import SampleRecord

from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[3] / "docs/reference/agent.md").read_text(encoding="utf-8")


def fenced(language: str, holding: str) -> str:
    """Return the page's only example with this text."""
    (block,) = [block for block in re.findall(rf"```{language}\n(.*?)```", PAGE, re.S) if holding in block]
    return str(block)


def status(cpu: float) -> Status:
    record = SampleRecord(
        upstream="web",
        peer="server-1",
        boot="b1",
        seq=1,
        taken_at_ms=0,
        interval_s=1.0,
        utilization=(cpu, None, None, None),
        capacity=(None, None, None, None),
        scope="host",
    )
    return Status(
        at_s=0.0,
        stale_s=1e12,
        record=record,
        delivered=1,
        dropped=0,
        reachable={},
        application={"rps_fractional": 100.0},
    )


@contextmanager
def grpc_server(name: str) -> Iterator[int]:
    """Serve calls that are answered with a name; yield the port."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(lambda _request, _context: name.encode())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Orders", {"Call": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait()


def test_a_grpc_client_prefers_the_server_whose_agent_says_it_is_less_loaded(tmp_path: Path) -> None:
    fronts, servers = [], []
    with ExitStack() as stack:
        for name, cpu in (("busy", 0.8), ("idle", 0.1)):
            agent = OrcaGrpcServer(("127.0.0.1", 0), interval_s=0.5)
            stack.callback(agent.close)
            agent.show(status(cpu))
            port, front = stack.enter_context(grpc_server(name)), free_port()
            fronts.append(front)
            example = fenced("nginx", "OpenRcaService")
            for old, new in (
                ("50051", f"127.0.0.1:{front}"),
                ("9812", str(agent.port)),
                ("50052", str(port)),
            ):
                assert old in example
                example = example.replace(old, new)
            servers.append(example)
        config = tmp_path / "nginx.conf"
        config.write_text(
            f"pid {tmp_path}/nginx.pid; error_log {tmp_path}/error.log; daemon off; master_process off;\n"
            f"events {{}}\nhttp {{ access_log off; client_body_temp_path {tmp_path}/b;\n"
            f"{''.join(servers)}}}\n"
        )
        nginx = Daemon(["nginx", "-p", str(tmp_path), "-c", str(config)], fronts[0], tmp_path / "log")
        nginx.start()
        stack.callback(nginx.kill)
        target = "ipv4:" + ",".join(f"127.0.0.1:{front}" for front in fronts)
        # By default a weight counts after ten seconds of reports.
        service = fenced("json", "weighted_round_robin").replace('"1s"', '"0.5s", "blackoutPeriod": "1s"')
        options = [("grpc.service_config", service), ("grpc.enable_http_proxy", 0)]
        channel = stack.enter_context(grpc.insecure_channel(target, options=options))
        call = channel.unary_unary("/shop.Orders/Call")
        until_s = time.monotonic() + PATIENCE_S
        while True:
            answers = Counter(call(b"", timeout=PATIENCE_S, wait_for_ready=True) for _ in range(90))
            if answers[b"busy"] < 20 < 60 < answers[b"idle"]:  # 1 : 8, from a half each
                return
            assert time.monotonic() < until_s, f"{answers}, {(tmp_path / 'error.log').read_text()[-2000:]}"
            time.sleep(0.1)
