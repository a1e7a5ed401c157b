"""Memcached's answer to `get` or `gets` with many keys, read as a whole.

Pure.

    VALUE <key> <flags> <length>[ <mark>]    followed by the value in a line of its own, for each existing key
    END

A controller reads tens of thousands of values in a tick. So an answer is cut into its lines at once, without
a call for each value. A value that has a line break itself does not have the announced length then, and the
values are cut one by one.
"""

from collections.abc import Sequence
from typing import NamedTuple

LONGEST_KEY = 250

# No line of Memcached's is as long, beside the values.
LONGEST_LINE = 1024

END = b"END"

ERRORS = (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")
"""The beginnings of the last line of an answer that is not complete."""


class Answer(NamedTuple):
    """The values of existing keys, and their marks if the command was `gets`.

    `end` is the line after the last value: `END`, or another one if the server fails. None: the answer goes
    on.
    """

    keys: list[str]
    values: list[bytes]
    marks: list[str]
    end: bytes | None


def joined_keys(keys: Sequence[str]) -> bytes | None:
    """Return keys with a space between two; None if one of them is no key of Memcached's."""
    text = " ".join(keys)
    if not (text.isascii() and text.isprintable()) or text.count(" ") != len(keys) - 1:
        return None
    lengths = list(map(len, keys))
    return text.encode() if min(lengths) > 0 and max(lengths) <= LONGEST_KEY else None


def may_have_ended(answer: bytearray) -> bool:
    """Return whether an answer may be whole; a part of a value may look like its end.

    A proxy may send each value in a packet of its own. All of them would be cut again for each packet.
    """
    if answer.endswith(b"END\r\n") or not answer.startswith(b"VALUE "):
        return True
    return answer.endswith(b"\r\n") and answer.startswith(ERRORS, answer.rfind(b"\r\n", 0, -2) + 2)


def read(answer: bytes, *, marked: bool) -> Answer:
    """Return the values in the part of an answer that has arrived.

    `marked` tells whether they have marks. Raises ValueError for an answer that is not Memcached's, or with
    more bytes after its end: the next answer would begin with them.
    """
    words = 5 if marked else 4
    return _by_lines(answer, words) or _one_by_one(answer, words)


def _by_lines(answer: bytes, count: int) -> Answer | None:
    """Return the values of a whole answer whose values have no line breaks; None: it may be another one."""
    lines = answer.split(b"\r\n")
    if lines[-2:] != [END, b""]:
        return None
    heads, values = lines[:-2:2], lines[1:-2:2]
    # Latin-1 decodes every byte, and some of these lines may be parts of values.
    words = b" ".join(heads).decode("latin-1").split()
    if len(words) != count * len(values) or words[::count].count("VALUE") != len(values):
        return None
    if words[3::count] != list(map(str, map(len, values))):
        return None
    return Answer(words[1::count], values, words[4::count] if count > 4 else [], END)


def _one_by_one(answer: bytes, count: int) -> Answer:
    keys, values, marks = list[str](), list[bytes](), list[str]()
    at = 0
    while (line_end := answer.find(b"\r\n", at)) >= 0:
        line = answer[at:line_end]
        words = line.decode("latin-1").split()
        if words[:1] != ["VALUE"]:
            if line_end + 2 < len(answer):
                raise ValueError("this is no answer of Memcached's: it goes on after its end")
            return Answer(keys, values, marks, line)
        if len(words) != count or not words[3].isdecimal():
            raise ValueError(f"this is no value of Memcached's: {line[:LONGEST_LINE]!r}")
        begins, at = line_end + 2, line_end + 2 + int(words[3]) + 2
        if at > len(answer):
            return Answer(keys, values, marks, None)
        keys.append(words[1])
        values.append(answer[begins : at - 2])
        marks += words[4:]
    if len(answer) - at > LONGEST_LINE:
        raise ValueError("this is no answer of Memcached's: a line does not end")
    return Answer(keys, values, marks, None)
