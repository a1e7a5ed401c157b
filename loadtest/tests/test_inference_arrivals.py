"""The requests: traces as they are published, a generator with their distributions, loads made of them."""

import json
from collections.abc import Sequence
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.inference.arrivals import Arrival, generated, loaded, read
from steelyard_loadtest.inference.blocks import BLOCK_TOKENS
from steelyard_loadtest.inference.engine import cost_s

MOONCAKE = [
    json.dumps({"timestamp": at, "input_length": n, "output_length": 7, "hash_ids": ids})
    for at, n, ids in ((0, 600, [0, 1]), (0, 1024, [0, 2]), (3000, 1100, [0, 1, 3]), (6000, 5, [0]))
]
AZURE = ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:03.9799600,1025,10"]
AZURE += ["2023-11-16 18:17:04.0319600,3,8"]


def test_those_of_one_tick_of_mooncake_s_clock_are_spread_over_it() -> None:
    arrivals = read(MOONCAKE)
    assert [one.at_s for one in arrivals] == [0, 1.5, 3, 6]
    assert [one.block_ids for one in arrivals] == [(0, 1), (0, 2), (0, 1, 3), (0,)]


def test_no_two_prompts_of_azure_share_a_prefix() -> None:
    first, second = read(AZURE)
    assert round(second.at_s - first.at_s, 6) == 0.052
    assert (first.block_ids, second.block_ids) == ((1, 2, 3), (4,))


@pytest.mark.parametrize("lines", [[], ["{}"], ['{"timestamp": 1}'], ["a,b", "1,2"], AZURE[:1]])
def test_a_file_that_is_no_trace_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="a trace"):
        read(lines)


def test_equal_blocks_are_equal_text_and_the_last_is_cut() -> None:
    first, second, third, short = read(MOONCAKE)
    assert [len(one.prompt) for one in (first, second, third, short)] == [2400, 4096, 4400, 20]
    assert third.prompt.startswith(first.prompt[: 4 * BLOCK_TOKENS])
    assert third.prompt[:2400] == first.prompt
    assert [one.prefix for one in (first, second, third, short)] == [1, 2, 1, 0]


def cached(arrivals: Sequence[Arrival]) -> float:
    """Return the share of blocks that an endless cache would have."""
    seen, hits, total = set[int](), 0, 0
    for one in arrivals:
        new = [place for place, block in enumerate(one.block_ids) if block not in seen]
        hits += new[0] if new else len(one.block_ids)
        total += len(one.block_ids)
        seen.update(one.block_ids)
    return hits / total


def test_the_generator_has_the_distributions_of_mooncake_s_hour() -> None:
    # The hour: 12,031 requests of 12,035 and 343 tokens; median 6,909, p90 27,367; hits .366 of all blocks.
    arrivals = generated(Random(1), 12_031)
    inputs = sorted(one.input_tokens for one in arrivals)
    assert len(arrivals) == 12_031
    assert fmean(inputs) == pytest.approx(12_035, rel=0.1)
    assert [inputs[6015], inputs[10_828]] == pytest.approx([6909, 27_367], rel=0.1)
    assert fmean(one.output_tokens for one in arrivals) == pytest.approx(343, rel=0.05)
    assert cached(arrivals) == pytest.approx(0.366, abs=0.06)
    assert arrivals[-1].at_s - arrivals[0].at_s == pytest.approx(3600, rel=0.1)
    assert arrivals == sorted(arrivals, key=lambda one: one.at_s)


@given(st.floats(0.1, 1), st.floats(100, 900), st.sampled_from([1, 6]))
def test_a_load_costs_what_it_says_and_keeps_its_order(load: float, seconds: float, size: int) -> None:
    asked = loaded(HOUR, load=load, size=size, seconds=seconds)
    cost = sum(cost_s(one.input_tokens, one.output_tokens) for one in asked)
    assert asked[-1].at_s <= seconds
    if len(asked) > 1:
        assert cost / (size * asked[-1].at_s) == pytest.approx(load)
    assert [one.block_ids for one in asked] == [one.block_ids for one in HOUR[: len(asked)]]


def test_too_few_requests_for_a_load_are_refused() -> None:
    with pytest.raises(ValueError, match="take a longer trace"):
        loaded(HOUR[:10], load=0.5, size=6, seconds=900)


HOUR = generated(Random(2), 4000)
