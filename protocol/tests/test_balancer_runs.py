"""The runs of load balancers: their lines, and reading them."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol import balancer_runs, wire
from steelyard_protocol.balancer_runs import MOST_UPSTREAMS, Run

EXAMPLES = json.loads((Path(__file__).parents[2] / "docs/contract/runs.json").read_text("utf-8"))
RUNS = [Run(**run) for run in EXAMPLES["runs"]]


def test_each_run_has_its_line() -> None:
    assert b"".join(balancer_runs.lines([run]) for run in RUNS) == EXAMPLES["lines"].encode()
    assert list(balancer_runs.read([EXAMPLES["lines"].encode()])) == RUNS


def test_the_first_upstreams_by_name_have_lines() -> None:
    runs = [Run(f"web-{n}", "edge-1", "n1", 1) for n in range(MOST_UPSTREAMS, -1, -1)]
    assert list(balancer_runs.read([balancer_runs.lines(runs)])) == sorted(runs)[:MOST_UPSTREAMS]


def test_what_is_no_line_is_left_out() -> None:
    values = ["\n".join(EXAMPLES["no_lines"]).encode() + b"\n\xff\xff n1 1\nweb edge-1 n1 7"]
    assert list(balancer_runs.read(values)) == [Run("web", "edge-1", "n1", 7)]


@given(st.lists(st.binary(max_size=100)))
def test_whatever_is_there_only_names_and_numbers_come_out(values: list[bytes]) -> None:
    for run in balancer_runs.read(values):
        assert all(map(wire.is_name, run[:3]))
        assert run.seq < 10**16
