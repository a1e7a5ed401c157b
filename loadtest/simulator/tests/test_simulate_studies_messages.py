"""The messages of an upstream of any size: encoded by the real codecs, and their bytes."""

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from steelyard_protocol import sample_reader, table_chunks, traffic_report, weight_table, wire
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_simulator.studies import scale_messages as messages
from steelyard_simulator.studies.scale_messages import FETCH_INTERVAL_S, most_load_balancers, out_of_memcached

OPENRESTY = Path(__file__).parents[3] / "openresty"
LUA_PATH = f"{OPENRESTY}/steelyard/lib/?.lua;{OPENRESTY}/lua-resty-vnswrr/lib/?.lua"

# Encodes the document on standard input with nginx's own encoder.
ENCODE = """
local json = require "steelyard.core.json"
local null = require("cjson").null
local document = require("cjson.safe").decode(io.read("*a"))
document.figures = {}
for i = 1, #document.ids do
    local latency_ms = document.latency_ms[i]
    document.figures[i] = {
        completed = document.completed[i], failed = document.failed[i], in_flight = document.in_flight[i],
        latency_ms = latency_ms == null and json.null or latency_ms,
    }
end
io.write(require("steelyard.core.traffic_report").encode(document, function() end))
"""


def report(servers: int) -> bytes:
    done = [row % 3 for row in range(servers)]
    return messages.report("edge-1", messages.names(servers), done, [1] * servers)


def test_sample_is_one_that_the_controller_reads() -> None:
    sample = sample_reader.decode(messages.sample("server-0042", 7, 0.51234))
    assert isinstance(sample, SampleRecord)
    assert sample.peer == "server-0042"
    assert sample.utilization[0] == 0.5123


def test_report_is_one_that_the_controller_reads() -> None:
    decoded = traffic_report.decode(report(250))
    assert isinstance(decoded, TrafficReport)
    assert decoded.ids == list(messages.names(250))
    assert decoded.completed[1] == 1
    assert decoded.latency_ms[0] is None


@pytest.mark.integration
def test_report_has_the_size_of_the_one_that_nginx_writes() -> None:
    luajit = shutil.which("luajit")
    assert luajit is not None, "luajit is not installed: run `make setup-tests`"
    text = report(250)
    written = subprocess.run(
        [luajit, "-e", f"package.path = '{LUA_PATH};' .. package.path\n{ENCODE}"],
        input=text, capture_output=True, check=True, timeout=20,
    ).stdout  # fmt: skip
    assert json.loads(written) == json.loads(text)
    assert len(written) == len(text)


def test_names_of_a_fleet_have_one_length_and_are_in_order() -> None:
    names = messages.names(1000)
    assert {len(name) for name in names} == {len("server-0001")}
    assert list(names) == sorted(names)


def test_table_is_one_that_nginx_reads_with_weights_of_four_sizes() -> None:
    made = messages.uneven_table(4)
    assert weight_table.decode(weight_table.encode(made)) == made
    assert [peer.weight for peer in made.peers] == [100, 200, 300, 400]
    assert {peer.baseline for peer in made.peers} == {250}


def test_the_most_servers_fit_into_an_item_and_one_more_does_not() -> None:
    most = messages.most_servers_in_an_item()
    whole, larger = (len(weight_table.to_json(messages.uneven_table(count))) for count in (most, most + 1))
    assert whole <= table_chunks.ITEM_BYTES < larger


def test_nginx_reads_a_table_of_the_most_servers() -> None:
    most = messages.most_servers_in_a_table()
    assert most >= 50_000
    weight_table.encode(messages.uneven_table(most))


def test_a_load_balancer_more_reads_heads_and_has_its_report_read() -> None:
    one, many = out_of_memcached(5000, 1, 50_000.0), out_of_memcached(5000, 8, 400_000.0)
    head = len(weight_table.encode_head(messages.uneven_table(5000)))
    ten_each = messages.report("edge-1", messages.names(5000), [10] * 5000, [1] * 5000)
    assert many - one == pytest.approx(7 * (head / FETCH_INTERVAL_S + len(ten_each)), rel=0.01)


def test_most_load_balancers_is_where_the_link_is_full() -> None:
    limit = 2e6
    most = most_load_balancers(200, 10.0, limit)
    assert out_of_memcached(200, most, 2000.0) <= limit < out_of_memcached(200, most + 1, 2000.0)


def test_a_link_that_not_even_the_samples_fit_bears_no_load_balancer() -> None:
    assert most_load_balancers(1000, 10.0, 1000.0) == 0


@pytest.mark.integration
def test_memcached_answers_with_as_many_bytes() -> None:
    memcached = shutil.which("memcached")
    assert memcached is not None, "memcached is not installed: run `make setup-tests`"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    nobody = ["-u", "nobody"] if os.getuid() == 0 else []
    daemon = subprocess.Popen([memcached, "-U", "0", "-l", "127.0.0.1", "-p", str(port), *nobody])
    try:
        with _connected(port) as client:
            key = wire.head_key(messages.UPSTREAM)
            value = weight_table.encode_head(messages.uneven_table(1000))
            client.sendall(b"set %s 0 10 %d\r\n%s\r\n" % (key.encode(), len(value), value))
            assert client.recv(100) == b"STORED\r\n"
            client.sendall(b"get %s\r\n" % key.encode())
            answer = b""
            while not answer.endswith(b"END\r\n"):
                answer += client.recv(65536)
    finally:
        daemon.terminate()
        daemon.wait(10)
    assert messages.read_bytes(key, value) == len(answer)


def _connected(port: int) -> socket.socket:
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError("memcached does not listen after 5 s")
