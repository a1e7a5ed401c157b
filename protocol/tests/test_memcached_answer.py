"""Memcached's answers for many keys: any bytes in values, and answers cut at any byte."""

import random
from collections.abc import Mapping

import pytest
from steelyard_protocol import memcached_answer
from steelyard_protocol.memcached_answer import END, Answer

# Parts of answers, within a value.
PIECES = (b"", b"a", b"\r\n", b"\r", b"\n", b"END\r\n", b"VALUE b 0 1\r\nx\r\n", b"\xff\x85 ", b"{}" * 9)


def answer_of(values: Mapping[str, bytes], *, marked: bool = False) -> bytes:
    mark = b" 17" if marked else b""
    items = [b"VALUE %s 0 %d%s\r\n%s\r\n" % (k.encode(), len(v), mark, v) for k, v in values.items()]
    return b"".join(items) + b"END\r\n"


def test_the_values_are_those_of_their_lengths_wherever_the_answer_is_cut() -> None:
    draw = random.Random(1)
    for turn in range(60):
        values = {
            f"key-{number}": b"".join(draw.choices(PIECES, k=draw.randrange(6)))
            for number in range(draw.randrange(5))
        }
        marked = turn % 2 == 0
        answer = answer_of(values, marked=marked)
        marks = ["17"] * len(values) if marked else []
        whole = Answer([*values], [*values.values()], marks, END)
        assert memcached_answer.read(answer, marked=marked) == whole
        for cut in range(len(answer)):
            part = memcached_answer.read(answer[:cut], marked=marked)
            assert part.end is None
            assert part.values == whole.values[: len(part.values)]


@pytest.mark.parametrize("before", [b"", b"VALUE a 0 1\r\n1\r\n"])
def test_another_last_line_is_the_end(before: bytes) -> None:
    line = b"SERVER_ERROR out of memory"
    assert memcached_answer.read(before + line + b"\r\n", marked=False).end == line


def test_an_answer_that_comes_value_by_value_is_cut_once() -> None:
    answer = answer_of({f"key-{number}": b"{}" * 9 for number in range(20)})
    ends = [at + 2 for at in range(len(answer)) if answer[at : at + 2] == b"\r\n"]
    assert [end for end in ends if memcached_answer.may_have_ended(bytearray(answer[:end]))] == [len(answer)]
    for error in (b"ERROR", b"CLIENT_ERROR bad", b"SERVER_ERROR out of memory"):
        assert memcached_answer.may_have_ended(bytearray(answer[: ends[-2]] + error + b"\r\n"))


@pytest.mark.parametrize(
    "answer",
    [
        b"VALUE\r\nEND\r\n", b"VALUE a 0 -1\r\n\r\nEND\r\n", b"VALUE a 0 x\r\n",
        b"END\r\nEND\r\n", b"VALUE a 0 1\r\n1\r\nEND\r\nx", b"SERVER_ERROR x\r\nEND\r\n",
        b"VALUE a 0 1 5\r\n1\r\nEND\r\n", b"VALUE a 0 3\r\nabc\r\nVALUE a 0 -17\r\nEND\r\n", b"V" * 2000,
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises(ValueError, match="of Memcached's"):
        memcached_answer.read(answer, marked=False)


@pytest.mark.parametrize("key", ["", "a b", "a\r\nb", "é", "a" * 251, "a\x7f"])
def test_what_is_no_key_is_not_joined(key: str) -> None:
    assert memcached_answer.joined_keys(["a", "b" * 250]) == b"a " + b"b" * 250
    assert memcached_answer.joined_keys([key, "b"]) is None
    assert memcached_answer.joined_keys(["b", key]) is None
