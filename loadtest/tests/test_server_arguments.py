"""The demo server's query arguments: what is taken, what is refused, and what the refusal says."""

import pytest
from steelyard_loadtest.server.arguments import (
    BODY_BYTES,
    BURN_SECONDS,
    BURN_WORKERS,
    FILE_BYTES,
    SLEEP_MS,
    Argument,
    Problem,
    read,
)

EACH = pytest.mark.parametrize(
    "argument", [SLEEP_MS, BODY_BYTES, FILE_BYTES, BURN_SECONDS, BURN_WORKERS], ids=lambda it: str(it.name)
)


@EACH
def test_an_absent_argument_is_its_default_and_the_default_is_within_the_bounds(argument: Argument) -> None:
    assert read(argument, {"another": "7"}) == argument.default
    assert argument.lowest <= argument.default <= argument.highest


@EACH
def test_both_bounds_are_taken_and_their_neighbours_are_not(argument: Argument) -> None:
    assert read(argument, {argument.name: str(argument.lowest)}) == argument.lowest
    assert read(argument, {argument.name: str(argument.highest)}) == argument.highest
    assert isinstance(read(argument, {argument.name: str(argument.lowest - 1)}), Problem)
    assert isinstance(read(argument, {argument.name: str(argument.highest + 1)}), Problem)


@pytest.mark.parametrize(
    "text", ["", " 5", "5 ", "+5", "-5", "5.0", "5e1", "1_0", "0x5", "five", "nan", "٥", "²", "9" * 5000]
)
def test_what_is_no_plain_whole_number_is_refused(text: str) -> None:
    assert isinstance(read(SLEEP_MS, {"ms": text}), Problem)


def test_leading_zeros_are_still_a_number() -> None:
    assert read(SLEEP_MS, {"ms": "007"}) == 7


def test_a_refusal_names_the_argument_its_unit_and_its_bounds() -> None:
    refused = read(BURN_WORKERS, {"workers": "9"})
    assert isinstance(refused, Problem)
    assert refused.document() == {
        "type": "about:blank",
        "title": "Bad query argument",
        "status": 400,
        "detail": "workers must be a whole number of processes from 1 to 8",
        "argument": "workers",
        "unit": "processes",
        "lowest": 1,
        "highest": 8,
    }
