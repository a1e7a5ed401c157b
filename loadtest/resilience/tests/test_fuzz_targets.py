"""Every decoder keeps its promises for some inputs; the fuzzer tries more of them."""

import logging
from collections.abc import Iterator
from random import Random

import pytest
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_resilience.fuzz import edits, generated, luajit
from steelyard_resilience.fuzz.target import ACCEPTED, Target, ViolationError, outcome_of, require
from steelyard_resilience.fuzz.targets import targets

TARGETS = targets()


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _named(target: Target) -> str:
    return target.name


@pytest.mark.parametrize("target", TARGETS, ids=_named)
def test_a_decoder_accepts_realistic_input(target: Target) -> None:
    assert ACCEPTED in {outcome_of(target, seed) for seed in target.seeds}


@pytest.mark.parametrize("target", TARGETS, ids=_named)
def test_a_decoder_keeps_its_promises_for_malformed_input(target: Target) -> None:
    random = Random(10)
    for _ in range(60):
        outcome_of(target, edits.an_input(random, target.seeds))


@pytest.mark.integration
@pytest.mark.parametrize("name", luajit.LUA)
def test_a_decoder_on_luajit_accepts_realistic_input_and_keeps_its_promises(name: str) -> None:
    random = Random(10)
    with luajit.judging() as ask:
        target = luajit.target(name, ask)
        assert ACCEPTED in {outcome_of(target, seed) for seed in target.seeds}
        for _ in range(200):
            outcome_of(target, edits.an_input(random, target.seeds))


@pytest.mark.integration
def test_a_broken_promise_of_luajit_is_a_violation_and_its_end_none() -> None:
    with luajit.judging() as ask:
        with pytest.raises(ViolationError, match="Lua: "):
            ask("lua-nothing", b"x")
        with pytest.raises(ProgramError, match="LuaJIT ended with"):
            ask("no target", b"x")


def test_no_two_targets_have_one_name() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)


def _of(judge: object) -> Target:
    assert callable(judge)
    return Target(name="t", about="", seeds=(b"good", b"bad!"), judge=judge)


def _breaks_at_an_x(data: bytes) -> str:
    require(b"x" not in data, "there is an x")
    return ACCEPTED


def test_an_input_that_breaks_a_promise_is_shrunk() -> None:
    tally = generated.run(_of(_breaks_at_an_x), seconds=60, seed=1)
    assert [violation.input for violation in tally.violations] == [b"x"]
    assert tally.violations[0].what == "there is an x"
    assert tally.tried == tally.accepted + 1


def test_an_exception_is_a_violation() -> None:
    def judge(data: bytes) -> str:
        return str(int(data))

    with pytest.raises(ViolationError, match="it raises ValueError: invalid literal"):
        outcome_of(_of(judge), b"x")


def test_inputs_are_counted_by_outcome() -> None:
    tally = generated.run(_of(lambda data: ACCEPTED if len(data) % 2 else "even"), seconds=0.1, seed=1)
    assert tally.tried == sum(tally.outcomes.values()) >= generated.LEAST
    assert set(tally.outcomes) == {ACCEPTED, "even"}
