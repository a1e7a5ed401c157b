"""CPU time of a real controller with fake Envoys and servers.

    PYTHONPATH=. .venv/bin/python controller/benchmarks/bench_xds.py

Every sample is new at every tick, so that every weight changes: the most work possible. Each fake Envoy has a
connection of its own, follows the upstream (delta) and acknowledges all messages. Once a second, it reports
on at most BUSY of the servers. The row of 0 Envoys is the cost of a tick by itself.
"""

import asyncio
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import grpc.aio
import psutil
import yaml
from pymemcache.client.base import Client
from steelyard_controller.xds import xds_messages
from steelyard_protocol import sample_record, wire
from steelyard_protocol.sample_record import SampleRecord

from testing.daemons import Daemon, free_port, memcached_in

OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
BUSY = 100
WARM_S, SECONDS = 6.0, 10.0
SERVERS, CLIENTS = (10, 100, 1000), (0, 1, 16, 256)
EDS = "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints"
LRS = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"


async def main() -> None:
    """Print a row for each number of servers and Envoys."""
    print(f"{'servers':>8} {'Envoys':>7} {'CPU ms/s':>9} {'answers/s an Envoy':>19}")
    for servers in SERVERS:
        hosts = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(1, servers + 1)]
        for clients in CLIENTS:
            cpu_ms, answers = await _measured(hosts, clients)
            print(f"{servers:>8} {clients:>7} {cpu_ms:>9.1f} {answers:>19.2f}", flush=True)


async def _measured(hosts: list[str], clients: int) -> tuple[float, float]:
    """Return the controller's CPU time a second, in ms, and how often each Envoy was sent new weights."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, api, xds = Path(name), free_port(), free_port()
        memcached = stack.enter_context(memcached_in(folder))
        config, peers = folder / "controller.yaml", [{"id": host, "address": f"{host}:80"} for host in hosts]
        config.write_text(yaml.safe_dump({"upstreams": {"web": {"peers": peers}}}))
        program = [sys.executable, "-m", "steelyard_controller", "--config", str(config)]
        program += ["--memcached", memcached.address, "--state-url", "memory://", "--log-level", "warning"]
        program += ["--api-port", str(api), "--xds-port", str(xds)]
        controller = Daemon(program, api, folder / "controller.log")
        controller.start()
        stack.callback(controller.kill)
        process = psutil.Process(controller.process.pid if controller.process else None)
        answered = [0] * clients
        tasks = [asyncio.create_task(_sample(memcached.port, hosts))]
        channels = [grpc.aio.insecure_channel(f"127.0.0.1:{xds}", options=OPTIONS) for _ in range(clients)]
        for number, channel in enumerate(channels):
            tasks.append(asyncio.create_task(_follow(channel, number, answered)))
            tasks.append(asyncio.create_task(_report(channel, number, hosts)))
        await asyncio.sleep(WARM_S)
        before, began_s, sent = process.cpu_times(), time.monotonic(), sum(answered)
        await asyncio.sleep(SECONDS)
        after, took_s = process.cpu_times(), time.monotonic() - began_s
        answers = (sum(answered) - sent) / took_s / max(1, clients)
        for task in tasks:
            if not task.cancel():
                task.result()  # a fake that has ended is no load
        await asyncio.gather(*tasks, *(each.close() for each in channels), return_exceptions=True)
    return 1000 * (after.user + after.system - before.user - before.system) / took_s, answers


async def _sample(port: int, hosts: list[str]) -> None:
    """Write a new sample of every server each second."""
    client, seq = Client(("127.0.0.1", port), no_delay=True), 0
    while True:
        seq += 1
        samples = {}
        for host in hosts:
            record = SampleRecord(
                upstream="web", peer=host, boot="b", seq=seq, taken_at_ms=0, interval_s=1.0,
                utilization=(random.uniform(0.05, 0.95), None, None, 0.4),  # noqa: S311
                capacity=(2.0, None, None, 2.0**31), scope="host",
            )  # fmt: skip
            samples[wire.sample_key("web", host)] = sample_record.encode(record)
        await asyncio.to_thread(client.set_many, samples, noreply=True)
        await asyncio.sleep(1.0)


async def _follow(channel: grpc.aio.Channel, number: int, answered: list[int]) -> None:
    """Take endpoints, and acknowledge them."""
    stream = channel.stream_stream(EDS)(wait_for_ready=True)
    node, request = {"id": f"edge-{number}"}, xds_messages.DeltaDiscoveryRequest
    asked = request(node=node, resource_names_subscribe=["web"], type_url=xds_messages.EDS_TYPE)
    while True:
        await stream.write(asked.SerializeToString())
        answer = xds_messages.DeltaDiscoveryResponse.FromString(await stream.read())
        answered[number] += 1
        asked = request(response_nonce=answer.nonce, type_url=xds_messages.EDS_TYPE)


async def _report(channel: grpc.aio.Channel, number: int, hosts: list[str]) -> None:
    """Report each second what some of the servers did."""
    stream = channel.stream_stream(LRS)(wait_for_ready=True)
    first, report = xds_messages.LoadStatsRequest(), xds_messages.LoadStatsRequest()
    first.node.id = f"edge-{number}"
    await stream.write(first.SerializeToString())
    cluster = report.cluster_stats.add(cluster_name="web")
    cluster.load_report_interval.FromMilliseconds(1000)
    locality = cluster.upstream_locality_stats.add()
    for host in random.sample(hosts, min(BUSY, len(hosts))):
        row = locality.upstream_endpoint_stats.add(total_successful_requests=9, total_requests_in_progress=1)
        row.address.socket_address.address, row.address.socket_address.port_value = host, 80
    while True:
        await asyncio.sleep(1.0)
        await stream.write(report.SerializeToString())


if __name__ == "__main__":
    asyncio.run(main())
