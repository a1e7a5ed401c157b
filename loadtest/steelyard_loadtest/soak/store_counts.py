"""What Memcached and Redis say of what they keep, from the words of their protocols. Pure."""

import re


def memcached_counts(answer: bytes) -> tuple[int | None, int | None]:
    """Return the items and their bytes from the answer to `stats`; None: it does not say."""
    found = dict(re.findall(rb"^STAT (curr_items|bytes) (\d+)\r?$", answer, re.MULTILINE))
    return _number(found.get(b"curr_items")), _number(found.get(b"bytes"))


def redis_used_bytes(answer: bytes) -> int | None:
    """Return used_memory from the answer to INFO memory; None: it does not say."""
    match = re.search(rb"^used_memory:(\d+)\r?$", answer, re.MULTILINE)
    return _number(match[1] if match else None)


def redis_keys(answer: bytes) -> int | None:
    """Return the number from the answer to DBSIZE, `:12`; None: it is none."""
    match = re.match(rb":(\d+)\r?\n?", answer)
    return _number(match[1] if match else None)


def _number(text: bytes | None) -> int | None:
    return None if text is None else int(text)
