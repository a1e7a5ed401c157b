"""JSON that people or their programs wrote: each key once, no NaN or Infinity. Pure.

Two JSON parsers may read such a text differently. Python's own keeps the last of two equal keys in silence.
"""

import json


def parse(text: str) -> object:
    """Return the value of a text; raise ValueError, which is a JSONDecodeError if it is not JSON at all.

    A text that is nested too deeply raises RecursionError, as `json.loads` does.
    """
    value: object = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    return value


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON number")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) < len(pairs):
        known: set[str] = set()
        for key, _ in pairs:
            if key in known:
                raise ValueError(f"{key[:64]!r} occurs twice in one object: leave one out")
            known.add(key)
    return document
