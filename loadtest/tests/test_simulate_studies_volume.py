"""Bytes through Memcached: counted as Memcached itself counts them."""

import os
import shutil
import socket
import subprocess
import time

import pytest
from steelyard_agent import wire
from steelyard_controller.pipeline import weight_table
from steelyard_loadtest.simulate.studies.scale import messages
from steelyard_loadtest.simulate.studies.scale.volume import (
    FETCH_INTERVAL_S,
    most_load_balancers,
    volume,
)


def test_what_grows_with_load_balancers_and_what_does_not() -> None:
    one, many = volume(100, 1, 1000.0), volume(100, 8, 8000.0)
    assert many.samples_in == one.samples_in
    assert many.table_in == one.table_in
    assert many.reports_in == pytest.approx(8 * one.reports_in, rel=0.01)
    assert many.table_out - one.table_out == pytest.approx(7 * one.table_bytes / FETCH_INTERVAL_S, rel=0.01)


def test_most_load_balancers_is_where_the_link_is_full() -> None:
    limit = 2e6
    most = most_load_balancers(200, 10.0, limit)
    assert volume(200, most, 2000.0).out_of <= limit < volume(200, most + 1, 2000.0).out_of


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
            key = wire.weights_key(messages.UPSTREAM).encode()
            value = weight_table.to_json(messages.uneven_table(1000))
            client.sendall(b"set %s 0 10 %d\r\n%s\r\n" % (key, len(value), value))
            assert client.recv(100) == b"STORED\r\n"
            client.sendall(b"get %s\r\n" % key)
            answer = b""
            while not answer.endswith(b"END\r\n"):
                answer += client.recv(65536)
    finally:
        daemon.terminate()
        daemon.wait(10)
    one, two = volume(1000, 1, 1000.0), volume(1000, 2, 1000.0)
    assert two.table_out - one.table_out == len(answer) / FETCH_INTERVAL_S


def _connected(port: int) -> socket.socket:
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError("memcached does not listen after 5 s")
