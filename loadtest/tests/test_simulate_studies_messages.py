"""The messages whose sizes are counted are those that the programs write and read."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from steelyard_agent import record
from steelyard_agent.record import SampleRecord
from steelyard_controller.pipeline import traffic, weight_table
from steelyard_controller.pipeline.traffic import TrafficReport
from steelyard_loadtest.simulate.studies.scale import messages

LUA = Path(__file__).parents[2] / "openresty" / "lua"

# Encodes the document on standard input with nginx's own encoder.
ENCODE = """
local json = require "steelyard.core.json"
local document = require("cjson.safe").decode(io.read("*a"))
for _, figures in pairs(document.peers) do
    if figures.latency_ms == require("cjson").null then figures.latency_ms = json.null end
end
io.write(require("steelyard.core.traffic").encode(document))
"""


def report(servers: int) -> bytes:
    done = [row % 3 for row in range(servers)]
    return messages.report("edge-1", messages.names(servers), 4217, done, [1] * servers, 4.0)


def test_sample_is_one_that_the_controller_reads() -> None:
    sample = record.decode(messages.sample("server-0042", 7, 0.51234))
    assert isinstance(sample, SampleRecord)
    assert sample.peer == "server-0042"
    assert sample.utilization[0] == 0.5123


def test_report_is_one_that_the_controller_reads() -> None:
    found = traffic.decode(report(250))
    assert isinstance(found, TrafficReport)
    assert len(found.peers) == 250
    assert found.peers["server-002"].completed == 1
    assert found.peers["server-001"].latency_ms is None


@pytest.mark.integration
def test_report_has_the_size_of_the_one_that_nginx_writes() -> None:
    luajit = shutil.which("luajit")
    assert luajit is not None, "luajit is not installed: run `make setup-tests`"
    text = report(250)
    written = subprocess.run(
        [luajit, "-e", f"package.path = '{LUA}/?.lua;' .. package.path\n{ENCODE}"],
        input=text, capture_output=True, check=True, timeout=20,
    ).stdout  # fmt: skip
    assert json.loads(written) == json.loads(text)
    assert len(written) == len(text)


def test_names_of_a_fleet_have_one_length_and_are_in_order() -> None:
    names = messages.names(1000)
    assert {len(name) for name in names} == {len("server-0001")}
    assert list(names) == sorted(names)


def test_table_holds_the_weights_it_was_given() -> None:
    made = messages.table(np.array([10.0, 20.0, 30.0]), np.array([20.0, 20.0, 20.0]))
    decoded = weight_table.decode(weight_table.encode(made))
    assert decoded == made
    assert [peer.weight for peer in made.peers] == [10, 20, 30]


def test_the_most_servers_fit_and_one_more_does_not() -> None:
    most = messages.most_servers_in_a_table()
    weight_table.encode(messages.uneven_table(most))
    with pytest.raises(weight_table.TableTooLarge):
        weight_table.encode(messages.uneven_table(most + 1))
