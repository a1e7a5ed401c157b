"""The engine's model and its blocks: tokens are conserved, blocks are bounded, and order is kept."""

from collections.abc import Sequence as Items

from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.inference.blocks import BLOCK_TOKENS, Blocks
from steelyard_loadtest.inference.engine import (
    CHUNK,
    MOST_RUNNING,
    PREFILL_PER_S,
    SEQUENCE_S,
    WEIGHTS_S,
    Engine,
    Sequence,
    cost_s,
)  # fmt: skip


def asked(keys: Items[int], more: int = 1, output: int = 5) -> Sequence:
    tokens = len(keys) * BLOCK_TOKENS + more
    return Sequence(keys=tuple(keys), input_tokens=tokens, output_tokens=output)


def worked_off(engine: Engine) -> float:
    """Return how long it takes until nothing is left."""
    total_s = 0.0
    while (step := engine.step())[0]:
        total_s += step[0]
    return total_s


def test_a_prompt_is_computed_in_chunks_and_its_first_token_comes_with_the_last_one() -> None:
    engine, one = Engine(), asked([1, 2, 3], more=1, output=2)
    engine.add(one)
    steps = [engine.step() for _ in range(5)]
    chunk_s = CHUNK / PREFILL_PER_S
    assert [round(took_s, 6) for took_s, _ in steps] == [
        *[round(chunk_s, 6)] * 3, *[round(WEIGHTS_S + SEQUENCE_S, 6)] * 2
    ]  # fmt: skip
    assert [len(got) for _, got in steps] == [0, 0, 0, 1, 1]
    assert engine.step() == (0.0, [])


def test_what_is_cached_is_not_computed_again_but_for_the_last_token() -> None:
    engine = Engine()
    for keys, more, computed in (
        ([1, 2], 1, 2 * BLOCK_TOKENS + 1),
        ([1, 2, 3], 0, BLOCK_TOKENS),
        ([1, 2], 0, 1),
    ):
        before = engine.totals["computed_tokens"]
        engine.add(asked(keys, more))
        worked_off(engine)
        assert engine.totals["computed_tokens"] - before == computed


def test_equal_prompts_at_a_time_are_both_computed() -> None:
    engine = Engine()
    engine.add(asked([1, 2]))
    engine.add(asked([1, 2]))
    worked_off(engine)
    assert engine.totals["cached_tokens"] == 0
    assert (engine.blocks.held, engine.blocks.used) == (0, 2)


def test_an_engine_of_twice_the_size_takes_half_the_time_and_one_that_slowed_more() -> None:
    times_s = []
    for size, speed in ((1, 1.0), (2, 1.0), (2, 0.5)):
        engine = Engine(size=size, speed=speed)
        engine.add(asked(range(20)))
        times_s.append(worked_off(engine))
    assert times_s == [times_s[0], times_s[0] / 2, times_s[0]]


def test_no_more_run_than_may_and_the_first_to_come_is_the_first_to_run() -> None:
    engine, all_of_them = Engine(), [asked([n]) for n in range(MOST_RUNNING + 3)]
    for one in all_of_them:
        engine.add(one)
    engine.step()
    assert engine.running == all_of_them[:MOST_RUNNING]
    engine.leave(all_of_them[0])
    engine.leave(all_of_them[MOST_RUNNING])
    engine.step()
    assert engine.running == [*all_of_them[1:MOST_RUNNING], all_of_them[MOST_RUNNING + 1]]


def test_what_would_never_fit_is_refused() -> None:
    engine = Engine()
    assert not engine.add(asked(range(engine.blocks.capacity)))
    assert engine.step() == (0.0, [])


def test_the_least_recently_used_block_goes_first() -> None:
    blocks = Blocks(4)
    for keys in ((1, 2), (3, 4), (1, 2)):
        taken = blocks.take(keys, 2)
        assert taken is not None
        blocks.computed(keys[taken:])
        blocks.release(keys, 0)
    assert blocks.take((5,), 1) == 0
    blocks.computed((5,))
    assert [blocks.matched((key,)) for key in (1, 2, 3, 4)] == [1, 1, 1, 0]


def test_a_saturated_engine_does_what_the_cost_says() -> None:
    engine, requests = Engine(), 40
    for number in range(requests):
        engine.add(asked(range(20 * number, 20 * (number + 1)), more=0, output=300))
    took_s = worked_off(engine)
    # Above it by the end, when little is left to be computed beside the answers.
    assert 1 <= took_s / (requests * cost_s(20 * BLOCK_TOKENS, 300)) < 1.3


prompts = st.tuples(
    st.lists(st.integers(0, 6), max_size=5),
    st.integers(1, BLOCK_TOKENS - 1),
    st.integers(1, 700),
    st.sampled_from(["stay", "stay", "leave"]),
    st.integers(0, 6),
)


def prefixes(words: Items[int]) -> tuple[int, ...]:
    """Return each block's key, which stands for all earlier blocks, too."""
    return tuple(hash(tuple(words[: at + 1])) for at in range(len(words)))


@given(st.lists(prompts, max_size=30), st.integers(6, 20))
def test_tokens_are_conserved_and_blocks_bounded_whatever_comes(
    script: list[tuple[list[int], int, int, str, int]], capacity: int
) -> None:
    engine = Engine(blocks=Blocks(capacity))
    stayed, left = list[Sequence](), list[Sequence]()

    def step() -> None:
        took_s, got = engine.step()
        assert took_s >= 0
        assert len(engine.running) <= MOST_RUNNING
        assert engine.blocks.used <= capacity
        assert engine.blocks.private >= 0
        assert not {id(one) for one in got} & {id(one) for one in left}

    for words, more, output, what, steps in script:
        one = asked(prefixes(words), more, output)
        if not engine.add(one):
            assert one.blocks > capacity
            continue
        for _ in range(steps):
            step()
        if what == "leave" and not one.ended:
            engine.leave(one)
            left.append(one)
        else:
            stayed.append(one)
    while engine.waiting or engine.running:
        step()
    totals = engine.totals
    assert all(one.produced == one.output_tokens for one in stayed)
    assert totals["generated_tokens"] == sum(one.produced for one in (*stayed, *left))
    # Tokens that were not computed for requests that left are missing.
    missing = sum(one.to_compute for one in left)
    assert totals["computed_tokens"] == totals["prompt_tokens"] - totals["cached_tokens"] - missing
    assert engine.blocks.held == 0
